"""The catalog's list of branches decides which of Lance's branches may stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

import tiltyard
from tests.behaviours.calls import create, rename
from tests.kit.stores import Crash
from tiltyard import DirectoryNamespace
from tiltyard.catalog.base import Table
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.maintenance.branches import Branches, RemovedBranch, Standing

MODES = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
    "both": {},
}


@pytest.fixture(params=MODES.values(), ids=MODES)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / "lake", **request.param)
    create(opened, "people")
    return opened


class Desk:
    """The table, its list, and Lance."""

    def __init__(self, catalog: DirectoryNamespace) -> None:
        self.catalog = catalog
        self.table: Table = catalog.context.catalog.find(("people",))
        self.list: Branches = catalog.services.branches

    @property
    def dataset(self) -> lance.LanceDataset:
        return self.catalog.services.access.open(self.table)

    def lance_has(self) -> list[str]:
        return sorted(self.dataset.branches.list())

    def create(self, name: str) -> None:
        dataset = self.dataset
        self.list.create(self.table, name, dataset, lambda: _make(dataset, name))

    def delete(self, name: str, remove: Callable[[], None] | None = None) -> None:
        dataset = self.dataset
        self.list.delete(
            self.table, name, dataset, remove or (lambda: dataset.branches.delete(name))
        )

    def reconcile(self, **how: bool) -> list[RemovedBranch]:
        return self.catalog.health.reconcile_branches(["people"], **how)


def _make(dataset: lance.LanceDataset, name: str) -> None:
    dataset.create_branch(name)


def _die() -> None:
    raise Crash("in the middle")


@pytest.fixture
def desk(catalog: DirectoryNamespace) -> Desk:
    return Desk(catalog)


def test_a_branch_is_on_the_list_as_long_as_it_is_there(desk: Desk) -> None:
    desk.create("dev")
    assert desk.list.known(desk.table) == {"dev": Standing.LIVE}
    assert desk.reconcile() == []
    desk.delete("dev")
    assert desk.list.known(desk.table) == {}
    assert desk.lance_has() == []


def test_the_first_list_takes_in_what_lance_has(desk: Desk) -> None:
    _make(desk.dataset, "old")
    desk.create("dev")
    assert desk.list.known(desk.table) == {"dev": Standing.LIVE, "old": Standing.LIVE}
    assert desk.reconcile() == []


def test_a_removal_that_was_cut_off_is_finished(desk: Desk) -> None:
    desk.create("dev")
    desk.create("prod")
    with pytest.raises(Crash):
        desk.delete("dev", _die)
    assert desk.lance_has() == ["dev", "prod"]
    assert desk.reconcile(dry_run=True) == [RemovedBranch("dev", removed=False)]
    assert desk.reconcile() == [RemovedBranch("dev", removed=True)]
    assert desk.lance_has() == ["prod"]
    assert desk.list.known(desk.table) == {"prod": Standing.LIVE}
    assert desk.reconcile() == []


def test_a_removal_that_was_cut_off_at_its_end_is_forgotten(desk: Desk) -> None:
    desk.create("dev")

    def removed_and_dead() -> None:
        desk.dataset.branches.delete("dev")
        _die()

    with pytest.raises(Crash):
        desk.delete("dev", removed_and_dead)
    assert desk.reconcile() == []
    assert desk.list.known(desk.table) == {}
    desk.create("dev")


def test_a_name_that_is_being_removed_is_not_given_again(desk: Desk) -> None:
    desk.create("dev")
    with pytest.raises(Crash):
        desk.delete("dev", _die)
    with pytest.raises(ConcurrentModificationError, match="removed"):
        desk.create("dev")


def test_a_removal_that_lance_refuses_leaves_the_branch_live(desk: Desk) -> None:
    desk.create("dev")

    def refused() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        desk.delete("dev", refused)
    assert desk.list.known(desk.table) == {"dev": Standing.LIVE}


def test_a_branch_that_lance_would_not_make_is_not_on_the_list(desk: Desk) -> None:
    dataset = desk.dataset

    def refused() -> None:
        raise OSError("no")

    with pytest.raises(OSError, match="no"):
        desk.list.create(desk.table, "dev", dataset, refused)
    assert desk.list.known(desk.table) == {}


def test_branches_that_nobody_knows_go(desk: Desk) -> None:
    desk.create("dev")
    _make(desk.dataset, "stray")
    assert desk.reconcile() == [RemovedBranch("stray", removed=True)]
    assert desk.lance_has() == ["dev"]


def test_what_something_refers_to_stays(desk: Desk) -> None:
    desk.create("dev")
    _make(desk.dataset, "stray")
    desk.dataset.tags.create("kept", ("stray", None))
    (kept,) = desk.reconcile()
    assert (kept.removed, kept.reason) == (False, "tag 'kept' refers to it")
    assert desk.lance_has() == ["dev", "stray"]


def test_without_a_list_nothing_goes(desk: Desk) -> None:
    _make(desk.dataset, "stray")
    assert desk.reconcile() == []
    assert desk.lance_has() == ["stray"]


def test_nor_with_one_that_can_not_be_read(desk: Desk, tmp_path: Path) -> None:
    desk.create("dev")
    _make(desk.dataset, "stray")
    file = tmp_path / "lake" / "__branches" / f"{desk.table.location}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 9}))
    with pytest.raises(InvalidTableStateError, match="format 9"):
        desk.reconcile()
    assert desk.lance_has() == ["dev", "stray"]


def test_the_list_follows_a_table_to_its_new_name(desk: Desk) -> None:
    if desk.catalog.context.manifest is None:
        pytest.skip("directories are names")
    desk.create("dev")
    rename(desk.catalog, "people", to="folk")
    assert desk.list.known(desk.catalog.context.catalog.find(("folk",))) == {"dev": Standing.LIVE}
