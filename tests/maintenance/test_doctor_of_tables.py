"""The doctor finds what is wrong with single tables, and what lies around them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import lance
import pytest
from lance_namespace import RestoreTableRequest

import tiltyard
from tests.behaviours.calls import PEOPLE, create, drop, register
from tests.kit.catalogs import to_change
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import Lake
from tests.maintenance.catalogs import LAKE, age, home, past
from tests.maintenance.test_doctor import found
from tiltyard import DirectoryNamespace
from tiltyard.catalog import marker
from tiltyard.catalog.pylance import FAILURES
from tiltyard.maintenance.policy import CleanupPolicy


def test_drift(tmp_path: Path) -> None:
    managed = tiltyard.connect(tmp_path / LAKE, dir_listing_enabled=False)
    managed.versions.manage()
    create(managed, "people")
    to_change(managed, "people").insert(PEOPLE)
    past(managed, "people").optimize.compact_files()
    assert found(managed) == [("info", "drift", "people")]
    past(managed, "people").insert(PEOPLE)
    assert found(managed) == [("error", "drift", "people")]
    managed.health.repair_table(["people"], discard=True)
    assert found(managed) == []


def test_settings_that_delete_behind_our_back(both: DirectoryNamespace) -> None:
    past(both, "people").update_config({"lance.auto_cleanup.interval": "20"})
    assert found(both) == [("warning", "auto cleanup", "people")]
    assert both.health.stop_auto_cleanup(["people"]) == ["lance.auto_cleanup.interval"]
    assert both.health.stop_auto_cleanup(["people"]) == []
    assert found(both) == []


def test_commits_that_nobody_fenced(both: DirectoryNamespace) -> None:
    for _ in range(3):
        past(both, "people").insert(PEOPLE)
    manifests = (home(both, "people") / "_versions").glob("*.manifest")
    stale = {file: file.read_bytes() for file in manifests}
    both.services.versions.delete(("people",), [(1, 2)])
    for file, body in stale.items():
        file.write_bytes(body)
    assert found(both) == [("info", "stale versions", "people")]
    assert both.versions.scrub(["people"]) == [1, 2]
    assert found(both) == []


def test_a_branch_that_the_list_does_not_know(both: DirectoryNamespace) -> None:
    table, dataset = both.services.access.find(["people"]), past(both, "people")

    def branch(name: str) -> None:
        dataset.create_branch(name)

    both.services.branches.create(table, "dev", dataset, lambda: branch("dev"))
    branch("stray")
    assert found(both) == [("warning", "orphaned branch", "people@stray")]


def test_many_versions_and_small_fragments(
    both: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        past(both, "people").insert(PEOPLE)
    monkeypatch.setattr("tiltyard.maintenance.doctor.MANY_VERSIONS", 4)
    monkeypatch.setattr("tiltyard.maintenance.doctor.MANY_FRAGMENTS", 4)
    assert found(both) == [
        ("info", "many versions", "people"),
        ("info", "small fragments", "people"),
    ]
    counted = both.maintenance.inventory_table(["people"])
    assert [finding.message for finding in both.health.doctor()] == [
        f"it has {counted.versions} versions",
        f"it has {counted.fragments} fragments of {counted.rows // counted.fragments} rows each",
    ]


# -- around them


def test_files_that_were_never_completed(both: DirectoryNamespace, tmp_path: Path) -> None:
    stale = tmp_path / LAKE / ".tiltyard" / "staged" / "left"
    stale.write_bytes(b"half")
    assert found(both) == []
    age(stale, days=8)
    assert found(both) == [("info", "stale staged files", ".tiltyard/staged")]
    both.health.remove_orphans(both.health.find_orphans())
    assert found(both) == []


def test_a_boundary_without_a_table(by_rows: DirectoryNamespace, tmp_path: Path) -> None:
    left = tmp_path / LAKE / "__gc" / "0123abcd_shop$gone"
    left.mkdir(parents=True)
    (left / "versions.boundary").write_bytes(b"3")
    assert [finding[:2] for finding in found(by_rows)] == [("info", "boundary without table")]


def test_a_table_registered_elsewhere_is_healthy(
    by_rows: DirectoryNamespace, tmp_path: Path
) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "old" / "place"))
    register(by_rows, "shop", "kept", at="old/place")
    assert found(by_rows) == []


def test_markers_of_tables_without_a_directory_are_fine(both: DirectoryNamespace) -> None:
    drop(both, "people")
    both.purge_table(["people"])
    assert marker.read(both.context.store, "people").hides
    assert found(both) == []


def test_a_pin_that_a_crash_left(both: DirectoryNamespace, tmp_path: Path) -> None:
    for _ in range(3):
        past(both, "people").insert(PEOPLE)
    opened, store = Lake(tmp_path / LAKE, {}, []).open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="delete", key="__gc/*/pins/*")
    with suppress(Crash, *FAILURES):  # Lance may find its version, and call it a success
        opened.restore_table(RestoreTableRequest(id=["people"], version=2))
    (pin,) = (tmp_path / LAKE / "__gc" / "people.lance" / "pins").iterdir()
    assert found(both) == []
    policy = CleanupPolicy(1, min_age=0, allow_young=True, allow_below_recovery_floor=True)
    assert "pin" in both.maintenance.cleanup_table(["people"], policy).kept
    age(pin, days=8)
    (only,) = both.health.doctor()
    assert (only.what, only.where) == ("stale pin", f"__gc/people.lance/pins/{pin.name}")
    assert only.mend == "tiltyard orphans --apply"
    removed = both.health.remove_orphans(both.health.find_orphans())
    assert [orphan.kind.value for orphan in removed] == ["pin"]
    assert found(both) == []
    assert both.maintenance.cleanup_table(["people"], policy).versions_kept == 1
