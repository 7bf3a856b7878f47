"""How two ways of doing the same thing are compared: in turns, in one process, by their medians.

Times on a shared machine wander by a factor of two, so a benchmark states a ratio and the goal for
it. Rounds are bounded in number and in time. Counts are exact and have goals of their own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

MOST_ROUNDS = 15
FEWEST_ROUNDS = 3
BUDGET_SECONDS = 45.0
WARM_UP_SECONDS = 2.0


@dataclass(frozen=True)
class Contest:
    """What one comparison came to: medians in seconds, and by which factor we should be faster."""

    what: str
    ours: float
    theirs: float
    rounds: int
    goal: float

    @property
    def ratio(self) -> float:
        return self.theirs / self.ours

    @property
    def passed(self) -> bool:
        return self.ratio >= self.goal


@dataclass(frozen=True)
class Count:
    """How many requests something took, and how many it may take."""

    what: str
    ours: int
    theirs: int
    goal: int

    @property
    def passed(self) -> bool:
        return self.ours <= self.goal


@dataclass(frozen=True)
class Rate:
    """How often a second many did something at once, and how often one alone; by which factor the
    many should be faster, if anybody said."""

    what: str
    per_second: float
    alone: float
    goal: float | None = None

    @property
    def ratio(self) -> float:
        return self.per_second / self.alone

    @property
    def passed(self) -> bool:
        return self.goal is None or self.ratio >= self.goal


def contest(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], *, goal: float
) -> Contest:
    """Let both do it in turns, and begin in turns.

    The first round warms up, if it is short enough to be repeated.
    """
    began = time.perf_counter()
    times = [(_timed(ours), _timed(theirs))]
    if time.perf_counter() - began < WARM_UP_SECONDS:
        times.clear()
    while len(times) < MOST_ROUNDS:
        # One more round must fit into the budget, unless there are too few for a median.
        per_round = sum(map(sum, times)) / max(len(times), 1)
        over = time.perf_counter() - began + per_round > BUDGET_SECONDS
        if over and (len(times) >= FEWEST_ROUNDS or per_round > BUDGET_SECONDS / 2):
            break
        if len(times) % 2:  # who comes second finds what the first has left behind
            second = _timed(theirs)
            times.append((_timed(ours), second))
        else:
            times.append((_timed(ours), _timed(theirs)))
    mine, other = zip(*times, strict=True)
    return Contest(what, statistics.median(mine), statistics.median(other), len(times), goal)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def show_contests(title: str, contests: Sequence[Contest]) -> int:
    """Print comparisons as a table; returns how many miss their goal."""
    table = _table(title, "", "ours", "peer", "ratio", "goal", "rounds", "")
    for each in contests:
        table.add_row(
            each.what,
            _milliseconds(each.ours),
            _milliseconds(each.theirs),
            f"{each.ratio:.1f}x",
            f">= {each.goal:g}x",
            str(each.rounds),
            _verdict(each.passed),
        )
    return _print(table, [each.passed for each in contests])


def show_rates(title: str, rates: Sequence[Rate]) -> int:
    """Print rates as a table; returns how many miss their goal."""
    table = _table(title, "", "a second", "against one", "goal", "")
    for each in rates:
        table.add_row(
            each.what,
            f"{each.per_second:,.0f}",
            f"{each.ratio:.1f}x",
            "" if each.goal is None else f">= {each.goal:g}x",
            "" if each.goal is None else _verdict(each.passed),
        )
    return _print(table, [rate.passed for rate in rates])


def show_counts(title: str, counts: Sequence[Count]) -> int:
    """Print request counts as a table; returns how many miss their goal."""
    table = _table(title, "", "ours", "peer", "goal", "")
    for each in counts:
        table.add_row(
            each.what,
            f"{each.ours:,}",
            f"{each.theirs:,}",
            f"<= {each.goal:,}",
            _verdict(each.passed),
        )
    return _print(table, [count.passed for count in counts])


def _table(title: str, *headers: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for number, header in enumerate(headers):
        table.add_column(header, justify="right" if 0 < number < len(headers) - 1 else "left")
    return table


def _print(table: Table, passed: Sequence[bool]) -> int:
    Console().print(table)
    return passed.count(False)


def _verdict(passed: bool) -> str:
    return "[green]PASS[/]" if passed else "[yellow]behind[/]"


def _milliseconds(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"


def quick_from(arguments: Sequence[str] | None = None) -> bool:
    """The one option that every benchmark has."""
    parser = argparse.ArgumentParser(description="Compare tiltyard with pylance's own client.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    return bool(parser.parse_args(arguments).quick)


def file_system_of(path: str | os.PathLike[str]) -> str:
    """The kind of file system that a path lies on, like tmpfs or ext4."""
    best, kind = "", "unknown"
    resolved = os.path.realpath(path)
    mounts = Path("/proc/mounts")
    for line in mounts.read_text().splitlines() if mounts.exists() else ():
        _, mount, found, *_ = line.split()
        inside = resolved == mount or resolved.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, found
    return kind
