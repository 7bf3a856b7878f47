"""The doctor finds what is amiss with single tables, and what lies around them."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import lance
import pytest
from lance_namespace import RestoreTableRequest

import tiltyard
from tests.behaviours.calls import (
    PEOPLE,
    create,
    drop,
    register,
)
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import Lake
from tests.maintenance.doctoring import ROOT, found, past, with_both, with_rows
from tiltyard import DirectoryNamespace
from tiltyard.catalog import marker
from tiltyard.catalog.pylance import FAILURES
from tiltyard.maintenance.policy import CleanupPolicy


@pytest.fixture
def rows(tmp_path: Path) -> DirectoryNamespace:
    return with_rows(tmp_path)


@pytest.fixture
def both(tmp_path: Path) -> DirectoryNamespace:
    return with_both(tmp_path)


@pytest.fixture
def managed(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / ROOT, dir_listing_enabled=False)
    opened.versions.manage()
    create(opened, "people")
    return opened


def test_drift(managed: DirectoryNamespace) -> None:
    with managed.services.access.change(managed.context.catalog.find(("people",))) as dataset:
        dataset.insert(PEOPLE)
    past(managed).optimize.compact_files()
    assert found(managed) == [("info", "drift", "people")]
    past(managed).insert(PEOPLE)
    assert found(managed) == [("error", "drift", "people")]
    managed.health.repair_table(["people"], discard=True)
    assert found(managed) == []


def test_settings_that_delete_behind_our_back(both: DirectoryNamespace) -> None:
    past(both).update_config({"lance.auto_cleanup.interval": "20"})
    assert found(both) == [("warning", "auto cleanup", "people")]
    assert both.health.stop_auto_cleanup(["people"]) == ["lance.auto_cleanup.interval"]
    assert both.health.stop_auto_cleanup(["people"]) == []
    assert found(both) == []


def test_commits_that_nobody_fenced(both: DirectoryNamespace, tmp_path: Path) -> None:
    for _ in range(3):
        past(both).insert(PEOPLE)
    versions = tmp_path / ROOT / "people.lance" / "_versions"
    stale = {each.name: each.read_bytes() for each in versions.glob("*.manifest")}
    both.services.versions.delete(("people",), [(1, 2)])
    for name, body in stale.items():
        (versions / name).write_bytes(body)
    assert found(both) == [("info", "stale versions", "people")]
    assert both.versions.scrub(["people"]) == [1, 2]
    assert found(both) == []


def test_a_branch_that_the_list_does_not_know(both: DirectoryNamespace) -> None:
    table, dataset = both.context.catalog.find(("people",)), past(both)
    both.services.branches.create(table, "dev", dataset, lambda: _branch(dataset, "dev"))
    _branch(dataset, "stray")
    assert found(both) == [("warning", "orphaned branch", "people@stray")]


def _branch(dataset: lance.LanceDataset, name: str) -> None:
    dataset.create_branch(name)


def test_many_versions_and_small_fragments(
    both: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        past(both).insert(PEOPLE)
    monkeypatch.setattr("tiltyard.maintenance.checkup.MANY_VERSIONS", 4)
    monkeypatch.setattr("tiltyard.maintenance.checkup.MANY_FRAGMENTS", 4)
    assert found(both) == [
        ("info", "many versions", "people"),
        ("info", "small fragments", "people"),
    ]
    counted = both.maintenance.inventory_table(["people"])
    assert [each.message for each in both.health.doctor()] == [
        f"it has {counted.versions} versions",
        f"it has {counted.fragments} fragments of {counted.rows // counted.fragments} rows each",
    ]


# -- around them


def test_files_that_were_never_completed(both: DirectoryNamespace, tmp_path: Path) -> None:
    stale = tmp_path / ROOT / ".tiltyard" / "staged" / "left"
    stale.write_bytes(b"half")
    assert found(both) == []
    os.utime(stale, (time.time() - 8 * 86400,) * 2)
    assert found(both) == [("info", "stale staged files", ".tiltyard/staged")]
    both.health.remove_orphans(both.health.find_orphans())
    assert found(both) == []


def test_a_boundary_without_a_table(rows: DirectoryNamespace, tmp_path: Path) -> None:
    left = tmp_path / ROOT / "__gc" / "0123abcd_shop$gone"
    left.mkdir(parents=True)
    (left / "versions.boundary").write_bytes(b"3")
    assert [each[:2] for each in found(rows)] == [("info", "boundary without table")]


def test_a_table_registered_elsewhere_is_healthy(rows: DirectoryNamespace, tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "old" / "place"))
    register(rows, "shop", "kept", at="old/place")
    assert found(rows) == []


def test_markers_of_tables_without_a_directory_are_fine(both: DirectoryNamespace) -> None:
    drop(both, "people")
    both.purge_table(["people"])
    present = marker.read(both.context.store, "people")
    assert replace(present, tag=None).hides
    assert found(both) == []


def test_a_pin_that_a_crash_left(both: DirectoryNamespace, tmp_path: Path) -> None:
    for _ in range(3):
        past(both).insert(PEOPLE)
    opened, store = Lake(tmp_path / ROOT, {}, []).open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="delete", key="__gc/*/pins/*")
    with suppress(Crash, *FAILURES):  # Lance may find its version, and call it a success
        opened.restore_table(RestoreTableRequest(id=["people"], version=2))
    (pin,) = (tmp_path / ROOT / "__gc" / "people.lance" / "pins").iterdir()
    assert found(both) == []
    policy = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)
    assert "pin" in both.maintenance.cleanup_table(["people"], policy).kept
    os.utime(pin, (time.time() - 8 * 86400,) * 2)
    (only,) = both.health.doctor()
    assert (only.what, only.where) == ("stale pin", f"__gc/people.lance/pins/{pin.name}")
    assert only.mend == "tiltyard orphans --apply"
    assert [each.kind.value for each in both.health.remove_orphans(both.health.find_orphans())] == [
        "pin"
    ]
    assert found(both) == []
    assert both.maintenance.cleanup_table(["people"], policy).versions_kept == 1
