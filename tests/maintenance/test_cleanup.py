"""Cleaning up: old versions and their files go, and nothing that anybody may still need."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import lance
import lance_namespace as api
import pytest

import tiltyard
from tests.behaviours.calls import drop
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import (
    LAKE,
    ManualClock,
    files,
    home,
    ids,
    rewritten,
    rows,
    scattered,
    to_version,
    with_blobs,
)
from tiltyard import DirectoryNamespace
from tiltyard.errors import InvalidInputError, InvalidTableStateError, TableNotFoundError
from tiltyard.maintenance.cleanup import Cleaned
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.tables import fragments

KEEP_THREE = CleanupPolicy(keep_versions=3)


def versions(catalog: DirectoryNamespace, name: str) -> list[int]:
    request = api.ListTableVersionsRequest(id=[name])
    return [version.version for version in catalog.list_table_versions(request).versions]


@pytest.fixture
def old(catalog: DirectoryNamespace, clock: ManualClock) -> DirectoryNamespace:
    """A table of ten versions, each with files of its own, a day ago."""
    rewritten(catalog, "people")
    clock.pass_days(1)
    return catalog


def clean_up(
    catalog: DirectoryNamespace, policy: CleanupPolicy = KEEP_THREE, *, dry_run: bool = False
) -> Cleaned:
    return catalog.maintenance.cleanup_table(["people"], policy, dry_run=dry_run)


def optimize(catalog: DirectoryNamespace, clock: ManualClock) -> None:
    """And wait until nobody can be on an older version."""
    catalog.maintenance.optimize_table(["people"])
    clock.pass_days(1)


def test_old_versions_go_and_their_files_with_them(
    old: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    optimize(old, clock)
    before = ids(old.open_table(["people"]))
    every = versions(old, "people")
    held = files(tmp_path / LAKE)
    row = clean_up(old)
    assert (row.table, row.error, row.versions_removed) == ("people", None, len(every) - 3)
    assert versions(old, "people") == every[-3:]
    gone = held - files(tmp_path / LAKE)
    assert row.files_removed == sum("_versions" not in file for file in gone) > 0
    assert row.bytes_removed > 0
    for version in every[-3:]:
        assert ids(to_version(old, "people", version)).total() >= before.total()
    assert ids(old.open_table(["people"])) == before
    assert old.open_table(["people"]).count_rows("id = 103") == 1


def test_nothing_is_left_of_what_was_compacted(
    old: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    old.maintenance.optimize_table(["people"])
    for number in range(200, 203):
        to_change(old, "people").insert(rows(number))
    clock.pass_days(1)
    clean_up(old)
    dataset = old.open_table(["people"])
    referred = {
        f"data/{file.path}"
        for fragment in dataset.get_fragments()
        for file in fragment.data_files()
    }
    left = files(home(old, "people"))
    assert {file for file in left if file.startswith("data/")} == referred
    assert not any(file.startswith("_deletions/") for file in left)
    (index,) = (segment.uuid for index in dataset.describe_indices() for segment in index.segments)
    assert any(file.startswith(f"_indices/{index}/") for file in left)


def test_a_dry_run_tells_the_same_and_changes_nothing(
    old: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    optimize(old, clock)
    before = files(tmp_path / LAKE)
    planned = clean_up(old, dry_run=True)
    assert files(tmp_path / LAKE) == before
    assert clean_up(old) == planned


def test_a_second_run_finds_nothing_to_do(old: DirectoryNamespace, tmp_path: Path) -> None:
    clean_up(old)
    before = files(tmp_path / LAKE)
    row = clean_up(old)
    assert row.is_nothing
    assert row.versions_kept == 3
    assert files(tmp_path / LAKE) == before


def test_tagged_versions_and_bases_of_branches_stay_whole(
    old: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    dataset = to_change(old, "people")
    dataset.tags.create("gold", 3)
    branch = dataset.create_branch("dev", 5)
    branch.insert(rows(900))
    expected = {version: ids(to_version(old, "people", version)) for version in (3, 5)}
    optimize(old, clock)
    row = clean_up(old)
    assert "tag 'gold'" in row.kept
    assert "branch 'dev'" in row.kept
    assert versions(old, "people")[:2] == [3, 5]
    for version, rows_then in expected.items():
        assert ids(to_version(old, "people", version)) == rows_then
    on_branch = to_version(old, "people", 3).checkout_version(("dev", None))
    assert ids(on_branch) == expected[5] + Counter([900])
    assert on_branch.to_table(filter="id = 10")["id"].to_pylist() == [10]


def test_versions_that_are_too_young_stay(catalog: DirectoryNamespace, clock: ManualClock) -> None:
    scattered(catalog, "people", 6)
    assert clean_up(catalog).is_nothing
    clock.pass_days(0.5 / 24)
    row = clean_up(catalog)
    assert row.is_nothing
    assert "3 too young" in row.kept
    allowed = CleanupPolicy(keep_versions=3, min_age="10m", allow_young=True)
    assert clean_up(catalog, allowed).versions_removed == 3
    with pytest.raises(InvalidInputError, match="below the catalog's"):
        catalog.maintenance.cleanup_table(["people"], CleanupPolicy(keep_versions=3, min_age="10m"))


def test_the_catalog_says_how_old_is_old_enough(tmp_path: Path, clock: ManualClock) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE, cleanup_min_age="2d")
    scattered(catalog, "people", 6)
    clock.pass_days(1)
    assert clean_up(catalog).is_nothing
    clock.pass_days(1.1)
    assert clean_up(catalog).versions_removed == 3


def test_large_values_go_with_their_file(tmp_path: Path, clock: ManualClock) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE)
    uri = tmp_path / LAKE / "files.lance"
    _, bodies = with_blobs(uri)
    catalog.maintenance.optimize_table(["files"])
    clock.pass_days(1)
    policy = CleanupPolicy(keep_versions=1, allow_below_recovery_floor=True)
    row = catalog.maintenance.cleanup_table(["files"], policy)
    assert row.files_removed >= 4 * 3
    (only,) = catalog.open_table(["files"]).get_fragments()
    stem = only.data_files()[0].path.removesuffix(".lance")
    left = {file.split("/")[1] for file in files(uri) if file.startswith("data/")}
    assert {name.removesuffix(".lance") for name in left} == {stem}
    blobs = catalog.open_table(["files"]).take_blobs("blob", indices=list(range(12)))
    assert [blob.readall() for blob in blobs] == bodies


def test_files_of_writers_that_have_not_committed_are_left_alone(
    old: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    pending = old.writes.begin(["people"], "append")
    written = fragments.write(pending, rows(77).to_reader())
    optimize(old, clock)
    assert old.maintenance.cleanup_table(["people"], CleanupPolicy(keep_versions=5)).files_removed
    old.writes.finish(pending, written, rows(77).schema)
    assert 77 in ids(old.open_table(["people"]))


def test_dropped_and_held_tables_are_not_touched(old: DirectoryNamespace, tmp_path: Path) -> None:
    directory = home(old, "people")
    before = ids(to_version(old, "people", 2))
    drop(old, "people")
    held = files(directory)
    assert old.maintenance.cleanup_all_tables(KEEP_THREE) == []
    with pytest.raises(TableNotFoundError):
        clean_up(old)
    old.hold_table(["people"])
    assert old.maintenance.cleanup_all_tables(KEEP_THREE) == []
    assert files(directory) == held
    old.release_table(["people"])
    old.undrop_table(["people"])
    assert ids(to_version(old, "people", 2)) == before


def test_a_branch_whose_beginning_is_gone_keeps_every_file(
    old: DirectoryNamespace, tmp_path: Path
) -> None:
    dataset = to_change(old, "people")
    dataset.create_branch("dev", 4)
    directory = home(old, "people")
    by_number = {file.version: file for file in old.services.versions.every(("people",))}
    (tmp_path / LAKE / by_number[4].key).unlink()
    held = files(directory)
    with pytest.raises(InvalidTableStateError, match="version 4"):
        clean_up(old)
    assert files(directory) == held


def test_settings_by_which_lance_deletes_versions_are_reported(
    old: DirectoryNamespace,
) -> None:
    to_change(old, "people").update_config({"lance.auto_cleanup.interval": "1000"})
    row = clean_up(old, dry_run=True)
    assert "lance.auto_cleanup.interval" in (row.warning or "")


def test_all_tables_have_a_row_and_one_that_fails_an_error(
    catalog: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        scattered(catalog, name, 5)
    clock.pass_days(1)
    broken = next((home(catalog, "b") / "_versions").glob("*.manifest"))
    broken.write_bytes(b"rubbish")
    result = catalog.maintenance.cleanup_all_tables(KEEP_THREE)
    assert [row.table for row in result] == ["a", "b", "c"]
    assert [row.versions_removed for row in result] == [2, 0, 2]
    assert [bool(row.error) for row in result] == [False, True, False]
    assert pickle.loads(pickle.dumps(result)) == result


def test_hidden_versions_follow_the_same_rules(tmp_path: Path, clock: ManualClock) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE, dir_listing_enabled=False)
    catalog.versions.manage()
    scattered(catalog, "people", 6)
    catalog.versions.hide(["people"], 2)
    catalog.versions.hide(["people"], 5)
    clock.pass_days(1)
    assert clean_up(catalog).versions_removed == 3
    assert versions(catalog, "people") == [4, 6]
    catalog.versions.show(["people"], 5)
    assert versions(catalog, "people") == [4, 5, 6]


def test_who_has_not_seen_it_can_not_build_on_what_is_gone(old: DirectoryNamespace) -> None:
    late = to_change(old, "people", version=2)
    append = lance.LanceOperation.Append(lance.fragment.write_fragments(rows(5000), late))
    clean_up(old)
    with pytest.raises(OSError, match=r"(?i)conflict|boundary|not found"):
        lance.LanceDataset.commit(late, lance.Transaction(2, append), max_retries=0)
    assert 5000 not in ids(old.open_table(["people"]))
