"""The doctor finds what is wrong with names, places and operations, and nothing on a healthy
catalog. What concerns single tables is in test_doctor_of_tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
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
from tests.maintenance.batch import Lake, cut_off, lake
from tests.maintenance.catalogs import LAKE, home
from tiltyard import DirectoryNamespace
from tiltyard.catalog.manifest.catalog import as_row
from tiltyard.catalog.manifest.edits import IndexTable

Change = Callable[[DirectoryNamespace], object]


def found(catalog: DirectoryNamespace) -> list[tuple[str, str, str]]:
    findings = catalog.health.doctor()
    return [(finding.severity.value, finding.what, finding.where) for finding in findings]


def later(catalog: DirectoryNamespace) -> DirectoryNamespace:
    """A client that comes ten minutes after."""
    with clocks_ahead(timedelta(minutes=10)):
        return tiltyard.connect(**catalog.context.settings.as_properties())


@pytest.mark.parametrize("mode", [*MODES, MANAGED, MANAGED_COMPATIBILITY], ids=str)
def test_nothing_is_amiss_with_a_healthy_catalog(mode: Mode, tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE, **mode.properties)
    if mode.manages_versions:
        catalog.versions.manage()
    assert found(catalog) == []
    for name in ("people", "dropped", "purged", "back"):
        create(catalog, name)
    declare(catalog, "declared")
    with catalog.services.access.change(catalog.services.access.find(["people"])) as dataset:
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
            id=["people"], ranges=[VersionRange(start_version=1, end_version=3)]
        )
    )
    assert found(catalog) == []
    assert found(later(catalog)) == []


def test_looking_changes_nothing(both: DirectoryNamespace, tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "0123abcd_stray"))
    before = _contents(tmp_path)
    assert found(both)
    assert _contents(tmp_path) == before


def _contents(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}


# -- rows and directories


def test_a_row_without_its_directory(by_rows: DirectoryNamespace) -> None:
    shutil.rmtree(home(by_rows, "shop", "users"))
    (only,) = by_rows.health.doctor()
    assert (only.severity, only.what, only.where) == ("error", "missing directory", "shop.users")
    assert only.mend == "tiltyard table deregister shop.users"


def test_versions_that_are_gone(by_rows: DirectoryNamespace) -> None:
    by_rows.versions.manage()
    shutil.rmtree(home(by_rows, "shop", "users") / "_versions")
    assert found(by_rows) == [("error", "missing versions", "shop.users")]


def test_a_table_that_can_not_be_opened(both: DirectoryNamespace) -> None:
    for file in (home(both, "people") / "_versions").glob("*.manifest"):
        file.write_bytes(b"broken")
    create(both, "others")
    assert found(both) == [("error", "unreadable table", "people")]


def test_a_directory_without_a_row(by_rows: DirectoryNamespace, tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "0123abcd_shop$other"))
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "plain.lance"))
    assert [finding for finding in found(by_rows) if finding[1] != "not migrated"] == [
        ("warning", "directory without row", "plain.lance"),
        ("info", "directory without row", "0123abcd_shop$other"),
    ]


def _index_a_dropped_table(catalog: DirectoryNamespace) -> None:
    table = catalog.services.access.find(["people"])
    drop(catalog, "people")
    catalog.context.manifest.submit(IndexTable(as_row(table)))


def _delete_its_directory(catalog: DirectoryNamespace) -> None:
    shutil.rmtree(home(catalog, "people"))


@pytest.mark.parametrize("change", [_index_a_dropped_table, _delete_its_directory])
def test_a_left_over_row(both: DirectoryNamespace, change: Change) -> None:
    change(both)
    assert found(both) == [("warning", "left-over row", "people")]
    both.health.recover()
    assert found(both) == []
    if change is _index_a_dropped_table:
        both.undrop_table(["people"])


# -- what others have made


def test_a_manifest_of_lances_own_clients(tmp_path: Path) -> None:
    make_namespace(Peer(root=str(tmp_path / LAKE)), "shop")
    catalog = tiltyard.connect(tmp_path / LAKE)
    assert found(catalog) == [("info", "unstamped", "__manifest")]
    create(catalog, "shop", "users")
    assert found(catalog) == []


def test_a_manifest_of_a_newer_format(by_rows: DirectoryNamespace, tmp_path: Path) -> None:
    lance.dataset(str(tmp_path / LAKE / "__manifest")).update_metadata({"tiltyard.format": "9"})
    assert ("error", "foreign format", "__manifest") in found(by_rows)


def test_a_directory_that_was_never_migrated(tmp_path: Path) -> None:
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "people.lance"))
    catalog = tiltyard.connect(tmp_path / LAKE)
    assert found(catalog) == [("warning", "not migrated", "the catalog")]
    catalog.maintenance.migrate()
    assert found(catalog) == []


def test_a_table_that_a_peer_has_hidden(both: DirectoryNamespace) -> None:
    (home(both, "people") / ".lance-deregistered").write_bytes(b"reserved")
    assert tables(both) == ["people"]
    assert [finding for finding in found(both) if finding[1] != "left-over row"] == [
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
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "people.lance"))
    (only,) = both.health.doctor()
    assert (only.what, only.where) == ("created by a peer", "people")
    assert only.mend == "tiltyard table register people people.lance"


def test_a_table_that_was_written_to_in_the_trash(both: DirectoryNamespace, tmp_path: Path) -> None:
    drop(both, "people")
    lance.write_dataset(PEOPLE, str(tmp_path / LAKE / "people.lance"), mode="append")
    assert found(both) == [("info", "written in the trash", "people")]


def test_a_marker_that_is_not_understood(both: DirectoryNamespace, tmp_path: Path) -> None:
    drop(both, "people")
    file = tmp_path / LAKE / "people.deleted"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 9}).ljust(256))
    assert ("error", "unreadable marker", "people") in found(both)


# -- what a crash has left


def _crash(catalog: DirectoryNamespace, change: Change, **where: object) -> None:
    opened, store = Lake(Path(catalog.context.settings.root), {}, []).open_faulty()
    store.plan(Fault.CRASH_BEFORE, **where)  # type: ignore[arg-type]
    with pytest.raises(Crash):
        change(opened)


def test_a_create_that_was_cut_off(both: DirectoryNamespace) -> None:
    drop(both, "people")
    # Three swaps: the probe, and the two that show the table.
    _crash(both, lambda it: create(it, "people"), verb="replace", key="people.deleted", after=1)
    assert found(both) == []
    after = later(both)
    assert found(after) == [("warning", "unfinished create", "people")]
    (only,) = after.health.recover()
    assert (only.kind, only.outcome.value) == ("create", "rolled forward")
    assert found(after) == []
    assert after.open_table(["people"]).count_rows() == len(PEOPLE)


@pytest.mark.parametrize(
    ("where", "name"),
    [
        pytest.param({"verb": "put", "key": "people.lance/*"}, "people", id="before the row"),
        pytest.param({"verb": "replace", "key": "people.deleted"}, "folk", id="after the row"),
    ],
)
def test_a_rename_that_was_cut_off(
    both: DirectoryNamespace, where: dict[str, object], name: str
) -> None:
    _crash(both, lambda it: rename(it, "people", to="folk"), **where)
    after = later(both)
    assert ("warning", "unfinished rename", "people") in found(after)
    (only,) = after.health.recover()
    assert (only.kind, only.outcome.is_final) == ("rename", True)
    assert found(after) == []
    assert tables(after) == [name]
    assert after.open_table([name]).count_rows() == len(PEOPLE)
    assert after.health.recover() == []


def test_a_purge_that_was_cut_off(both: DirectoryNamespace) -> None:
    drop(both, "people")
    _crash(both, lambda it: it.purge_table(["people"]), verb="delete_many")
    assert found(both) == [("warning", "unfinished purge", "people")]
    both.purge_tables()
    assert found(both) == []


def test_what_is_due_in_the_trash(both: DirectoryNamespace) -> None:
    drop(both, "people", ttl="1m")
    assert found(both) == []
    assert found(later(both)) == [("info", "trash due", "people")]


def test_a_batch_that_was_cut_off(tmp_path: Path) -> None:
    tried = lake(tmp_path / LAKE, manifest_enabled=False)
    cut_off(tried, 1)
    catalog = tried.open()
    assert found(catalog) == []
    (only,) = later(catalog).health.doctor()
    assert (only.severity, only.what) == ("warning", "unfinished operation")
    (file,) = (tried.root / "__recovery").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema": 9}))
    assert [finding[:2] for finding in found(catalog)] == [("error", "unreadable sidecar")]


# -- cost

REQUESTS_A_TABLE = {"directory": 7, "manifest": 4, "managed": 8, "both": 9}
PROPERTIES = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
    "managed": {"dir_listing_enabled": False},
    "both": {},
}


@pytest.mark.parametrize("mode", PROPERTIES)
def test_a_look_costs_as_many_requests_as_the_page_says(mode: str, tmp_path: Path) -> None:
    place = Lake(tmp_path / LAKE, PROPERTIES[mode], [])
    counts = []
    if mode == "managed":
        place.open().versions.manage()
    for name in ("a", "b", "c"):
        create(place.open(), name)
        opened, store = place.open_faulty()
        before = len(store.requests)
        assert opened.health.doctor() == []
        counts.append(len(store.requests) - before)
    assert counts[2] - counts[1] == counts[1] - counts[0] == REQUESTS_A_TABLE[mode]
