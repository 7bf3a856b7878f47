"""Turning a catalog whose versions are files into one whose versions are rows."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import PEOPLE, create, declare, describe, drop, make_namespace, refused
from tests.kit.catalogs import open_faulty, to_change
from tests.kit.stores import Fault
from tests.versions.calls import MORE, append, delete, versions
from tiltyard import DirectoryNamespace
from tiltyard.catalog.manifest.edits import StartManaging
from tiltyard.catalog.manifest.table import WRITER_FLAGS
from tiltyard.errors import ConcurrentModificationError, VersionBehindBoundaryError
from tiltyard.tables import fragments
from tiltyard.versions.management import StoredAs


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    return _open(tmp_path)


def _open(tmp_path: Path, **rest: object) -> DirectoryNamespace:
    return tiltyard.connect(
        tmp_path / "root", dir_listing_enabled=False, table_version_tracking_enabled=True, **rest
    )


def _is_managed(catalog: DirectoryNamespace, *table: str) -> bool:
    row = catalog.context.catalog.find(table)
    return row.managed and not row.becoming_managed


def test_what_was_there_stays_and_goes_on(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    append(catalog, "people", times=4)
    delete(catalog, "people", first=2, last=3)
    declare(catalog, "plants")
    done = {table.id: table for table in catalog.versions.manage()}
    assert done["people",].added == 3
    assert done["plants",].versions is StoredAs.ROWS
    assert versions(catalog, "people") == [1, 4, 5]
    append(catalog, "people")
    assert catalog.open_table(["people"]).count_rows() == len(PEOPLE) + 5
    create(catalog, "plants")
    assert versions(catalog, "plants") == [1]


def test_a_second_run_has_nothing_to_do(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    assert [table.added for table in catalog.versions.manage(dry_run=True)] == [1]
    assert not _is_managed(catalog, "people")
    assert [table.added for table in catalog.versions.manage()] == [1]
    before = catalog.context.manifest.table.read().version
    assert [table.added for table in catalog.versions.manage()] == [0]
    assert catalog.context.manifest.table.read().version == before


def test_the_boundary_is_kept(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    stale = to_change(catalog, "people")
    append(catalog, "people", times=3)
    delete(catalog, "people", first=1, last=2)
    catalog.versions.manage()
    with pytest.raises(OSError, match=r"conflict|concurrent"):
        stale.insert(MORE)
    with pytest.raises(VersionBehindBoundaryError):
        catalog.services.versions.check_base(catalog.context.catalog.find(("people",)), 1)
    assert versions(catalog, "people") == [3, 4]


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
    append(catalog, "people")
    assert versions(catalog, "people") == [1, 2]
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
    append(catalog, "people")
    catalog.context.manifest.manage_versions()
    table = catalog.context.catalog.find(("people",))
    catalog.context.manifest.submit(StartManaging(table.id, table.location))
    newcomer = _open(tmp_path)
    assert versions(newcomer, "people") == [1, 2]
    assert newcomer.open_table(["people"]).version == 2
    assert not _is_managed(newcomer, "people"), "a reader changes nothing"
    append(newcomer, "people")
    assert _is_managed(catalog, "people")
    assert versions(catalog, "people") == [1, 2, 3]


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
    assert versions(catalog, "people") == [1, 2]
    assert catalog.open_table(["people"]).count_rows() == len(PEOPLE) + 1


def _in_a_thread(call: object) -> None:
    thread = Thread(target=call)  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_a_collector_that_trusts_files_meets_the_rows(
    catalog: DirectoryNamespace, tmp_path: Path
) -> None:
    create(catalog, "people")
    append(catalog, "people", times=3)
    collector, store = open_faulty(catalog)
    collector.context.catalog.find(("people",))
    store.plan(
        Fault.STALL_AFTER,
        verb="list",
        key="*/_versions",
        hook=lambda: _open(tmp_path).versions.manage(),
    )
    delete(collector, "people", first=1, last=2)
    assert versions(catalog, "people") == [3, 4]
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
    assert versions(catalog, "people") == [1]


def test_a_dropped_table_can_come_back_and_be_brought_in(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.versions.manage()
    catalog.undrop_table(["people"])
    assert not _is_managed(catalog, "people")
    assert versions(catalog, "people") == [1]
    catalog.versions.manage()
    assert _is_managed(catalog, "people")
    assert describe(catalog, "people").managed_versioning
