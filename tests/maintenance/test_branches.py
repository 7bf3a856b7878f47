"""The catalog's list of branches decides which of Lance's branches may stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from tests.behaviours.calls import create, rename
from tests.kit.stores import Crash
from tests.maintenance.catalogs import COMPATIBLE, DIRECTORY, LAKE, MANIFEST
from tiltyard import DirectoryNamespace
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.versions.branches import BranchState, RemovedBranch

LIVE = BranchState.LIVE

pytestmark = pytest.mark.parametrize(
    "kind", [DIRECTORY, MANIFEST, COMPATIBLE], ids=str, indirect=True
)


class Desk:
    """The table `people`, its list, and Lance."""

    def __init__(self, catalog: DirectoryNamespace) -> None:
        self.catalog = catalog
        self.table = catalog.services.access.find(["people"])

    @property
    def dataset(self) -> lance.LanceDataset:
        return self.catalog.services.access.open(self.table)

    def listed(self) -> dict[str, BranchState]:
        return dict(self.catalog.services.branches.states(self.table) or {})

    def lance_has(self) -> list[str]:
        return sorted(self.dataset.branches.list())

    def make(self, name: str) -> None:
        """Past the catalog."""
        self.dataset.create_branch(name)

    def create(self, name: str, make: Callable[[], None] | None = None) -> None:
        self.catalog.services.branches.create(
            self.table, name, self.dataset, make or (lambda: self.make(name))
        )

    def delete(self, name: str, remove: Callable[[], None] | None = None) -> None:
        dataset = self.dataset
        self.catalog.services.branches.delete(
            self.table, name, dataset, remove or (lambda: dataset.branches.delete(name))
        )

    def reconcile(self, **how: bool) -> list[RemovedBranch]:
        return self.catalog.health.reconcile_branches(["people"], **how)


def _die() -> None:
    raise Crash("in the middle")


def _refuse() -> None:
    raise OSError("no")


@pytest.fixture
def desk(catalog: DirectoryNamespace) -> Desk:
    create(catalog, "people")
    return Desk(catalog)


def test_a_branch_is_on_the_list_as_long_as_it_is_there(desk: Desk) -> None:
    desk.create("dev")
    assert desk.listed() == {"dev": LIVE}
    assert desk.reconcile() == []
    desk.delete("dev")
    assert desk.listed() == {}
    assert desk.lance_has() == []


def test_the_first_list_takes_in_what_lance_has(desk: Desk) -> None:
    desk.make("old")
    desk.create("dev")
    assert desk.listed() == {"dev": LIVE, "old": LIVE}
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
    assert desk.listed() == {"prod": LIVE}
    assert desk.reconcile() == []


def test_a_removal_that_was_cut_off_at_its_end_is_forgotten(desk: Desk) -> None:
    desk.create("dev")

    def remove_and_die() -> None:
        desk.dataset.branches.delete("dev")
        _die()

    with pytest.raises(Crash):
        desk.delete("dev", remove_and_die)
    assert desk.reconcile() == []
    assert desk.listed() == {}
    desk.create("dev")


def test_a_name_that_is_being_removed_is_not_given_again(desk: Desk) -> None:
    desk.create("dev")
    with pytest.raises(Crash):
        desk.delete("dev", _die)
    with pytest.raises(ConcurrentModificationError, match="removed"):
        desk.create("dev")


def test_what_lance_refuses_leaves_the_list_as_it_was(desk: Desk) -> None:
    with pytest.raises(OSError, match="no"):
        desk.create("dev", _refuse)
    assert desk.listed() == {}
    desk.create("dev")
    with pytest.raises(OSError, match="no"):
        desk.delete("dev", _refuse)
    assert desk.listed() == {"dev": LIVE}


def test_branches_that_nobody_knows_go(desk: Desk) -> None:
    desk.create("dev")
    desk.make("stray")
    assert desk.reconcile() == [RemovedBranch("stray", removed=True)]
    assert desk.lance_has() == ["dev"]


def test_what_something_refers_to_stays(desk: Desk) -> None:
    desk.create("dev")
    desk.make("stray")
    desk.dataset.tags.create("kept", ("stray", None))
    (kept,) = desk.reconcile()
    assert (kept.removed, kept.reason) == (False, "tag 'kept' refers to it")
    assert desk.lance_has() == ["dev", "stray"]


def test_without_a_list_nothing_goes(desk: Desk) -> None:
    desk.make("stray")
    assert desk.reconcile() == []
    assert desk.lance_has() == ["stray"]


def test_nor_with_one_that_can_not_be_read(desk: Desk, tmp_path: Path) -> None:
    desk.create("dev")
    desk.make("stray")
    file = tmp_path / LAKE / "__branches" / f"{desk.table.location}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 9}))
    with pytest.raises(InvalidTableStateError, match="format 9"):
        desk.reconcile()
    assert desk.lance_has() == ["dev", "stray"]


def test_the_list_follows_a_table_to_its_new_name(desk: Desk) -> None:
    if not desk.catalog.context.manifest.is_enabled:
        pytest.skip("directories are names")
    desk.create("dev")
    rename(desk.catalog, "people", to="folk")
    folk = desk.catalog.services.access.find(["folk"])
    assert desk.catalog.services.branches.states(folk) == {"dev": LIVE}
