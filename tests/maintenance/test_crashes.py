"""A process dies at any of its requests, in the middle of an optimize or a clean-up: the next run
finishes the work, the rows are the same, and the one after that finds nothing to do."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest import mock

import pytest

from tests.kit.catalogs import AnyStore, open_over
from tests.kit.stores import Crash, Fault, FaultyStore
from tests.maintenance.catalogs import (
    DIRECTORY,
    MANAGED,
    MANIFEST,
    Kind,
    ManualClock,
    files,
    home,
    ids,
    rewritten,
    to_version,
)
from tiltyard import DirectoryNamespace
from tiltyard.catalog.pylance import FAILURES
from tiltyard.clock import SYSTEM_CLOCK, Clock
from tiltyard.errors import TiltyardError
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.store import Store

FOR_EVER = 1_000_000
POLICY = CleanupPolicy(keep_versions=3)

# One of both is enough for a first look.
_FAULTS = [Fault.CRASH_BEFORE, pytest.param(Fault.CRASH_AFTER, marks=pytest.mark.slow)]

before_and_after = pytest.mark.parametrize("fault", _FAULTS, ids=lambda fault: fault.name)

Work = Callable[[DirectoryNamespace], object]


def optimize(catalog: DirectoryNamespace) -> object:
    return catalog.maintenance.optimize_table(["people"])


def clean_up(catalog: DirectoryNamespace) -> object:
    return catalog.maintenance.cleanup_table(["people"], POLICY)


class Bench:
    """One state of a catalog, to begin with as often as one likes."""

    def __init__(self, kind: Kind, folder: Path, clock: ManualClock) -> None:
        self._kind, self._folder, self._clock = kind, folder, clock
        self._root = folder / "made"
        catalog = self.open()
        if kind.managed:
            catalog.versions.manage()
        rewritten(catalog, "people", tag="gold")
        shutil.move(self._root, folder / "template")
        clock.pass_days(1)

    @property
    def root(self) -> Path:
        return self._root

    def again(self) -> None:
        """Back to the beginning; the table lies at the same place, so its rows fit."""
        shutil.rmtree(self._root, ignore_errors=True)
        shutil.copytree(self._folder / "template", self._root)

    def open(self) -> DirectoryNamespace:
        return self._open(lambda disk: disk)[0]

    def mortal(self) -> tuple[DirectoryNamespace, FaultyStore]:
        """A catalog whose every request to the store can be its last."""
        return self._open(lambda disk: FaultyStore(disk, bulk=2))

    def _open(self, wrap: Callable[[Store], AnyStore]) -> tuple[DirectoryNamespace, AnyStore]:
        clock = Clock(self._clock.now_ms, SYSTEM_CLOCK.token)
        return open_over(wrap, clock=clock, root=self._root, **self._kind.properties)


@pytest.fixture(
    params=[DIRECTORY, pytest.param(MANIFEST, marks=pytest.mark.slow), MANAGED], ids=str
)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(request.param, tmp_path, ManualClock())


def _state(catalog: DirectoryNamespace) -> dict[int, Counter[int]]:
    """The rows of every version."""
    numbers = [file.version for file in catalog.services.versions.every(("people",))]
    return {number: ids(to_version(catalog, "people", number)) for number in numbers}


def _data(catalog: DirectoryNamespace) -> set[str]:
    every = files(home(catalog, "people"))
    return {file for file in every if not file.startswith("_versions/latest")}


@before_and_after
def test_a_clean_up_that_dies_anywhere_is_finished_by_the_next(bench: Bench, fault: Fault) -> None:
    bench.again()
    catalog, store = bench.mortal()
    clean_up(catalog)
    requests = len(store.requests)
    expected, left = _state(catalog), _data(catalog)
    for at in range(requests):
        bench.again()
        _die(bench, clean_up, fault, at)
        after = bench.open()
        clean_up(after)
        assert _state(after) == expected, f"dead at {at}"
        assert _data(after) == left, f"dead at {at}"
        row = after.maintenance.cleanup_table(["people"], POLICY)
        assert row.is_nothing
        assert [file for file in files(bench.root) if "/going/" in file] == []


@before_and_after
def test_an_optimize_that_dies_anywhere_is_finished_by_the_next(bench: Bench, fault: Fault) -> None:
    bench.again()
    before = ids(bench.open().open_table(["people"]))
    catalog, store = bench.mortal()
    optimize(catalog)
    requests = len(store.requests)
    for at in range(requests):
        bench.again()
        _die(bench, optimize, fault, at)
        after = bench.open()
        assert ids(after.open_table(["people"])) == before, f"dead at {at}"
        after.maintenance.optimize_table(["people"])
        dataset = after.open_table(["people"])
        assert ids(dataset) == before, f"dead at {at}"
        assert len(dataset.get_fragments()) == 1, f"dead at {at}"
        assert dataset.count_rows("id = 103") == 1
        assert not after.maintenance.optimize_table(["people"]).committed


def _die(bench: Bench, work: Work, fault: Fault, at: int) -> None:
    """Lance takes an exception of ours for the failure of one request, so all later ones fail,
    too: whoever is dead says nothing more."""
    catalog, store = bench.mortal()
    store.plan(fault, after=at)
    store.plan(Fault.CRASH_BEFORE, after=at, times=FOR_EVER)
    with (
        mock.patch("tiltyard.store.retry.Retry.pause"),
        suppress(Crash, TiltyardError, *FAILURES),
    ):
        work(catalog)
