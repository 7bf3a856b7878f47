"""Cleaning up: old versions and their files go, and nothing that anybody may still need."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance import blob_array, blob_field

import tiltyard
from tests.behaviours.calls import create, drop
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import (
    ManualClock,
    files,
    ids,
    rows,
    scattered,
    to_version,
)
from tiltyard import DirectoryNamespace
from tiltyard.errors import InvalidInputError, InvalidTableStateError, TableNotFoundError
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.tables import fragments

KEEP_THREE = CleanupPolicy(keep_versions=3)


def versions(catalog: DirectoryNamespace, name: str) -> list[int]:
    request = api.ListTableVersionsRequest(id=[name])
    return [each.version for each in catalog.list_table_versions(request).versions]


def data_files(catalog: DirectoryNamespace, root: Path, name: str) -> set[str]:
    location = catalog.context.catalog.find((name,)).location
    return {each for each in files(root / location) if each.startswith("data/")}


@pytest.fixture
def rewritten(catalog: DirectoryNamespace, clock: ManualClock) -> DirectoryNamespace:
    """A table of ten versions, each with files of its own, a day ago."""
    create(catalog, "people", data=rows(*range(20)))
    dataset = to_change(catalog, "people")
    dataset.create_scalar_index("id", "BTREE")
    for number in range(4):
        dataset.delete(f"id = {number}")
        dataset.insert(rows(100 + number))
    clock.pass_days(1)
    return catalog


def optimize(catalog: DirectoryNamespace, clock: ManualClock) -> None:
    """And wait until nobody can be on an older version."""
    catalog.maintenance.optimize_table(["people"])
    clock.pass_days(1)


def test_old_versions_go_and_their_files_with_them(
    rewritten: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    optimize(rewritten, clock)
    before = ids(rewritten.open_table(["people"]))
    every = versions(rewritten, "people")
    held = files(tmp_path / "lake")
    row = rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    assert (row.table, row.error, row.versions_removed) == ("people", None, len(every) - 3)
    assert versions(rewritten, "people") == every[-3:]
    gone = held - files(tmp_path / "lake")
    assert row.files_removed == sum("_versions" not in each for each in gone) > 0
    assert row.bytes_removed > 0
    for version in every[-3:]:
        assert ids(to_version(rewritten, "people", version)).total() >= before.total()
    assert ids(rewritten.open_table(["people"])) == before
    found = rewritten.open_table(["people"]).to_table(filter="id = 103")
    assert found["id"].to_pylist() == [103]


def test_nothing_is_left_of_what_was_compacted(
    rewritten: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    rewritten.maintenance.optimize_table(["people"])
    for number in range(200, 203):
        to_change(rewritten, "people").insert(rows(number))
    clock.pass_days(1)
    rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    dataset = rewritten.open_table(["people"])
    referred = {
        f"data/{file.path}" for each in dataset.get_fragments() for file in each.data_files()
    }
    assert data_files(rewritten, tmp_path / "lake", "people") == referred
    location = rewritten.context.catalog.find(("people",)).location
    left = {each.partition("/")[0] for each in files(tmp_path / "lake" / location)}
    assert "_deletions" not in left
    (index,) = (segment.uuid for each in dataset.describe_indices() for segment in each.segments)
    indexes = {each.name for each in (tmp_path / "lake" / location / "_indices").iterdir()}
    assert index in indexes


def test_a_dry_run_tells_the_same_and_changes_nothing(
    rewritten: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    optimize(rewritten, clock)
    before = files(tmp_path / "lake")
    planned = rewritten.maintenance.cleanup_table(["people"], KEEP_THREE, dry_run=True)
    assert files(tmp_path / "lake") == before
    assert rewritten.maintenance.cleanup_table(["people"], KEEP_THREE) == planned


def test_a_second_run_finds_nothing_to_do(rewritten: DirectoryNamespace, tmp_path: Path) -> None:
    rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    before = files(tmp_path / "lake")
    row = rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    assert row.is_nothing
    assert row.versions_kept == 3
    assert files(tmp_path / "lake") == before


def test_tagged_versions_and_bases_of_branches_stay_whole(
    rewritten: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    dataset = to_change(rewritten, "people")
    dataset.tags.create("gold", 3)
    branch = dataset.create_branch("dev", 5)
    branch.insert(rows(900))
    expected = {each: ids(to_version(rewritten, "people", each)) for each in (3, 5)}
    optimize(rewritten, clock)
    row = rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    assert "tag 'gold'" in row.kept
    assert "branch 'dev'" in row.kept
    assert versions(rewritten, "people")[:2] == [3, 5]
    for version, found in expected.items():
        assert ids(to_version(rewritten, "people", version)) == found
    on_branch = to_version(rewritten, "people", 3).checkout_version(("dev", None))
    assert ids(on_branch) == expected[5] + Counter([900])
    assert on_branch.to_table(filter="id = 10")["id"].to_pylist() == [10]


def test_versions_that_are_too_young_stay(catalog: DirectoryNamespace, clock: ManualClock) -> None:
    scattered(catalog, "people", 6)
    assert catalog.maintenance.cleanup_table(["people"], KEEP_THREE).is_nothing
    clock.pass_days(0.5 / 24)
    row = catalog.maintenance.cleanup_table(["people"], KEEP_THREE)
    assert row.is_nothing
    assert "3 too young" in row.kept
    allowed = CleanupPolicy(keep_versions=3, min_age="10m", allow_young=True)
    assert catalog.maintenance.cleanup_table(["people"], allowed).versions_removed == 3
    with pytest.raises(InvalidInputError, match="below the catalog's"):
        catalog.maintenance.cleanup_table(["people"], CleanupPolicy(keep_versions=3, min_age="10m"))


def test_the_catalog_says_how_old_is_old_enough(tmp_path: Path, clock: ManualClock) -> None:
    catalog = tiltyard.connect(tmp_path / "lake", cleanup_min_age="2d")
    scattered(catalog, "people", 6)
    clock.pass_days(1)
    assert catalog.maintenance.cleanup_table(["people"], KEEP_THREE).is_nothing
    clock.pass_days(1.1)
    assert catalog.maintenance.cleanup_table(["people"], KEEP_THREE).versions_removed == 3


def test_large_values_go_with_their_file(tmp_path: Path, clock: ManualClock) -> None:
    catalog = tiltyard.connect(tmp_path / "lake")
    field = blob_field("blob", inline_size_threshold=10, dedicated_size_threshold=1000)
    schema = pa.schema([pa.field("id", pa.int64()), field])
    bodies = [(b"%d" % number) * size for number in range(4) for size in (3, 300, 3000)]
    uri, dataset = tmp_path / "lake" / "files.lance", None
    for number in range(4):
        own = blob_array(bodies[3 * number : 3 * number + 3])
        data = pa.table([pa.array([3 * number + at for at in range(3)]), own], schema)
        mode = "append" if dataset else "create"
        dataset = lance.write_dataset(data, uri, mode=mode, data_storage_version="2.2")
    catalog.maintenance.optimize_table(["files"])
    clock.pass_days(1)
    policy = CleanupPolicy(keep_versions=1, allow_below_recovery_floor=True)
    row = catalog.maintenance.cleanup_table(["files"], policy)
    assert row.files_removed >= 4 * 3
    (only,) = catalog.open_table(["files"]).get_fragments()
    stem = only.data_files()[0].path.removesuffix(".lance")
    left = {each for each in files(uri) if each.startswith("data/")}
    assert left
    assert {each.split("/")[1].removesuffix(".lance") for each in left} == {stem}
    blobs = catalog.open_table(["files"]).take_blobs("blob", indices=list(range(12)))
    assert [each.readall() for each in blobs] == bodies


def test_files_of_writers_that_have_not_committed_are_left_alone(
    rewritten: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    pending = rewritten.writes.begin(["people"], "append")
    written = fragments.write(pending, rows(77).to_reader())
    optimize(rewritten, clock)
    assert rewritten.maintenance.cleanup_table(
        ["people"], CleanupPolicy(keep_versions=5)
    ).files_removed
    rewritten.writes.finish(pending, written, rows(77).schema)
    assert 77 in ids(rewritten.open_table(["people"]))


def test_dropped_and_held_tables_are_not_touched(
    rewritten: DirectoryNamespace, tmp_path: Path
) -> None:
    location = rewritten.context.catalog.find(("people",)).location
    before = ids(to_version(rewritten, "people", 2))
    drop(rewritten, "people")
    held = files(tmp_path / "lake" / location)
    assert rewritten.maintenance.cleanup_all_tables(KEEP_THREE) == []
    with pytest.raises(TableNotFoundError):
        rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    rewritten.hold_table(["people"])
    assert rewritten.maintenance.cleanup_all_tables(KEEP_THREE) == []
    assert files(tmp_path / "lake" / location) == held
    rewritten.release_table(["people"])
    rewritten.undrop_table(["people"])
    assert ids(to_version(rewritten, "people", 2)) == before


def test_a_branch_whose_beginning_is_gone_keeps_every_file(
    rewritten: DirectoryNamespace, tmp_path: Path
) -> None:
    dataset = to_change(rewritten, "people")
    dataset.create_branch("dev", 4)
    location = rewritten.context.catalog.find(("people",)).location
    by_number = {each.version: each for each in rewritten.services.versions.every(("people",))}
    (tmp_path / "lake" / by_number[4].key).unlink()
    held = files(tmp_path / "lake" / location)
    with pytest.raises(InvalidTableStateError, match="version 4"):
        rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    assert files(tmp_path / "lake" / location) == held


def test_settings_by_which_lance_deletes_versions_are_reported(
    rewritten: DirectoryNamespace,
) -> None:
    to_change(rewritten, "people").update_config({"lance.auto_cleanup.interval": "1000"})
    row = rewritten.maintenance.cleanup_table(["people"], KEEP_THREE, dry_run=True)
    assert "lance.auto_cleanup.interval" in (row.warning or "")


def test_all_tables_have_a_row_and_one_that_fails_an_error(
    catalog: DirectoryNamespace, clock: ManualClock, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        scattered(catalog, name, 5)
    clock.pass_days(1)
    location = catalog.context.catalog.find(("b",)).location
    broken = next(
        each
        for each in (tmp_path / "lake" / location / "_versions").iterdir()
        if each.suffix == ".manifest"
    )
    broken.write_bytes(b"rubbish")
    found = catalog.maintenance.cleanup_all_tables(KEEP_THREE)
    assert [each.table for each in found] == ["a", "b", "c"]
    assert [each.versions_removed for each in found] == [2, 0, 2]
    assert [bool(each.error) for each in found] == [False, True, False]
    assert pickle.loads(pickle.dumps(found)) == found


def test_hidden_versions_follow_the_same_rules(tmp_path: Path, clock: ManualClock) -> None:
    catalog = tiltyard.connect(tmp_path / "lake", dir_listing_enabled=False)
    catalog.versions.manage()
    scattered(catalog, "people", 6)
    catalog.versions.hide(["people"], 2)
    catalog.versions.hide(["people"], 5)
    clock.pass_days(1)
    assert catalog.maintenance.cleanup_table(["people"], KEEP_THREE).versions_removed == 3
    assert versions(catalog, "people") == [4, 6]
    catalog.versions.show(["people"], 5)
    assert versions(catalog, "people") == [4, 5, 6]


def test_who_has_not_seen_it_can_not_build_on_what_is_gone(rewritten: DirectoryNamespace) -> None:
    asleep = to_version(rewritten, "people", 2)
    late = rewritten.services.clients.of(rewritten.context.catalog.find(("people",))).open(2)
    rewritten.maintenance.cleanup_table(["people"], KEEP_THREE)
    with pytest.raises(OSError, match=r"(?i)conflict|boundary|not found"):
        late.insert(rows(5000))
    assert asleep.version == 2
    assert 5000 not in ids(rewritten.open_table(["people"]))
