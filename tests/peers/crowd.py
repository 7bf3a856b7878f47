"""Processes that change one catalog at once, some with our client and some with pylance's. Each has
names of its own and notes what was acknowledged, what was refused, and how."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier

import lance_namespace as api

import tiltyard
from tests.behaviours.calls import declare, drop, make_namespace
from tests.peers.clients import open_pylance

SECONDS_TO_MEET = 300


@dataclass
class Notes:
    """What one process did. A name whose fate is in doubt is in `failed` alone."""

    tables: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What all of them did together."""

    ours: list[Notes]
    theirs: list[Notes]

    @property
    def everyone(self) -> list[Notes]:
        return [*self.ours, *self.theirs]

    @property
    def tables(self) -> set[str]:
        return set[str]().union(*(each.tables for each in self.everyone))

    @property
    def dropped(self) -> set[str]:
        return set[str]().union(*(each.dropped for each in self.everyone))

    @property
    def namespaces(self) -> set[str]:
        return set[str]().union(*(each.namespaces for each in self.everyone))

    @property
    def in_doubt(self) -> set[str]:
        return set[str]().union(*(each.failed for each in self.everyone))


class Crowd:
    """Two groups of processes of the same size that start together."""

    def __init__(self, each: int, pool: ProcessPoolExecutor) -> None:
        self._each = each
        self._pool = pool

    def work(self, properties: dict[str, str], rounds: int) -> Outcome:
        # The barrier holds a process until all are there, so each of them gets one task.
        ours, theirs = (
            [
                self._pool.submit(_work, properties, is_ours, number, rounds)
                for number in range(self._each)
            ]
            for is_ours in (True, False)
        )
        return Outcome([task.result() for task in ours], [task.result() for task in theirs])


@contextmanager
def crowd(each: int) -> Iterator[Crowd]:
    # Processes that share nothing but one slow import, which no thread runs in yet.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lance_namespace"])
    start = context.Barrier(2 * each)
    with ProcessPoolExecutor(2 * each, context, _remember, (start,)) as pool:
        yield Crowd(each, pool)


_start: Barrier | None = None


def _remember(start: Barrier) -> None:
    global _start
    _start = start


def _work(properties: dict[str, str], is_ours: bool, number: int, rounds: int) -> Notes:
    assert _start is not None
    client = tiltyard.connect(**properties) if is_ours else open_pylance(properties)
    worker = f"{'ours' if is_ours else 'theirs'}{number}"
    notes = Notes()
    _start.wait(SECONDS_TO_MEET)
    for lap in range(rounds):
        _one_round(client, f"{worker}_{lap}", notes, drops=lap % 2 == 1)
    return notes


def _one_round(client: api.LanceNamespace, name: str, notes: Notes, *, drops: bool) -> None:
    table, namespace = f"{name}_t", f"{name}_n"
    if _did(notes, table, lambda: declare(client, table)):
        notes.tables.add(table)
    if _did(notes, namespace, lambda: make_namespace(client, namespace)):
        notes.namespaces.add(namespace)
    if drops and table in notes.tables:
        notes.tables.discard(table)
        if _did(notes, table, lambda: drop(client, table)):
            notes.dropped.add(table)


def _did(notes: Notes, name: str, act: Callable[[], object]) -> bool:
    try:
        act()
    except (api.LanceNamespaceError, RuntimeError, OSError) as error:
        notes.failed[name] = f"{type(error).__name__}: {error}"
        return False
    return True


def failures(notes: Sequence[Notes]) -> dict[str, str]:
    return {name: why for note in notes for name, why in note.failed.items()}
