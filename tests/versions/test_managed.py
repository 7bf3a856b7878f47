"""Versions that are rows: they go where their table goes, and what is half done gets finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import lance_namespace as api
import lancedb
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    all_tables,
    create,
    declare,
    deregister,
    describe,
    drop,
    drop_namespace,
    make_namespace,
    refused,
    register,
    rename,
    tables,
)
from tests.kit.catalogs import open_faulty
from tests.kit.stores import Crash, Fault
from tests.peers.clients import open_pylance
from tiltyard import DirectoryNamespace
from tiltyard.catalog import version_files
from tiltyard.catalog.manifest.rows import Row
from tiltyard.errors import PermissionDeniedError, VersionBehindBoundaryError
from tiltyard.tables import describe as reading

MORE = PEOPLE.slice(0, 1)
MODES = {"manifest": {"dir_listing_enabled": "false"}, "both": {}}


@pytest.fixture(params=MODES.values(), ids=MODES)
def mode(request: pytest.FixtureRequest) -> dict[str, str]:
    chosen: dict[str, str] = request.param
    return chosen


@pytest.fixture
def catalog(tmp_path: Path, mode: dict[str, str]) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / "root", **mode)
    opened.versions.manage()
    return opened


def _again(catalog: DirectoryNamespace) -> DirectoryNamespace:
    return DirectoryNamespace(**catalog.context.settings.as_properties())


def _append(catalog: DirectoryNamespace, *table: str, times: int = 1) -> None:
    for _ in range(times):
        lance.write_dataset(MORE, namespace_client=catalog, table_id=list(table), mode="append")


def _versions(catalog: DirectoryNamespace, *table: str) -> list[int]:
    request = api.ListTableVersionsRequest(id=list(table))
    return [version.version for version in catalog.list_table_versions(request).versions]


def _delete(catalog: DirectoryNamespace, first: int, last: int, table: str = "people") -> None:
    ranges = [VersionRange(start_version=first, end_version=last + 1)]
    catalog.batch_delete_table_versions(
        api.BatchDeleteTableVersionsRequest(id=[table], ranges=ranges)
    )


def _rows(catalog: DirectoryNamespace) -> list[Row]:
    """Every row of a version, wherever it is."""
    snapshot = catalog.context.manifest.table.read()
    every = (fragment.row(at) for fragment in snapshot.fragments for at in range(len(fragment)))
    return [row for row in every if row.is_version]


# -- they go where their table goes


def test_a_new_table_is_managed_and_lies_in_a_directory_of_its_own(
    catalog: DirectoryNamespace,
) -> None:
    create(catalog, "people")
    answer = describe(catalog, "people")
    assert answer.managed_versioning
    assert not (answer.location or "").endswith("people.lance")
    assert [row.object_id for row in _rows(catalog)] == ["people$1"]


def test_a_declared_table_has_no_version_until_it_is_written(catalog: DirectoryNamespace) -> None:
    assert declare(catalog, "people").managed_versioning
    assert describe(catalog, "people", check_declared=True).is_only_declared
    assert create(catalog, "people").version == 1
    assert not describe(catalog, "people", check_declared=True).is_only_declared
    assert _versions(catalog, "people") == [1]


def test_versions_are_no_tables_and_no_namespaces(catalog: DirectoryNamespace) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")
    create(catalog, "plants")
    _append(catalog, "prod", "people", times=2)
    assert tables(catalog) == ["plants"]
    assert tables(catalog, "prod") == ["people"]
    assert all_tables(catalog) == ["plants", "prod$people"]
    listed = catalog.list_namespaces(api.ListNamespacesRequest(id=[]))
    assert list(listed.namespaces) == ["prod"]
    with refused(ErrorCode.NAMESPACE_NOT_EMPTY) as caught:
        drop_namespace(catalog, "prod")
    assert "1 tables" in caught.value.message
    with refused(ErrorCode.TABLE_NOT_FOUND, ErrorCode.NAMESPACE_NOT_FOUND):
        describe(catalog, "plants", "1")


def test_a_renamed_table_keeps_its_versions(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", times=2)
    _delete(catalog, 1, 1)
    rename(catalog, "people", to="folk")
    assert _versions(catalog, "folk") == [2, 3]
    _append(catalog, "folk")
    assert catalog.open_table(["folk"]).count_rows() == len(PEOPLE) + 3
    create(catalog, "people", data=PLANTS)
    assert _versions(catalog, "people") == [1]


def test_a_dropped_table_takes_its_versions_along(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", times=2)
    drop(catalog, "people")
    (dropped,) = catalog.list_trash()
    assert (dropped.id, dropped.version) == (("people",), 3)
    create(catalog, "people", data=PLANTS)
    assert _versions(catalog, "people") == [1]
    catalog.undrop_table(["people"], as_id=["folk"])
    assert _versions(catalog, "folk") == [1, 2, 3]
    assert catalog.open_table(["folk"]).count_rows() == len(PEOPLE) + 2


def test_a_purged_table_leaves_no_row(catalog: DirectoryNamespace) -> None:
    make_namespace(catalog, "prod")
    for table in (["people"], ["prod", "people"]):
        create(catalog, *table)
        _append(catalog, *table)
    drop(catalog, "people", ttl=0)
    drop_namespace(catalog, "prod", behavior="Cascade")
    assert len(_rows(catalog)) == 4
    for each in catalog.list_trash():
        catalog.purge_table(each.id)
    assert _rows(catalog) == []


def test_a_table_that_is_registered_again_goes_on_where_it_was(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", times=3)
    _delete(catalog, 2, 3)
    location = deregister(catalog, "people").location or ""
    assert _rows(catalog) == []
    register(catalog, "folk", at=location)
    assert describe(catalog, "folk").managed_versioning
    assert _versions(catalog, "folk") == [1, 4]
    _append(catalog, "folk")
    assert _versions(catalog, "folk") == [1, 4, 5]


def test_a_stale_writer_is_told_after_a_rename_too(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    pending = catalog.writes.begin(["people"], "append")
    _append(catalog, "people", times=2)
    _delete(catalog, 1, 2)
    table = catalog.context.catalog.find(("people",))
    with pytest.raises(VersionBehindBoundaryError):
        catalog.services.versions.check_base(table, pending.read_version)
    with pytest.raises(VersionBehindBoundaryError):
        _again(catalog).services.versions.check_base(table, pending.read_version)


# -- what is half done gets finished


def _uncopied(catalog: DirectoryNamespace) -> tuple[str, str]:
    """A version that was committed by a process that died before it was copied."""
    create(catalog, "people")
    client, store = open_faulty(catalog)
    store.plan(Fault.CRASH_BEFORE, verb="move", times=100)
    with pytest.raises((Crash, OSError)):
        _append(client, "people")
    location = catalog.context.catalog.find(("people",)).location
    final = version_files.key_of(location, 2)
    (staged,) = [
        entry.key
        for entry in catalog.context.store.walk(location)
        if entry.key.startswith(f"{final}-")
    ]
    return final, staged


def test_whoever_reads_first_copies_what_was_left(catalog: DirectoryNamespace) -> None:
    final, staged = _uncopied(catalog)
    body = catalog.context.store.get(staged).body
    assert lance.dataset(namespace_client=_again(catalog), table_id=["people"]).version == 2
    assert catalog.context.store.get(final).body == body
    assert staged not in {entry.key for entry in catalog.context.store.walk("")}
    _append(catalog, "people")
    assert _versions(catalog, "people") == [1, 2, 3]


def test_a_foreign_file_in_its_place_is_not_taken_for_it(catalog: DirectoryNamespace) -> None:
    final, staged = _uncopied(catalog)
    body = catalog.context.store.get(staged).body
    catalog.context.store.put(final, b"somebody else's")
    _versions(_again(catalog), "people")
    assert catalog.context.store.get(final).body == body


def test_a_reader_that_may_not_write_reads_the_staged_file(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    final, staged = _uncopied(catalog)
    reader = _again(catalog)

    def forbidden(*args: Any, **options: Any) -> None:
        raise PermissionDeniedError("read only")

    monkeypatch.setattr(reader.context.store, "move_many", forbidden)
    described = reader.describe_table_version(api.DescribeTableVersionRequest(id=["people"]))
    assert described.version.manifest_path.endswith(staged)
    assert final not in {entry.key for entry in catalog.context.store.walk("")}


def test_what_a_deletion_left_is_scrubbed(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", times=3)
    client, store = open_faulty(catalog, bulk=1)
    store.plan(Fault.CRASH_BEFORE, verb="delete_many", after=1)
    with pytest.raises(Crash):
        _delete(client, 1, 3)
    assert _versions(catalog, "people") == [4]
    assert len(catalog.services.versions.scrub(("people",))) == 2
    location = catalog.context.catalog.find(("people",)).location
    assert [
        version.version for version in version_files.every(catalog.context.store, location)
    ] == [4]


# -- hiding


def test_a_hidden_version_is_there_and_not_to_be_seen(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", times=3)
    catalog.versions.hide(["people"], 2, reason="bad rows")
    assert _versions(catalog, "people") == [1, 3, 4]
    assert [version.version for version in catalog.versions.history(["people"])] == [1, 3, 4]
    for read in (
        lambda: catalog.open_table(["people"], version=2),
        lambda: catalog.describe_table_version(
            api.DescribeTableVersionRequest(id=["people"], version=2)
        ),
    ):
        with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
            read()
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND) as caught:
        catalog.services.versions.describe(("people",), 2)
    assert "bad rows" in (caught.value.hint or "")
    _append(catalog, "people")
    catalog.versions.show(["people"], 2)
    assert _versions(catalog, "people") == [1, 2, 3, 4, 5]
    assert catalog.open_table(["people"], version=2).count_rows() == len(PEOPLE) + 1


def test_a_time_does_not_find_a_hidden_version(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", times=2)
    when = catalog.versions.history(["people"])[1].created_at
    assert catalog.versions.snapshot_table(["people"], reading.At(as_of=when)).at.version == 2
    catalog.versions.hide(["people"], 2)
    assert catalog.versions.snapshot_table(["people"], reading.At(as_of=when)).at.version == 1


def test_what_can_not_be_hidden(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people")
    with refused(ErrorCode.INVALID_TABLE_STATE):
        catalog.versions.hide(["people"], 2)
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        catalog.versions.hide(["people"], 9)
    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.versions.hide(["plants"], 1)
    assert _versions(catalog, "people") == [1, 2]


# -- beside others


def test_lances_own_client_reads_and_is_kept_from_writing(
    catalog: DirectoryNamespace, mode: dict[str, str]
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")
    peer = open_pylance({"root": catalog.context.settings.root, **mode})
    assert tables(peer, "prod") == ["people"]
    location = describe(catalog, "prod", "people").location or ""
    assert (describe(peer, "prod", "people").location or "").endswith(location)
    with pytest.raises(Exception, match="writer feature flags") as caught:
        make_namespace(peer, "test")
    assert caught.value.code is ErrorCode.UNSUPPORTED  # type: ignore[attr-defined]


def test_lancedb_works_through_us(catalog: DirectoryNamespace) -> None:
    db = lancedb.connect_namespace(
        "tiltyard.DirectoryNamespace", catalog.context.settings.as_properties()
    )
    table = db.create_table("people", PEOPLE)
    table.add(MORE)
    table.update(where="id = 2", values={"name": "eve"})
    table.delete("id = 3")
    table.create_index("id", config=lancedb.index.BTree())
    assert table.count_rows() == 3
    table.tags.create("good", 2)
    assert db.open_table("people").count_rows() == 3
    versions = _versions(catalog, "people")
    assert versions == list(range(1, len(versions) + 1))
    assert len(versions) >= 5
    table.checkout("good")
    assert table.count_rows() == 4


def test_what_is_written_past_the_catalog_counts_once_it_is_taken_in(
    catalog: DirectoryNamespace,
) -> None:
    uri = create(catalog, "people").location or ""
    lance.write_dataset(MORE, uri, mode="append")
    assert _versions(catalog, "people") == [1]
    assert catalog.open_table(["people"]).count_rows() == len(PEOPLE)
    with pytest.raises(OSError, match=r"conflict|concurrent") as caught:
        _append(catalog, "people")
    assert "unknown" not in str(caught.value)
    (unchanged,) = catalog.versions.manage()
    assert (unchanged.id, unchanged.added) == (("people",), 0)
    assert catalog.health.repair_table(["people"], adopt=True).versions == (2,)
    _append(catalog, "people")
    assert _versions(catalog, "people") == [1, 2, 3]
    assert catalog.open_table(["people"]).count_rows() == len(PEOPLE) + 2
