"""The doctor finds each thing that is amiss, by its name, and nothing on a healthy catalog."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import lance
import pytest
from lance.namespace import DirectoryNamespace as Peer
from lance_namespace import BatchDeleteTableVersionsRequest
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import (
    PEOPLE,
    create,
    declare,
    drop,
    make_namespace,
    register,
    rename,
    tables,
)
from tests.behaviours.modes import MANAGED, MANAGED_COMPATIBILITY, MODES, Mode
from tests.behaviours.trash import clocks_ahead
from tests.kit.stores import Crash, Fault
from tests.maintenance.batch import Lake, lake
from tiltyard import DirectoryNamespace
from tiltyard.catalog import marker
from tiltyard.catalog.manifest import edits
from tiltyard.catalog.manifest.catalog import as_row
from tiltyard.maintenance.findings import Severity

ROOT = "lake"


def connect(mode: Mode, tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / ROOT, **mode.properties)
    if mode.manages_versions:
        opened.manage_versions()
    return opened


def found(catalog: DirectoryNamespace) -> list[tuple[str, str, str]]:
    return [(each.severity.value, each.what, each.where) for each in catalog.doctor()]


def later(lake: Lake | DirectoryNamespace) -> DirectoryNamespace:
    """A client that comes ten minutes after."""
    with clocks_ahead(timedelta(minutes=10)):
        return (
            lake.open()
            if isinstance(lake, Lake)
            else tiltyard.connect(**lake._settings.as_properties())
        )


@pytest.mark.parametrize("mode", [*MODES, MANAGED, MANAGED_COMPATIBILITY], ids=str)
def test_nothing_is_amiss_with_a_healthy_catalog(mode: Mode, tmp_path: Path) -> None:
    catalog = connect(mode, tmp_path)
    assert found(catalog) == []
    for name in ("people", "dropped", "purged", "back"):
        create(catalog, name)
    declare(catalog, "declared")
    with catalog._changing(catalog._catalog.find(("people",))) as dataset:
        dataset.insert(PEOPLE)
        dataset.delete("id = 1")
    for name in ("dropped", "purged", "back"):
        drop(catalog, name)
    catalog.purge_table(["purged"])
    catalog.undrop_table(["back"])
    create(catalog, "purged")
    if mode.has_manifest:
        make_namespace(catalog, "shop")
        create(catalog, "shop", "users")
        create(catalog, "old")
        rename(catalog, "old", to="new")
        drop(catalog, "shop", "users")
        create(catalog, "shop", "users")
    catalog.batch_delete_table_versions(
        BatchDeleteTableVersionsRequest(
            id=["people"], ranges=[VersionRange(start_version=1, end_version=2)]
        )
    )
    assert found(catalog) == []
    assert found(later(catalog)) == []


def test_looking_changes_nothing(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / ROOT)
    create(catalog, "people")
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "0123abcd_stray"))
    before = _contents(tmp_path / ROOT)
    assert found(catalog)
    assert _contents(tmp_path / ROOT) == before


def _contents(root: Path) -> dict[str, int]:
    return {str(each): each.stat().st_mtime_ns for each in root.rglob("*") if each.is_file()}


# -- rows and directories


@pytest.fixture
def rows(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / ROOT, dir_listing_enabled=False)
    make_namespace(opened, "shop")
    create(opened, "shop", "users")
    return opened


@pytest.fixture
def both(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / ROOT)
    create(opened, "people")
    return opened


def _remove(root: Path) -> None:
    shutil.rmtree(root)


def test_a_row_without_its_directory(rows: DirectoryNamespace, tmp_path: Path) -> None:
    _remove(tmp_path / ROOT / rows._catalog.find(("shop", "users")).location)
    (only,) = rows.doctor()
    assert (only.severity, only.what, only.where) == (
        Severity.ERROR,
        "missing directory",
        "shop.users",
    )
    assert only.mend == "tiltyard table deregister shop.users"


def test_versions_that_are_gone(rows: DirectoryNamespace, tmp_path: Path) -> None:
    rows.manage_versions()
    _remove(tmp_path / ROOT / rows._catalog.find(("shop", "users")).location / "_versions")
    assert found(rows) == [("error", "missing versions", "shop.users")]


def test_a_table_that_can_not_be_opened(both: DirectoryNamespace, tmp_path: Path) -> None:
    for each in (tmp_path / ROOT / "people.lance" / "_versions").glob("*.manifest"):
        each.write_bytes(b"broken")
    create(both, "others")
    assert found(both) == [("error", "unreadable table", "people")]


def test_a_directory_without_a_row(rows: DirectoryNamespace, tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "0123abcd_shop$other"))
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "plain.lance"))
    assert [each for each in found(rows) if each[1] != "not migrated"] == [
        ("warning", "directory without row", "plain.lance"),
        ("info", "directory without row", "0123abcd_shop$other"),
    ]


def test_a_left_over_row(both: DirectoryNamespace) -> None:
    table = both._catalog.find(("people",))
    drop(both, "people")
    both._manifest.submit(edits.index_table(as_row(table)))  # type: ignore[union-attr]
    assert found(both) == [("warning", "left-over row", "people")]
    both.recover()
    assert found(both) == []
    both.undrop_table(["people"])


def test_a_table_of_which_a_peer_deleted_the_directory(
    both: DirectoryNamespace, tmp_path: Path
) -> None:
    _remove(tmp_path / ROOT / "people.lance")
    assert found(both) == [("warning", "left-over row", "people")]
    both.recover()
    assert found(both) == []


# -- what others have made


def test_a_manifest_of_lances_own_clients(tmp_path: Path) -> None:
    peer = Peer(root=str(tmp_path / ROOT))
    make_namespace(peer, "shop")
    catalog = tiltyard.connect(tmp_path / ROOT)
    assert found(catalog) == [("info", "unstamped", "__manifest")]
    create(catalog, "shop", "users")
    assert found(catalog) == []


def test_a_manifest_of_a_newer_format(rows: DirectoryNamespace, tmp_path: Path) -> None:
    lance.dataset(str(tmp_path / ROOT / "__manifest")).update_metadata({"tiltyard.format": "9"})
    assert ("error", "foreign format", "__manifest") in found(rows)


def test_a_directory_that_was_never_migrated(tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "people.lance"))
    catalog = tiltyard.connect(tmp_path / ROOT)
    assert found(catalog) == [("warning", "not migrated", "the catalog")]
    catalog.migrate()
    assert found(catalog) == []


def test_a_table_that_a_peer_has_hidden(both: DirectoryNamespace, tmp_path: Path) -> None:
    (tmp_path / ROOT / "people.lance" / ".lance-deregistered").write_bytes(b"reserved")
    assert tables(both) == ["people"]
    assert [each for each in found(both) if each[1] != "left-over row"] == [
        ("warning", "hidden by a peer", "people")
    ]
    register(both, "people", at="people.lance")
    assert found(both) == []
    assert both.open_table(["people"]).count_rows() == len(PEOPLE)


def test_a_table_that_a_peer_created_under_a_purged_name(
    both: DirectoryNamespace, tmp_path: Path
) -> None:
    drop(both, "people")
    both.purge_table(["people"])
    assert found(both) == []
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "people.lance"))
    (only,) = both.doctor()
    assert (only.what, only.where) == ("created by a peer", "people")
    assert only.mend == "tiltyard table register people people.lance"


def test_a_table_that_was_written_to_in_the_trash(both: DirectoryNamespace, tmp_path: Path) -> None:
    drop(both, "people")
    lance.write_dataset(PEOPLE, str(tmp_path / ROOT / "people.lance"), mode="append")
    assert found(both) == [("info", "written in the trash", "people")]


def test_a_marker_that_is_not_understood(both: DirectoryNamespace, tmp_path: Path) -> None:
    drop(both, "people")
    file = tmp_path / ROOT / "people.deleted"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 9}).ljust(256))
    assert ("error", "unreadable marker", "people") in found(both)


# -- what is half done


def _crash(catalog: Lake, act: Callable[[DirectoryNamespace], object], **where: object) -> None:
    opened, store = catalog.open_faulty()
    store.plan(Fault.CRASH_BEFORE, **where)  # type: ignore[arg-type]
    with pytest.raises(Crash):
        act(opened)


@pytest.fixture
def room(both: DirectoryNamespace, tmp_path: Path) -> Lake:
    return Lake(tmp_path / ROOT, {}, [])


def test_a_create_that_was_cut_off(both: DirectoryNamespace, room: Lake) -> None:
    drop(both, "people")
    # Three swaps: the probe, and the two that show the table.
    _crash(room, lambda it: create(it, "people"), verb="replace", key="people.deleted", after=1)
    assert found(both) == []
    after = later(room)
    assert found(after) == [("warning", "unfinished create", "people")]
    (only,) = after.recover()
    assert (only.kind, only.outcome.value) == ("create", "rolled forward")
    assert found(after) == []
    assert after.open_table(["people"]).count_rows() == len(PEOPLE)


@pytest.mark.parametrize("after", [0, 1])
def test_a_rename_that_was_cut_off(both: DirectoryNamespace, room: Lake, after: int) -> None:
    """After the first swap of the marker no row has come; before the second it has."""
    if after:
        _crash(room, _rename, verb="replace", key="people.deleted", after=0)
    else:
        _crash(room, _rename, verb="put", key="people.lance/*")
    visitor = later(room)
    assert ("warning", "unfinished rename", "people") in found(visitor)
    (only,) = visitor.recover()
    assert (only.kind, only.outcome.is_final) == ("rename", True)
    assert found(visitor) == []
    name = "folk" if after else "people"
    assert tables(visitor) == [name]
    assert visitor.open_table([name]).count_rows() == len(PEOPLE)
    assert visitor.recover() == []


def _rename(catalog: DirectoryNamespace) -> None:
    rename(catalog, "people", to="folk")


def test_a_purge_that_was_cut_off(both: DirectoryNamespace, room: Lake) -> None:
    drop(both, "people")
    _crash(room, lambda it: it.purge_table(["people"]), verb="delete_many")
    assert found(both) == [("warning", "unfinished purge", "people")]
    both.purge_tables()
    assert found(both) == []


def test_what_is_due_in_the_trash(both: DirectoryNamespace) -> None:
    drop(both, "people", ttl="1m")
    assert found(both) == []
    assert found(later(both)) == [("info", "trash due", "people")]


def test_a_batch_that_was_cut_off(tmp_path: Path) -> None:
    tried = lake(tmp_path / ROOT, manifest_enabled=False)
    opened, store = tried.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=1)
    with pytest.raises(Crash):
        opened._batches.create_all(tried.wanted)
    assert found(tried.open()) == []
    (only,) = later(tried).doctor()
    assert (only.severity, only.what) == (Severity.WARNING, "unfinished operation")
    (file,) = (tried.root / "__recovery").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 9}))
    assert [each[:2] for each in found(tried.open())] == [("error", "unreadable sidecar")]


# -- single tables


@pytest.fixture
def managed(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / ROOT, dir_listing_enabled=False)
    opened.manage_versions()
    create(opened, "people")
    return opened


def _past(catalog: DirectoryNamespace) -> lance.LanceDataset:
    return lance.dataset(catalog._lance.uri(catalog._catalog.find(("people",)).location))


def test_drift(managed: DirectoryNamespace) -> None:
    with managed._changing(managed._catalog.find(("people",))) as dataset:
        dataset.insert(PEOPLE)
    _past(managed).optimize.compact_files()
    assert found(managed) == [("info", "drift", "people")]
    _past(managed).insert(PEOPLE)
    assert found(managed) == [("error", "drift", "people")]
    managed.repair_table(["people"], discard=True)
    assert found(managed) == []


def test_settings_that_delete_behind_our_back(both: DirectoryNamespace) -> None:
    _past(both).update_config({"lance.auto_cleanup.interval": "20"})
    assert found(both) == [("warning", "auto cleanup", "people")]
    assert both.stop_auto_cleanup(["people"]) == ["lance.auto_cleanup.interval"]
    assert both.stop_auto_cleanup(["people"]) == []
    assert found(both) == []


def test_commits_that_nobody_fenced(both: DirectoryNamespace, tmp_path: Path) -> None:
    for _ in range(3):
        _past(both).insert(PEOPLE)
    versions = tmp_path / ROOT / "people.lance" / "_versions"
    stale = {each.name: each.read_bytes() for each in versions.glob("*.manifest")}
    both._versions.delete(("people",), [(1, 2)])
    for name, body in stale.items():
        (versions / name).write_bytes(body)
    assert found(both) == [("info", "stale versions", "people")]
    assert both.scrub_versions(["people"]) == [1, 2]
    assert found(both) == []


def test_a_branch_that_the_list_does_not_know(both: DirectoryNamespace) -> None:
    table, dataset = both._catalog.find(("people",)), _past(both)
    both._branches.create(table, "dev", dataset, lambda: _branch(dataset, "dev"))
    _branch(dataset, "stray")
    assert found(both) == [("warning", "orphaned branch", "people@stray")]


def _branch(dataset: lance.LanceDataset, name: str) -> None:
    dataset.create_branch(name)


def test_many_versions_and_small_fragments(
    both: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        _past(both).insert(PEOPLE)
    monkeypatch.setattr("tiltyard.maintenance.checkup.MANY_VERSIONS", 4)
    monkeypatch.setattr("tiltyard.maintenance.checkup.MANY_FRAGMENTS", 4)
    assert found(both) == [
        ("info", "many versions", "people"),
        ("info", "small fragments", "people"),
    ]


# -- around them


def test_files_that_were_never_completed(both: DirectoryNamespace, tmp_path: Path) -> None:
    stale = tmp_path / ROOT / ".tiltyard" / "staged" / "left"
    stale.write_bytes(b"half")
    assert found(both) == []
    os.utime(stale, (time.time() - 3 * 86400,) * 2)
    assert found(both) == [("info", "stale staged files", ".tiltyard/staged")]
    os.utime(stale, (time.time() - 30 * 86400,) * 2)
    both.remove_orphans(both.find_orphans())
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
    present = marker.read(both._store, "people")
    assert replace(present, tag=None).hides
    assert found(both) == []
