"""The numbers of a table: every byte is somebody's, and each is whose it is said to be."""

from __future__ import annotations

from pathlib import Path

import pytest

import tiltyard
from tests.behaviours.calls import create, declare, drop
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import LAKE, age, home, rows, scattered
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.inventory import InventoryState
from tiltyard.maintenance.policy import CleanupPolicy


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_every_byte_of_a_table_is_counted_once(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "t", fragments=4)
    to_change(catalog, "t").delete("id = 1")
    to_change(catalog, "t").create_scalar_index("id", "BTREE")
    to_change(catalog, "t").insert(rows(100))
    directory = home(catalog, "t")
    (directory / "data" / "stray.lance").write_bytes(b"bytes")
    age(directory / "data" / "stray.lance")
    (directory / "data" / "young.lance").write_bytes(b"more bytes")

    row = catalog.maintenance.inventory_table(["t"])

    assert (row.state, row.rows, row.deleted_rows, row.fragments) == (
        InventoryState.LIVE,
        40,
        1,
        5,
    )
    assert (row.orphan_bytes, row.orphans) == (5, 1)
    assert row.other_bytes >= 10
    assert row.bytes == _size(directory)
    assert row.bytes == (
        row.live_bytes + row.old_version_bytes + row.orphan_bytes + row.other_bytes
    )
    assert row.index_coverage == pytest.approx(39 / 40)
    assert row.small_file_score == pytest.approx(4 / 5)
    assert row.version == catalog.open_table(["t"]).version


def test_what_only_old_versions_need_is_gone_after_a_clean_up(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "t", fragments=4)
    before = catalog.maintenance.inventory_table(["t"])
    catalog.maintenance.optimize_table(["t"])
    merged = catalog.maintenance.inventory_table(["t"])
    policy = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)
    removed = catalog.maintenance.cleanup_table(["t"], policy).bytes_removed
    after = catalog.maintenance.inventory_table(["t"])

    assert merged.small_file_score == 0
    assert merged.old_version_bytes > before.old_version_bytes
    assert 0 < removed <= merged.old_version_bytes
    assert (after.versions, after.old_version_bytes, after.rows) == (1, 0, 40)
    assert after.live_bytes == merged.live_bytes


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryNamespace:
    return tiltyard.connect(tmp_path / LAKE)


def test_a_declared_table_a_dropped_one_and_one_that_is_broken(
    directory: DirectoryNamespace,
) -> None:
    declare(directory, "declared")
    create(directory, "dropped")
    create(directory, "broken")
    drop(directory, "dropped")
    for file in (home(directory, "broken") / "_versions").glob("*.manifest"):
        file.write_bytes(b"?")

    broken, declared = directory.maintenance.inventory_all_tables()
    (dropped,) = [
        directory.maintenance.inventory_dropped(dropped) for dropped in directory.list_trash()
    ]

    assert (declared.state, declared.rows, declared.error) == (InventoryState.DECLARED, 0, None)
    assert (broken.table, broken.state) == ("broken", InventoryState.UNKNOWN)
    assert broken.error is not None
    assert dropped.state is InventoryState.TRASH
    assert 0 < dropped.trash_bytes == dropped.bytes


def test_versions_are_rows_of_their_own(directory: DirectoryNamespace) -> None:
    scattered(directory, "t", fragments=3)

    versions = directory.maintenance.inventory_versions(["t"])

    assert [(version.version, version.rows, version.files) for version in versions] == [
        (1, 10, 1),
        (2, 20, 2),
        (3, 30, 3),
    ]
    assert all(version.error is None and version.bytes for version in versions)
