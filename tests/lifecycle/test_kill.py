"""Processes race over a few names and are killed at any point. Afterwards every acknowledged effect
is there, every listed table opens, and nobody was told of an internal error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.behaviours.calls import describe, tables
from tests.behaviours.conftest import open_catalog
from tests.behaviours.modes import Mode
from tests.behaviours.places import Place
from tests.behaviours.trash import clocks_ahead, status
from tests.lifecycle.crashing import CrashingClients, Task, crashing_clients
from tests.lifecycle.history import Found, objections, read, written
from tests.peers.clients import properties
from tiltyard import DirectoryNamespace
from tiltyard.errors import TableNotFoundError

NAMES = ("a", "b")
MARKED = [f"{name}.lance" for name in NAMES]
WORKERS = 3
SPARE = 2
DEEDS = 6
VERBS = ("create", "create", "drop", "drop", "undrop", "purge", "declare", "append")
FAST_ROUNDS = {"disk": 4, "s3": 3}
SLOW_ROUNDS = 84

# Longer than a create that has begun is left alone.
LATER = timedelta(minutes=10)


@pytest.fixture(scope="module")
def workers() -> Iterator[CrashingClients]:
    with crashing_clients(WORKERS + SPARE) as living:
        yield living


def test_what_was_acknowledged_outlives_whoever_is_killed(
    mode: Mode, place: Place, workers: CrashingClients, tmp_path: Path
) -> None:
    rounds = FAST_ROUNDS["s3" if place.storage_options else "disk"]
    _check_rounds(range(rounds), mode, place, workers, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_what_was_acknowledged_outlives_many_who_are_killed(
    mode: Mode, place: Place, workers: CrashingClients, tmp_path: Path
) -> None:
    _check_rounds(range(1000, 1000 + SLOW_ROUNDS), mode, place, workers, tmp_path)


def _check_rounds(
    seeds: range, mode: Mode, place: Place, workers: CrashingClients, logs: Path
) -> None:
    before = dict.fromkeys(NAMES, Found("not_found"))
    whole: dict[str, int] = {}
    died = 0
    verbs = (*VERBS, "rename") if mode.has_manifest else VERBS
    for seed in seeds:
        log = logs / f"{seed}.log"
        tasks = [
            Task(
                properties=properties(mode, place),
                names=NAMES,
                verbs=verbs,
                log=log,
                seed=seed * 100 + number,
                deeds=DEEDS,
                dies=number == 0 or (number == 1 and seed % 4 == 0),
            )
            for number in range(WORKERS)
        ]
        died += workers.work(tasks)
        finisher = _open_later(mode, place)
        _finish_all(finisher)
        after = _look(finisher, place)
        deeds = read(log)
        whole |= written(deeds)
        wrong = objections(deeds, before, after, whole)
        assert not wrong, "\n".join([f"round {seed}:", *wrong, *map(str, deeds)])
        before = after
    assert died


def _open_later(mode: Mode, place: Place) -> DirectoryNamespace:
    with clocks_ahead(LATER):
        opened = open_catalog(mode, place)
    assert isinstance(opened, DirectoryNamespace)
    return opened


def _finish_all(catalog: DirectoryNamespace) -> None:
    """Whoever looks at what a crash left half done finishes it."""
    for dropped in catalog.list_trash():
        with suppress(TableNotFoundError):
            if dropped.restorable and dropped.location in MARKED:
                catalog.hold_table(dropped.id, generation=dropped.generation)
                catalog.release_table(dropped.id, generation=dropped.generation)
            elif not dropped.restorable:
                catalog.purge_table(dropped.id, generation=dropped.generation)


def _look(catalog: DirectoryNamespace, place: Place) -> dict[str, Found]:
    """What each name stands for. A table that is listed can be described, opened and read."""
    listed = tables(catalog)
    states = {}
    for name in NAMES:
        state = status(catalog, name)
        assert (name in listed) == (state == "exists"), f"{name} is {state}, listed are {listed}"
        rows: Counter[str] = Counter()
        if state == "exists" and not describe(catalog, name, check_declared=True).is_only_declared:
            rows.update(catalog.open_table([name]).to_table()["tag"].to_pylist())
        states[name] = Found(state, tuple(sorted(rows.items())))
    return states
