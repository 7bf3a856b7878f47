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


class BranchedTable:
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
def branched(catalog: DirectoryNamespace) -> BranchedTable:
    create(catalog, "people")
    return BranchedTable(catalog)


def test_a_branch_is_on_the_list_as_long_as_it_is_there(branched: BranchedTable) -> None:
    branched.create("dev")
    assert branched.listed() == {"dev": LIVE}
    assert branched.reconcile() == []
    branched.delete("dev")
    assert branched.listed() == {}
    assert branched.lance_has() == []


def test_the_first_list_takes_in_what_lance_has(branched: BranchedTable) -> None:
    branched.make("old")
    branched.create("dev")
    assert branched.listed() == {"dev": LIVE, "old": LIVE}
    assert branched.reconcile() == []


def test_a_removal_that_was_cut_off_is_finished(branched: BranchedTable) -> None:
    branched.create("dev")
    branched.create("prod")
    with pytest.raises(Crash):
        branched.delete("dev", _die)
    assert branched.lance_has() == ["dev", "prod"]
    assert branched.reconcile(dry_run=True) == [RemovedBranch("dev", removed=False)]
    assert branched.reconcile() == [RemovedBranch("dev", removed=True)]
    assert branched.lance_has() == ["prod"]
    assert branched.listed() == {"prod": LIVE}
    assert branched.reconcile() == []


def test_a_removal_that_was_cut_off_at_its_end_is_forgotten(branched: BranchedTable) -> None:
    branched.create("dev")

    def remove_and_die() -> None:
        branched.dataset.branches.delete("dev")
        _die()

    with pytest.raises(Crash):
        branched.delete("dev", remove_and_die)
    assert branched.reconcile() == []
    assert branched.listed() == {}
    branched.create("dev")


def test_a_name_that_is_being_removed_is_not_given_again(branched: BranchedTable) -> None:
    branched.create("dev")
    with pytest.raises(Crash):
        branched.delete("dev", _die)
    with pytest.raises(ConcurrentModificationError, match="removed"):
        branched.create("dev")


def test_what_lance_refuses_leaves_the_list_as_it_was(branched: BranchedTable) -> None:
    with pytest.raises(OSError, match="no"):
        branched.create("dev", _refuse)
    assert branched.listed() == {}
    branched.create("dev")
    with pytest.raises(OSError, match="no"):
        branched.delete("dev", _refuse)
    assert branched.listed() == {"dev": LIVE}


def test_branches_that_nobody_knows_go(branched: BranchedTable) -> None:
    branched.create("dev")
    branched.make("stray")
    assert branched.reconcile() == [RemovedBranch("stray", removed=True)]
    assert branched.lance_has() == ["dev"]


def test_what_something_refers_to_stays(branched: BranchedTable) -> None:
    branched.create("dev")
    branched.make("stray")
    branched.dataset.tags.create("kept", ("stray", None))
    (kept,) = branched.reconcile()
    assert (kept.removed, kept.reason) == (False, "tag 'kept' refers to it")
    assert branched.lance_has() == ["dev", "stray"]


def test_without_a_list_nothing_goes(branched: BranchedTable) -> None:
    branched.make("stray")
    assert branched.reconcile() == []
    assert branched.lance_has() == ["stray"]


def test_nor_with_one_that_can_not_be_read(branched: BranchedTable, tmp_path: Path) -> None:
    branched.create("dev")
    branched.make("stray")
    file = tmp_path / LAKE / "__branches" / f"{branched.table.location}.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 9}))
    with pytest.raises(InvalidTableStateError, match="format 9"):
        branched.reconcile()
    assert branched.lance_has() == ["dev", "stray"]


def test_the_list_follows_a_table_to_its_new_name(branched: BranchedTable) -> None:
    if not branched.catalog.context.manifest.is_enabled:
        pytest.skip("directories are names")
    branched.create("dev")
    rename(branched.catalog, "people", to="folk")
    folk = branched.catalog.services.access.find(["folk"])
    assert branched.catalog.services.branches.states(folk) == {"dev": LIVE}
