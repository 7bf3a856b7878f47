"""Turning a catalog whose versions are files into one whose versions are rows."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import lance
import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import PEOPLE, create, declare, describe, drop, make_namespace, refused
from tests.kit.catalogs import open_faulty, to_change
from tests.kit.stores import Fault
from tiltyard import DirectoryNamespace
from tiltyard.catalog.manifest.edits import StartManaging
from tiltyard.catalog.manifest.table import WRITER_FLAGS
from tiltyard.errors import ConcurrentModificationError, VersionBehindBoundaryError
from tiltyard.tables import fragments
from tiltyard.versions.management import StoredAs

MORE = PEOPLE.slice(0, 1)


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    return _open(tmp_path)


def _open(tmp_path: Path, **rest: object) -> DirectoryNamespace:
    return tiltyard.connect(
        tmp_path / "root", dir_listing_enabled=False, table_version_tracking_enabled=True, **rest
    )


def _append(catalog: DirectoryNamespace, table: str, times: int = 1) -> None:
    for _ in range(times):
        lance.write_dataset(MORE, namespace_client=catalog, table_id=[table], mode="append")


def _versions(catalog: DirectoryNamespace, table: str) -> list[int]:
    request = api.ListTableVersionsRequest(id=[table])
    return [version.version for version in catalog.list_table_versions(request).versions]


def _delete(catalog: DirectoryNamespace, table: str, first: int, last: int) -> None:
    ranges = [VersionRange(start_version=first, end_version=last + 1)]
    catalog.batch_delete_table_versions(
        api.BatchDeleteTableVersionsRequest(id=[table], ranges=ranges)
    )


def _is_managed(catalog: DirectoryNamespace, *table: str) -> bool:
    found = catalog.context.catalog.find(table)
    return found.managed and not found.becoming_managed


def test_what_was_there_stays_and_goes_on(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    _append(catalog, "people", 4)
    _delete(catalog, "people", 2, 3)
    declare(catalog, "plants")
    done = {table.id: table for table in catalog.versions.manage()}
    assert done["people",].added == 3
    assert done["plants",].versions is StoredAs.ROWS
    assert _versions(catalog, "people") == [1, 4, 5]
    _append(catalog, "people")
    assert catalog.open_table(["people"]).count_rows() == len(PEOPLE) + 5
    create(catalog, "plants")
    assert _versions(catalog, "plants") == [1]


def test_a_second_run_has_nothing_to_do(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    assert [each.added for each in catalog.versions.manage(dry_run=True)] == [1]
    assert not _is_managed(catalog, "people")
    assert [each.added for each in catalog.versions.manage()] == [1]
    before = catalog.context.manifest.table.read().version
    assert [each.added for each in catalog.versions.manage()] == [0]
    assert catalog.context.manifest.table.read().version == before


def test_the_boundary_is_kept(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    stale = to_change(catalog, "people")
    _append(catalog, "people", 3)
    _delete(catalog, "people", 1, 2)
    catalog.versions.manage()
    with pytest.raises(OSError, match=r"conflict|concurrent"):
        stale.insert(MORE)
    with pytest.raises(VersionBehindBoundaryError):
        catalog.services.versions.check_base(catalog.context.catalog.find(("people",)), 1)
    assert _versions(catalog, "people") == [3, 4]


def test_without_a_manifest_it_is_refused(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / "root", manifest_enabled=False)
    with refused(ErrorCode.UNSUPPORTED):
        catalog.versions.manage()


def test_tables_at_v1_locations_keep_their_files_and_work_on(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / "root", table_version_tracking_enabled=True)
    make_namespace(catalog, "prod")
    create(catalog, "people")
    create(catalog, "prod", "people")
    done = {table.id: table for table in catalog.versions.manage()}
    assert done["people",].versions is StoredAs.FILES
    assert "V1" in (done["people",].reason or "")
    assert done["prod", "people"].versions is StoredAs.ROWS
    _append(catalog, "people")
    assert _versions(catalog, "people") == [1, 2]
    with refused(ErrorCode.INVALID_TABLE_STATE):
        catalog.versions.hide(["people"], 1)
    with refused(ErrorCode.INVALID_TABLE_STATE):
        catalog.versions.snapshot()
    assert set(catalog.versions.snapshot(managed_only=True).tables) == {("prod", "people")}


def test_a_catalog_says_so_to_whoever_must_not_write(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    catalog.versions.manage()
    metadata = catalog.context.manifest.table.metadata()
    assert metadata["table_version_management"] == "true"
    assert int(metadata[WRITER_FLAGS]) == 1 << 48
    described = catalog.describe_namespace(api.DescribeNamespaceRequest(id=[]))
    assert described.properties == {}


def test_whoever_meets_a_table_on_its_way_finishes_it(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    create(catalog, "people")
    _append(catalog, "people")
    catalog.context.manifest.manage_versions()
    table = catalog.context.catalog.find(("people",))
    catalog.context.manifest.submit(StartManaging(table.id, table.location))
    newcomer = _open(tmp_path)
    assert _versions(newcomer, "people") == [1, 2]
    assert newcomer.open_table(["people"]).version == 2
    assert not _is_managed(newcomer, "people"), "a reader changes nothing"
    _append(newcomer, "people")
    assert _is_managed(catalog, "people")
    assert _versions(catalog, "people") == [1, 2, 3]


@pytest.mark.parametrize("verb", ["put_new", "first"])
def test_a_writer_that_trusts_files_meets_the_rows(
    catalog: DirectoryNamespace, tmp_path: Path, verb: str
) -> None:
    """The catalog is managed between two steps of a commit: it is not lost, nor done twice."""
    create(catalog, "people")
    writer, store = open_faulty(catalog)
    dataset = to_change(writer, "people")
    for after in range(4):
        store.plan(
            Fault.STALL_AFTER,
            verb=verb,
            after=after,
            hook=lambda: _in_a_thread(lambda: _open(tmp_path).versions.manage()),
        )
    dataset.insert(MORE)
    assert dataset.version == 2
    assert _versions(catalog, "people") == [1, 2]
    assert catalog.open_table(["people"]).count_rows() == len(PEOPLE) + 1


def _in_a_thread(call: object) -> None:
    thread = Thread(target=call)  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_a_collector_that_trusts_files_meets_the_rows(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    create(catalog, "people")
    _append(catalog, "people", 3)
    collector, store = open_faulty(catalog)
    collector.context.catalog.find(("people",))
    store.plan(
        Fault.STALL_AFTER,
        verb="list",
        key="*/_versions",
        hook=lambda: _open(tmp_path).versions.manage(),
    )
    _delete(collector, "people", 1, 2)
    assert _versions(catalog, "people") == [3, 4]
    table = catalog.context.catalog.find(("people",))
    with pytest.raises(VersionBehindBoundaryError):
        catalog.services.versions.check_base(table, 1)


def test_a_write_in_two_halves_that_began_before_is_done_again(
    catalog: DirectoryNamespace,
) -> None:
    create(catalog, "people")
    pending = catalog.writes.begin(["people"], "append")
    written = fragments.write(pending, MORE.to_reader())
    catalog.versions.manage()
    with pytest.raises(ConcurrentModificationError):
        catalog.writes.finish(pending, written, MORE.schema)
    assert _versions(catalog, "people") == [1]


def test_a_dropped_table_can_come_back_and_be_brought_in(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.versions.manage()
    catalog.undrop_table(["people"])
    assert not _is_managed(catalog, "people")
    assert _versions(catalog, "people") == [1]
    catalog.versions.manage()
    assert _is_managed(catalog, "people")
    assert describe(catalog, "people").managed_versioning
