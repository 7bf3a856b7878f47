"""Commits to tables: what an append costs with and without version tracking, against pylance's own
client, and how many commits managed versions take with many writers on different tables.

Times are taken on a local disk, in turns, each side on a catalog of its own.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping

import lance
import lance_namespace as api

import tiltyard
from benchmarks import _catalogs as catalogs
from benchmarks._catalogs import COMPATIBILITY, ROWS, V2
from benchmarks.measure import Contest, contest, file_system_of, quick_from, show_contests

# At most 1.3 times as slow.
APPEND_GOAL = 1 / 1.3
TRACKED: Mapping[str, str] = {"table_version_tracking_enabled": "true"}
IN_A_ROW = 5
WRITERS = (1, 8, 32)
MANY = 32
SHARED_GOAL = 5.0
SECONDS = 4.0
ROUNDS = 3


def main(*, quick: bool = False) -> int:
    """Print everything; returns how many rows miss their goal."""
    where = f"{file_system_of(tempfile.gettempdir())}, {tempfile.gettempdir()}"
    appends = [
        _append("append, not tracked", V2),
        _append("append, tracked", {**V2, **TRACKED}),
        _append("append, tracked, <name>.lance", {**COMPATIBILITY, **TRACKED}),
        _append("append to an open table, tracked", {**V2, **TRACKED}, opened=True),
    ]
    behind = show_contests(f"{IN_A_ROW} appends, ours against pylance's ({where})", appends)
    return behind + show_contests(
        f"One managed commit, with so many writers against with one ({where})",
        _shared(seconds=0.5 if quick else SECONDS, rounds=1 if quick else ROUNDS),
    )


def _append(what: str, mode: Mapping[str, str], *, opened: bool = False) -> Contest:
    with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
        return contest(
            what,
            _appending(catalogs.open_ours(ours, mode), opened),
            _appending(catalogs.open_theirs(theirs, mode), opened),
            goal=APPEND_GOAL,
        )


def _appending(catalog: api.LanceNamespace, opened: bool) -> Callable[[], None]:
    table = {"namespace_client": catalog, "table_id": ["t"]}
    dataset = lance.write_dataset(ROWS, **table)

    def append() -> None:
        for _ in range(IN_A_ROW):
            if opened:
                dataset.insert(ROWS)
            else:
                lance.write_dataset(ROWS, mode="append", **table)

    return append


def _shared(*, seconds: float, rounds: int) -> list[Contest]:
    """Rates in turns; a contest of seconds a commit, so that more writers are faster."""
    with tempfile.TemporaryDirectory() as root:
        catalog = tiltyard.connect(root, **V2)
        catalog.manage_versions()
        for number in range(MANY):
            lance.write_dataset(ROWS, namespace_client=catalog, table_id=[f"t{number}"])
        rates: dict[int, list[float]] = {count: [] for count in WRITERS}
        for _ in range(rounds):
            for count, found in rates.items():
                found.append(_rate(catalog, count, seconds))
    best = {count: max(found) for count, found in rates.items()}
    return [
        Contest(
            f"{count} writers, {best[count]:.0f} commits a second",
            1 / best[count],
            1 / best[1],
            rounds,
            goal=SHARED_GOAL if count == MANY else 1.0,
        )
        for count in WRITERS
    ]


def _rate(catalog: tiltyard.DirectoryNamespace, writers: int, seconds: float) -> float:
    """Commits a second by so many threads, each on a table of its own."""
    done = [0] * writers
    start = threading.Barrier(writers + 1)
    end = threading.Event()

    def write(number: int) -> None:
        table = lance.dataset(namespace_client=catalog, table_id=[f"t{number}"])
        start.wait()
        while not end.is_set():
            table.insert(ROWS)
            done[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    start.wait()
    began = time.perf_counter()
    end.wait(seconds)
    end.set()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from()) else 0)
