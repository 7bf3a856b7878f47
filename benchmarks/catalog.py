"""The manifest catalog against pylance's own client: single operations at four sizes, many
callers at once, memory, and requests.

Times are taken on a local disk, in turns, each side on its own copy of the same catalog.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import lance_namespace as api
import pyarrow as pa

from benchmarks import _catalogs as catalogs
from benchmarks._catalogs import Pair
from benchmarks._load import contend
from benchmarks._requests import count_requests
from benchmarks.measure import (
    MOST_ROUNDS,
    Contest,
    Count,
    contest,
    file_system_of,
    quick_from,
    show_contests,
    show_counts,
)
from tests.kit.servers import NotInstalled

SIZES = (100, 1_000, 10_000, 100_000)
READING_GOAL = 20.0
LISTING_GOAL = 10.0
DECLARING_GOALS = {100: 1.3, 1_000: 1.3, 10_000: 5.0, 100_000: 30.0}
NOT_SLOWER = 1.0
WITHIN_TWICE = 0.5
V1_SIZES = (100, 10_000)
BYTES_PER_TABLE = 500
# Longer than the disk's clock needs to tell two changes apart.
WARM_UP_SECONDS = 0.4
READS_IN_A_ROW = 10
WRITES_IN_A_ROW = 4

Act = Callable[[api.LanceNamespace], object]


def main(*, quick: bool = False) -> int:
    """Print everything; returns how many rows miss their goal."""
    sizes = [size for size in SIZES if size <= 1_000 or not quick]
    where = f"{file_system_of(tempfile.gettempdir())}, {tempfile.gettempdir()}"
    behind = 0
    for size in sizes:
        behind += show_contests(f"V2, {size:,} tables ({where})", _v2(size))
    for size in V1_SIZES[:1] if quick else V1_SIZES:
        title = f"Compatibility, {size:,} tables at V1 locations ({where})"
        behind += show_contests(title, _v1_located(size))
    behind += contend(quick=quick)
    behind += show_counts(f"Bytes per table, warm, {sizes[-1]:,} tables", _memory(sizes[-1]))
    try:
        return behind + count_requests(quick=quick)
    except NotInstalled as missing:
        print(f"requests are not counted: {missing}")
        return behind


def _v2(size: int) -> list[Contest]:
    both = catalogs.pair(size)
    name = catalogs.table_name(size // 2)
    assert catalogs.list_tables(both.ours) == sorted(catalogs.list_tables(both.theirs))
    describe, exists = _finding(name)
    _warm(both, describe)
    return [
        _reading(both, "describe_table", describe, READING_GOAL),
        _reading(both, "table_exists", exists, READING_GOAL),
        _reading(both, "list_tables", catalogs.list_tables, LISTING_GOAL),
        _reading(both, "list_tables, 10", lambda c: catalogs.list_tables(c, 10), LISTING_GOAL),
        _writing(both, "declare_table", _each_time(catalogs.declare), DECLARING_GOALS[size]),
        _writing(both, "create_table", _each_time(catalogs.create), NOT_SLOWER),
        _dropping(both),
        _writing(both, "create_namespace", _each_time(catalogs.create_namespace), NOT_SLOWER),
    ]


def _v1_located(size: int) -> list[Contest]:
    both = catalogs.pair(size, catalogs.COMPATIBILITY, directories=True)
    describe, exists = _finding(catalogs.table_name(size // 2))
    _warm(both, describe)
    return [
        _reading(both, "describe_table", describe, WITHIN_TWICE),
        _reading(both, "table_exists", exists, WITHIN_TWICE),
    ]


def _finding(name: str) -> tuple[Act, Act]:
    described, looked_for = api.DescribeTableRequest(id=[name]), api.TableExistsRequest(id=[name])
    return lambda c: c.describe_table(described), lambda c: c.table_exists(looked_for)


def _dropping(both: Pair) -> Contest:
    """Of tables that hold something."""
    found = [f"doomed_{number}" for number in range((MOST_ROUNDS + 1) * WRITES_IN_A_ROW)]
    for name in found:
        catalogs.create(both.ours, name)
        catalogs.create(both.theirs, name)
    turns: dict[api.LanceNamespace, itertools.count[int]] = {}

    def drop(client: api.LanceNamespace) -> None:
        catalogs.drop(client, found[next(turns.setdefault(client, itertools.count()))])

    return _writing(both, "drop_table", drop, NOT_SLOWER)


def _reading(both: Pair, what: str, act: Act, goal: float) -> Contest:
    return _compare(both, what, act, READS_IN_A_ROW, goal)


def _writing(both: Pair, what: str, act: Act, goal: float) -> Contest:
    return _compare(both, what, act, WRITES_IN_A_ROW, goal)


def _compare(both: Pair, what: str, act: Act, in_a_row: int, goal: float) -> Contest:
    """Several calls a turn, both sides alike: what the turn of the other left in the processor's
    caches is not what is measured."""

    def batch(client: api.LanceNamespace) -> None:
        for _ in range(in_a_row):
            act(client)

    found = contest(what, lambda: batch(both.ours), lambda: batch(both.theirs), goal=goal)
    return replace(found, ours=found.ours / in_a_row, theirs=found.theirs / in_a_row)


def _each_time(act: Callable[[api.LanceNamespace, str], object]) -> Act:
    """With a name that was never used."""
    numbers = itertools.count()
    return lambda client: act(client, f"{act.__name__}_{next(numbers)}")


def _warm(both: Pair, act: Act) -> None:
    until = time.perf_counter() + WARM_UP_SECONDS
    while time.perf_counter() < until:
        act(both.ours)
        act(both.theirs)


def _memory(size: int) -> list[Count]:
    """In processes of their own, where the libraries are loaded and nothing else is."""
    context = multiprocessing.get_context("spawn")
    grown = {}
    small, large = catalogs.pair(1), catalogs.pair(size)
    roots = {
        True: (small.our_root, large.our_root),
        False: (small.their_root, large.their_root),
    }
    for is_ours, (one, many) in roots.items():
        for measure in (_objects, _resident):
            with ProcessPoolExecutor(1, context) as pool:
                task = pool.submit(_growth, measure, is_ours, one, many)
                grown[measure, is_ours] = task.result() // size
    return [
        Count("Python and Arrow", grown[_objects, True], grown[_objects, False], BYTES_PER_TABLE),
        Count("resident", grown[_resident, True], grown[_resident, False], 2 * BYTES_PER_TABLE),
    ]


def _growth(measure: Callable[[], int], is_ours: bool, small: str, large: str) -> int:
    opened = catalogs.open_ours if is_ours else catalogs.open_theirs
    if measure is _objects:
        tracemalloc.start()
    kept = [opened(small, catalogs.V2), opened(large, catalogs.V2)]
    _use(kept[0])
    gc.collect()
    before = measure()
    _use(kept[1])
    gc.collect()
    return measure() - before


def _objects() -> int:
    return tracemalloc.get_traced_memory()[0] + int(pa.total_allocated_bytes())


def _use(client: api.LanceNamespace) -> None:
    catalogs.list_tables(client)
    catalogs.describe(client, catalogs.table_name(0))


def _resident() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from()) else 0)
