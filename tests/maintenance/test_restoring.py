"""A version that somebody restores while it is cleaned up: refused, or whole afterwards."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pytest

from tests.behaviours.calls import create
from tests.kit.catalogs import to_change
from tests.kit.stores import Fault, FaultyStore
from tests.maintenance.catalogs import ManualClock, files, ids, rows
from tiltyard import DirectoryNamespace
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import TiltyardError
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.versions import lance_format

POLICY = CleanupPolicy(keep_versions=3)
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
    table = catalog.context.catalog.find(("people",))
    with catalog.services.access.change(table) as dataset:
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


def _requests(opened: DirectoryNamespace) -> FaultyStore:
    """The store that the versions of a catalog are in."""
    store = FaultyStore(opened.context.store)
    opened.services.versions.files._store = store
    opened.services.versions.rows._store = store
    return store


def test_whenever_a_clean_up_comes_between_the_table_is_whole(
    replaced: DirectoryNamespace, reopen: Callable[[], DirectoryNamespace], tmp_path: Path
) -> None:
    race(replaced, reopen, tmp_path)


def test_without_the_guard_it_would_not_be(
    replaced: DirectoryNamespace,
    reopen: Callable[[], DirectoryNamespace],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("file_versions", "row_versions"):
        monkeypatch.setattr(f"tiltyard.versions.{module}.restored_by", lambda body: None)
    with pytest.raises(FAILURES, match=r"(?i)not found"):
        race(replaced, reopen, tmp_path)


def race(
    replaced: DirectoryNamespace, reopen: Callable[[], DirectoryNamespace], tmp_path: Path
) -> None:
    """The clean-up runs before each of the requests that a restore makes to publish its version."""
    at, outcomes = 0, set()
    while True:
        dataset = to_change(replaced, "people")
        dataset.insert(rows(*range(1000 + 20 * at, 1020 + 20 * at)))
        victim = dataset.version
        dataset.delete("true")
        for number in range(200, 203):
            dataset.insert(rows(number))
        before = ids(replaced.open_table(["people"]))
        other = reopen()
        store = _requests(other)
        plan = store.plan(
            Fault.STALL,
            after=at,
            hook=lambda: _elsewhere(
                lambda: reopen().maintenance.cleanup_table(["people"], _young(POLICY))
            ),
        )
        expected = ids(replaced.context.lance.open(_location(replaced), victim))
        try:
            restore(other, victim)
            found = expected
        except (TiltyardError, *FAILURES):
            found = before
        outcomes.add(found is expected)
        assert ids(replaced.open_table(["people"])) == found, f"before request {at}"
        pins = [each for each in files(tmp_path / "lake") if "/pins/" in each]
        assert not pins
        if not plan.is_spent:
            break
        at += 1
    assert at > 3
    assert outcomes == {True, False}


def _elsewhere(work: Callable[[], object]) -> None:
    """In a thread of its own: Lance does not bear to be called in those that it calls us from."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()


def _young(policy: CleanupPolicy) -> CleanupPolicy:
    return CleanupPolicy(keep_versions=policy.keep_versions, min_age=0, allow_young=True)


def _location(catalog: DirectoryNamespace) -> str:
    return catalog.context.catalog.find(("people",)).location
