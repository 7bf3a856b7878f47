"""A version that somebody restores while it is cleaned up: refused, or whole afterwards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, takewhile
from pathlib import Path

import lance
import pytest

from tests.behaviours.calls import create
from tests.kit.catalogs import open_over, to_change
from tests.kit.stores import Fault, FaultyStore
from tests.maintenance.catalogs import LAKE, Kind, ManualClock, files, ids, rows, to_version
from tiltyard import DirectoryNamespace
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import TiltyardError
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.versions import lance_format

POLICY = CleanupPolicy(keep_versions=3)
NO_MIN_AGE = CleanupPolicy(keep_versions=3, min_age=0, allow_young=True)
EVERYTHING = list(range(20))


@pytest.fixture
def replaced(catalog: DirectoryNamespace, clock: ManualClock) -> DirectoryNamespace:
    """A table whose first version has nothing in common with the later ones."""
    create(catalog, "people", data=rows(*EVERYTHING))
    dataset = to_change(catalog, "people")
    dataset.delete("true")
    for number in range(100, 105):
        dataset.insert(rows(number))
    clock.pass_days(1)
    return catalog


def restore(catalog: DirectoryNamespace, version: int) -> None:
    with catalog.services.access.change(catalog.services.access.find(["people"])) as dataset:
        operation = lance.LanceOperation.Restore(version)
        lance.LanceDataset.commit(dataset, lance.Transaction(dataset.version, operation))


def test_a_staged_manifest_tells_what_it_restores(replaced: DirectoryNamespace) -> None:
    seen: list[int | None] = []
    create_version = replaced.services.versions.create

    def watched(new: object) -> object:
        body = replaced.context.store.get(new.staged).body  # type: ignore[attr-defined]
        seen.append(lance_format.restored_by(body))
        return create_version(new)  # type: ignore[arg-type]

    replaced.services.versions.create = watched  # type: ignore[method-assign,assignment]
    restore(replaced, 1)
    to_change(replaced, "people").insert(rows(7))
    to_change(replaced, "people").delete("id = 7")
    assert seen == [1, None, None]
    assert lance_format.restored_by(b"") is None
    assert lance_format.restored_by(b"rubbish" * 9) is None


def test_what_was_restored_keeps_its_files(replaced: DirectoryNamespace) -> None:
    restore(replaced, 1)
    assert replaced.maintenance.cleanup_table(["people"], POLICY).versions_removed
    assert sorted(ids(replaced.open_table(["people"]))) == EVERYTHING


def test_a_version_that_is_gone_is_not_restored(replaced: DirectoryNamespace) -> None:
    replaced.maintenance.cleanup_table(["people"], POLICY)
    with pytest.raises((TiltyardError, *FAILURES)):
        restore(replaced, 1)
    assert sorted(ids(replaced.open_table(["people"]))) == list(range(100, 105))


Race = Callable[[], None]


def test_whenever_a_clean_up_comes_between_the_table_is_whole(race: Race) -> None:
    race()


def test_without_the_guard_it_would_not_be(race: Race, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("file_versions", "row_versions"):
        monkeypatch.setattr(f"tiltyard.versions.{module}.restored_by", lambda body: None)
    with pytest.raises(FAILURES, match=r"(?i)not found"):
        race()


@pytest.fixture
def race(
    replaced: DirectoryNamespace,
    reopen: Callable[[], DirectoryNamespace],
    kind: Kind,
    tmp_path: Path,
) -> Race:
    """The clean-up runs before each of the requests that a restore makes."""

    def clean_up() -> None:
        # In a thread of its own: Lance does not bear to be called in those that it calls us from.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(reopen().maintenance.cleanup_table, ["people"], NO_MIN_AGE).result()

    def outcome_at(at: int) -> bool | None:
        """Whether the version was restored; None if there was no such request."""
        dataset = to_change(replaced, "people")
        dataset.insert(rows(*range(1000 + 20 * at, 1020 + 20 * at)))
        victim = dataset.version
        dataset.delete("true")
        for number in range(200, 203):
            dataset.insert(rows(number))
        before = ids(replaced.open_table(["people"]))
        expected = ids(to_version(replaced, "people", victim))
        other, store = open_over(FaultyStore, root=tmp_path / LAKE, **kind.properties)
        plan = store.plan(Fault.STALL, after=at, hook=clean_up)
        try:
            restore(other, victim)
            restored = True
        except (TiltyardError, *FAILURES):
            restored = False
        after = ids(replaced.open_table(["people"]))
        assert after == (expected if restored else before), f"before request {at}"
        assert not [file for file in files(tmp_path / LAKE) if "/pins/" in file]
        return restored if plan.is_spent else None

    def run() -> None:
        outcomes = list(takewhile(lambda outcome: outcome is not None, map(outcome_at, count())))
        assert len(outcomes) > 3
        assert set(outcomes) == {True, False}

    return run
