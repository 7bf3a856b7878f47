"""Processes that do the same thing to one catalog at the same moment, and say how it went."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier

import lance_namespace as api
import pyarrow as pa

import tiltyard
from tests.behaviours.calls import create, declare
from tests.behaviours.processes import context

SECONDS_TO_MEET = 300
WON = "won"

# What one racer does with one name; it says who it is by its number.
Act = Callable[[api.LanceNamespace, str, int], object]


def rows_of(racer: int) -> pa.Table:
    return pa.table({"racer": [racer] * (racer + 1)})


def create_own(catalog: api.LanceNamespace, name: str, racer: int) -> object:
    return create(catalog, name, data=rows_of(racer))


def declare_it(catalog: api.LanceNamespace, name: str, racer: int) -> object:
    return declare(catalog, name)


class Racers:
    """A fixed number of processes that start each lap together."""

    def __init__(self, number: int, pool: ProcessPoolExecutor) -> None:
        self._number = number
        self._pool = pool

    def race(
        self, properties: Mapping[str, str], names: Sequence[str], act: Act
    ) -> dict[str, list[str]]:
        """For each name what became of each racer: WON, or the name of its error."""
        # The barrier holds a process until all are there, so each of them gets one task.
        tasks = [
            self._pool.submit(_run, properties, names, act, racer) for racer in range(self._number)
        ]
        laps = zip(*(task.result() for task in tasks), strict=True)
        return dict(zip(names, map(list, laps), strict=True))


@contextmanager
def racers(number: int) -> Iterator[Racers]:
    processes = context()
    start = processes.Barrier(number)
    with ProcessPoolExecutor(number, processes, _remember, (start,)) as pool:
        yield Racers(number, pool)


_start: Barrier | None = None


def _remember(start: Barrier) -> None:
    global _start
    _start = start


def _run(properties: Mapping[str, str], names: Sequence[str], act: Act, racer: int) -> list[str]:
    assert _start is not None
    catalog = tiltyard.connect(**properties)
    outcomes = []
    for name in names:
        _start.wait(SECONDS_TO_MEET)
        try:
            act(catalog, name, racer)
            outcomes.append(WON)
        except tiltyard.TiltyardError as error:
            outcomes.append(type(error).__name__)
    return outcomes
