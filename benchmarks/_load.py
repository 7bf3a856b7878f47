"""Many threads or processes that declare tables at once: how many per second, how long each
waits, and how many are refused."""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import lance_namespace as api
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks._catalogs import V2, declare, list_tables, open_ours, open_theirs, pair

CATALOG_SIZE = 100
ROUNDS = 3
SECONDS_TO_MEET = 60


@dataclass(frozen=True)
class Load:
    """What came of a number of declares."""

    acknowledged: int
    failed: int
    seconds: float
    waits: Sequence[float]

    @property
    def rate(self) -> float:
        return self.acknowledged / self.seconds

    def percentile(self, percent: int) -> float:
        if len(self.waits) < 2:
            return self.waits[0] if self.waits else 0.0
        return statistics.quantiles(self.waits, n=100, method="inclusive")[percent - 1]


@dataclass(frozen=True)
class Duel:
    """Both under the same load; `goal` is by which factor our throughput should be higher."""

    what: str
    ours: Load
    theirs: Load
    goal: float

    @property
    def ratio(self) -> float:
        return self.ours.rate / self.theirs.rate

    @property
    def passed(self) -> bool:
        return self.ratio >= self.goal and not self.ours.failed


def threads(number: int, each: int, *, goal: float) -> Duel:
    """Threads on one client, ours and the peer's in turns; of the rounds, the median one."""

    def run(client: api.LanceNamespace, lap: int) -> Load:
        return _with_threads(client, number, each, lap)

    both = pair(CATALOG_SIZE)
    laps = [(run(both.ours, lap), run(both.theirs, lap)) for lap in range(ROUNDS)]
    _check(both.ours, [ours for ours, _ in laps])
    return Duel(f"{number} x {each} threads", *_medians(laps), goal)


def processes(number: int, each: int, *, goal: float) -> Duel:
    """Processes with a client each, in turns as above."""
    context = multiprocessing.get_context("forkserver")
    ready = context.Barrier(number)
    both = pair(CATALOG_SIZE)
    with ProcessPoolExecutor(number, context, _remember, (ready,)) as pool:

        def run(root: str, is_ours: bool, lap: int) -> Load:
            tasks = [
                pool.submit(_declare_alone, root, is_ours, f"p{lap}_{worker}", each)
                for worker in range(number)
            ]
            return _summed([task.result() for task in tasks])

        laps = [
            (run(both.our_root, True, lap), run(both.their_root, False, lap))
            for lap in range(ROUNDS)
        ]
        _check(both.ours, [ours for ours, _ in laps])
    return Duel(f"{number} x {each} processes", *_medians(laps), goal)


def _check(client: api.LanceNamespace, loads: Sequence[Load]) -> None:
    expected = CATALOG_SIZE + sum(load.acknowledged for load in loads)
    found = len(list_tables(client))
    assert found == expected, f"{found} tables, and {expected} were acknowledged"


def _medians(laps: Sequence[tuple[Load, Load]]) -> tuple[Load, Load]:
    ours, theirs = zip(*laps, strict=True)
    return _median(ours), _median(theirs)


def _median(loads: Sequence[Load]) -> Load:
    return sorted(loads, key=lambda load: load.rate)[len(loads) // 2]


# -- one side, once

_ready: Callable[[float], int] | None = None


def _with_threads(client: api.LanceNamespace, number: int, each: int, lap: int) -> Load:
    ready = threading.Barrier(number)

    def work(worker: int) -> Load:
        ready.wait(SECONDS_TO_MEET)
        return _declare(client, f"t{lap}_{worker}", each)

    with ThreadPoolExecutor(number) as pool:
        return _summed(list(pool.map(work, range(number))))


def _remember(ready: threading.Barrier) -> None:
    global _ready
    _ready = ready.wait


def _declare_alone(root: str, is_ours: bool, prefix: str, number: int) -> Load:
    client = open_ours(root, V2) if is_ours else open_theirs(root, V2)
    list_tables(client)
    assert _ready is not None
    _ready(SECONDS_TO_MEET)
    return _declare(client, prefix, number)


def _declare(client: api.LanceNamespace, prefix: str, number: int) -> Load:
    waits, failed = [], 0
    began = time.perf_counter()
    for turn in range(number):
        start = time.perf_counter()
        try:
            declare(client, f"{prefix}_{turn}")
        except (api.LanceNamespaceError, RuntimeError, OSError):
            failed += 1
        else:
            waits.append(time.perf_counter() - start)
    return Load(len(waits), failed, time.perf_counter() - began, waits)


def _summed(loads: Sequence[Load]) -> Load:
    """Workers that ran side by side: the slowest one's time is everybody's."""
    return Load(
        sum(load.acknowledged for load in loads),
        sum(load.failed for load in loads),
        max(load.seconds for load in loads),
        [wait for load in loads for wait in load.waits],
    )


def show(title: str, duels: Sequence[Duel]) -> int:
    """Print the loads as a table; returns how many miss their goal."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    table.padding = (0, 1, 0, 0)
    table.add_column("", no_wrap=True)
    for header in ("ours", "ms", "peer", "ms", "failed", "ratio", "goal"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for duel in duels:
        table.add_row(
            duel.what,
            *_columns(duel.ours),
            *_columns(duel.theirs),
            f"{duel.ours.failed}:{duel.theirs.failed}",
            f"{duel.ratio:.1f}x",
            f"{duel.goal:g}x",
            "[green]PASS[/]" if duel.passed else "[yellow]behind[/]",
        )
    Console().print(table)
    return sum(not duel.passed for duel in duels)


def _columns(load: Load) -> tuple[str, str]:
    p50, p99 = (load.percentile(percent) * 1000 for percent in (50, 99))
    return f"{load.rate:,.0f}/s", f"{p50:.0f}/{p99:.0f}"


def contend(*, quick: bool) -> int:
    """Print all loads; returns how many miss their goal."""
    plans = [(1, 64, 1.3), (8, 16, 4.0), (32, 8, 10.0), (64, 8, 10.0)]
    duels = [
        threads(number, each, goal=goal) for number, each, goal in (plans[:2] if quick else plans)
    ]
    # Nothing is shared between processes, so only the cost of one commit can be lower.
    duels.append(processes(4, 8 if quick else 32, goal=1.0))
    where = tempfile.gettempdir()
    return show(f"declare_table at once, ms as p50/p99 ({where})", duels)
