"""The numbers of a table: every byte is somebody's, and each is whose it is said to be."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import tiltyard
from tests.behaviours.calls import create, declare, drop
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import rows, scattered
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.inventory import State
from tiltyard.maintenance.policy import CleanupPolicy

LONG_AGO = time.time() - 30 * 86400


def _home(catalog: DirectoryNamespace, name: str) -> Path:
    return Path(catalog.context.settings.root) / catalog.context.catalog.find((name,)).location


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def test_every_byte_of_a_table_is_counted_once(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "t", fragments=4)
    to_change(catalog, "t").delete("id = 1")
    to_change(catalog, "t").create_scalar_index("id", "BTREE")
    to_change(catalog, "t").insert(rows(100))
    home = _home(catalog, "t")
    (home / "data" / "stray.lance").write_bytes(b"bytes")
    os.utime(home / "data" / "stray.lance", (LONG_AGO, LONG_AGO))
    (home / "data" / "young.lance").write_bytes(b"more bytes")

    found = catalog.maintenance.inventory_table(["t"])

    assert (found.state, found.rows, found.deleted_rows, found.fragments) == (State.LIVE, 40, 1, 5)
    assert (found.orphan_bytes, found.orphans) == (5, 1)
    assert found.other_bytes >= 10
    assert found.bytes == _size(home)
    assert found.bytes == (
        found.live_bytes + found.old_version_bytes + found.orphan_bytes + found.other_bytes
    )
    assert found.index_coverage == pytest.approx(39 / 40)
    assert found.small_file_score == pytest.approx(4 / 5)
    assert found.version == catalog.open_table(["t"]).version


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
    return tiltyard.connect(tmp_path / "lake")


def test_a_declared_table_a_dropped_one_and_one_that_is_broken(
    directory: DirectoryNamespace,
) -> None:
    declare(directory, "declared")
    create(directory, "dropped")
    create(directory, "broken")
    drop(directory, "dropped")
    for each in (_home(directory, "broken") / "_versions").glob("*.manifest"):
        each.write_bytes(b"?")

    broken, declared = directory.maintenance.inventory_all_tables()
    (dropped,) = [directory.maintenance.inventory_dropped(each) for each in directory.list_trash()]

    assert (declared.state, declared.rows, declared.error) == (State.DECLARED, 0, None)
    assert (broken.table, broken.state) == ("broken", State.UNKNOWN)
    assert broken.error is not None
    assert dropped.state is State.TRASH
    assert 0 < dropped.trash_bytes == dropped.bytes


def test_versions_are_rows_of_their_own(directory: DirectoryNamespace) -> None:
    scattered(directory, "t", fragments=3)

    found = directory.maintenance.inventory_versions(["t"])

    assert [(each.version, each.rows, each.files) for each in found] == [
        (1, 10, 1),
        (2, 20, 2),
        (3, 30, 3),
    ]
    assert all(each.error is None and each.bytes for each in found)
