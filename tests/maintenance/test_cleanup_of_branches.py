"""Cleaning up branches: their versions go if that is meant, and nothing that anybody needs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import lance
import lance_namespace as api
import pytest

from tests.behaviours.calls import create
from tests.kit.catalogs import to_change
from tests.kit.stores import Crash
from tests.maintenance.catalogs import DIRECTORY, LAKE, ManualClock, files, home, ids, rows
from tests.maintenance.test_cleanup import clean_up
from tiltyard import DirectoryNamespace
from tiltyard.errors import InvalidTableStateError
from tiltyard.maintenance.policy import CleanupPolicy

SPARING = CleanupPolicy(keep_versions=3)
MEANT = CleanupPolicy(keep_versions=3, branches=True)

one_kind = pytest.mark.parametrize("kind", [DIRECTORY], ids=str, indirect=True)


def on(catalog: DirectoryNamespace, branch: str, version: int | None = None) -> lance.LanceDataset:
    return to_change(catalog, "people").checkout_version((branch, version))


def versions(catalog: DirectoryNamespace, branch: str) -> list[int]:
    request = api.ListTableVersionsRequest(id=["people"], branch=branch)
    return [version.version for version in catalog.list_table_versions(request).versions]


def inside(catalog: DirectoryNamespace) -> set[str]:
    return files(home(catalog, "people"))


@pytest.fixture
def branched(catalog: DirectoryNamespace, clock: ManualClock) -> DirectoryNamespace:
    """A table of two versions, and a branch of eight with files of its own, a day ago."""
    create(catalog, "people", data=rows(*range(20)))
    to_change(catalog, "people").insert(rows(20))
    request = api.CreateTableBranchRequest(id=["people"], name="feat/dev", from_version=1)
    catalog.create_table_branch(request)
    branch = on(catalog, "feat/dev")
    branch.create_scalar_index("id", "BTREE")
    for number in range(2):
        branch.delete(f"id = {number}")
        branch.insert(rows(100 + number))
    branch.optimize.compact_files()
    clock.pass_days(1)
    return catalog


def test_versions_of_branches_go_with_their_files(
    branched: DirectoryNamespace, tmp_path: Path
) -> None:
    before, main = ids(on(branched, "feat/dev")), ids(branched.open_table(["people"]))
    every, held = versions(branched, "feat/dev"), inside(branched)
    planned = clean_up(branched, MEANT, dry_run=True)
    assert inside(branched) == held
    row = clean_up(branched, MEANT)
    assert row == planned
    assert (row.versions_removed, row.skipped, row.error) == (len(every) - 3, None, None)
    assert "on 'feat/dev': latest" in row.kept
    assert versions(branched, "feat/dev") == every[-3:]
    gone = held - inside(branched)
    assert all(file.startswith("tree/feat/dev/") for file in gone)
    assert row.files_removed == sum("_versions" not in file for file in gone) > 0
    assert ids(on(branched, "feat/dev")) == before
    for version in every[-3:]:
        dataset = on(branched, "feat/dev", version)
        assert dataset.count_rows("id = 10") == ids(dataset)[10] == 1
    assert ids(branched.open_table(["people"])) == main
    assert clean_up(branched, MEANT).is_nothing


def test_they_are_spared_and_told_of_otherwise(
    branched: DirectoryNamespace, tmp_path: Path
) -> None:
    held, every = inside(branched), versions(branched, "feat/dev")
    row = clean_up(branched, SPARING)
    assert row.is_nothing
    assert row.skipped == f"old versions of branches: {len(every) - 3} on 'feat/dev'"
    assert row.versions_kept == 2 + len(every)
    assert inside(branched) == held


def test_tags_and_branches_keep_what_they_refer_to(branched: DirectoryNamespace) -> None:
    dataset, every = on(branched, "feat/dev"), versions(branched, "feat/dev")
    dataset.tags.create("gold", ("feat/dev", every[2]))
    grown = dataset.create_branch("leaf", ("feat/dev", every[3]))
    grown.insert(rows(900))
    tagged, base = (ids(on(branched, "feat/dev", version)) for version in every[2:4])
    row = clean_up(branched, MEANT)
    assert "tag 'gold'" in row.kept
    assert versions(branched, "feat/dev") == [every[2], every[3], *every[-3:]]
    assert ids(to_change(branched, "people").checkout_version("gold")) == tagged
    assert ids(on(branched, "leaf")) == base + Counter([900])
    assert on(branched, "leaf").count_rows("id = 10") == 1


@one_kind
def test_without_the_beginning_of_a_branch_no_file_goes(
    branched: DirectoryNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = branched.services.versions.visible(("people",), "feat/dev")
    on(branched, "feat/dev").create_branch("leaf", ("feat/dev", every[3].version))
    (tmp_path / LAKE / every[3].key).unlink()
    held = inside(branched)
    monkeypatch.setattr("tiltyard.store.retry.Retry.pause", lambda *_: None)
    with pytest.raises(InvalidTableStateError, match="a branch began there"):
        clean_up(branched, MEANT)
    assert inside(branched) == held


@one_kind
def test_who_builds_on_what_is_gone_is_refused(branched: DirectoryNamespace) -> None:
    late = on(branched, "feat/dev", 3)
    written = lance.fragment.write_fragments(rows(5000), late.uri)
    clean_up(branched, MEANT)
    transaction = lance.Transaction(3, lance.LanceOperation.Append(written))
    with pytest.raises(OSError, match=r"(?i)conflict|boundary|not found"):
        lance.LanceDataset.commit(late, transaction, max_retries=0)
    assert 5000 not in ids(on(branched, "feat/dev"))


def test_a_removal_that_was_cut_off_is_finished_first(
    branched: DirectoryNamespace, tmp_path: Path
) -> None:
    """It can't be read any more, which would stop the clean-up. Branches that the catalog does
    not know somebody has made on purpose, and they stay."""
    to_change(branched, "people").create_branch("stray")
    table, dataset = branched.services.access.find(["people"]), to_change(branched, "people")

    def half() -> None:
        for file in branched.services.versions.visible(table.id, "feat/dev"):
            (tmp_path / LAKE / file.key).unlink()
        raise Crash("in the middle")

    with pytest.raises(Crash):
        branched.services.branches.delete(table, "feat/dev", dataset, half)
    row = clean_up(branched, SPARING)
    assert row.error is None
    assert list(to_change(branched, "people").branches.list()) == ["stray"]
    assert list(branched.services.branches.states(table) or ()) == []
