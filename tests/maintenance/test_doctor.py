"""The doctor finds what is amiss with names and places, and nothing on a healthy catalog."""

from __future__ import annotations

import json
import shutil
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
from tests.maintenance.batch import Lake
from tests.maintenance.doctoring import ROOT, found, later, with_both, with_rows
from tiltyard import DirectoryNamespace
from tiltyard.catalog.manifest.catalog import as_row
from tiltyard.catalog.manifest.edits import IndexTable
from tiltyard.maintenance.findings import Severity


def connect(mode: Mode, tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / ROOT, **mode.properties)
    if mode.manages_versions:
        opened.versions.manage()
    return opened


@pytest.mark.parametrize("mode", [*MODES, MANAGED, MANAGED_COMPATIBILITY], ids=str)
def test_nothing_is_amiss_with_a_healthy_catalog(mode: Mode, tmp_path: Path) -> None:
    catalog = connect(mode, tmp_path)
    assert found(catalog) == []
    for name in ("people", "dropped", "purged", "back"):
        create(catalog, name)
    declare(catalog, "declared")
    with catalog.services.access.change(catalog.context.catalog.find(("people",))) as dataset:
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
    return with_rows(tmp_path)


@pytest.fixture
def both(tmp_path: Path) -> DirectoryNamespace:
    return with_both(tmp_path)


def _remove(root: Path) -> None:
    shutil.rmtree(root)


def test_a_row_without_its_directory(rows: DirectoryNamespace, tmp_path: Path) -> None:
    _remove(tmp_path / ROOT / rows.context.catalog.find(("shop", "users")).location)
    (only,) = rows.health.doctor()
    assert (only.severity, only.what, only.where) == (
        Severity.ERROR,
        "missing directory",
        "shop.users",
    )
    assert only.mend == "tiltyard table deregister shop.users"


def test_versions_that_are_gone(rows: DirectoryNamespace, tmp_path: Path) -> None:
    rows.versions.manage()
    _remove(tmp_path / ROOT / rows.context.catalog.find(("shop", "users")).location / "_versions")
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
    table = both.context.catalog.find(("people",))
    drop(both, "people")
    both.context.manifest.submit(IndexTable(as_row(table)))
    assert found(both) == [("warning", "left-over row", "people")]
    both.health.recover()
    assert found(both) == []
    both.undrop_table(["people"])


def test_a_table_of_which_a_peer_deleted_the_directory(
    both: DirectoryNamespace, tmp_path: Path
) -> None:
    _remove(tmp_path / ROOT / "people.lance")
    assert found(both) == [("warning", "left-over row", "people")]
    both.health.recover()
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
    catalog.maintenance.migrate()
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
    (only,) = both.health.doctor()
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


REQUESTS_A_TABLE = {"directory": 7, "manifest": 4, "managed": 8, "both": 9}
PROPERTIES = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
    "managed": {"dir_listing_enabled": False},
    "both": {},
}


@pytest.mark.parametrize("mode", PROPERTIES)
def test_a_look_costs_as_many_requests_as_the_page_says(mode: str, tmp_path: Path) -> None:
    room = Lake(tmp_path / ROOT, PROPERTIES[mode], [])
    counts = []
    if mode == "managed":
        room.open().versions.manage()
    for name in ("a", "b", "c"):
        create(room.open(), name)
        opened, store = room.open_faulty()
        before = len(store.requests)
        assert opened.health.doctor() == []
        counts.append(len(store.requests) - before)
    assert counts[2] - counts[1] == counts[1] - counts[0] == REQUESTS_A_TABLE[mode]
