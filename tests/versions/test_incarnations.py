"""Another client deletes `<name>.lance` and makes it anew, so that versions begin again at 1."""

from __future__ import annotations

from pathlib import Path

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import create
from tests.behaviours.modes import COMPATIBILITY, V1, Mode
from tests.kit.catalogs import open_faulty
from tests.peers.clients import open_pylance
from tiltyard import DirectoryNamespace
from tiltyard.catalog import names, version_files
from tiltyard.catalog.boundary import Boundary
from tiltyard.catalog.version_files import key_of
from tiltyard.errors import ConcurrentModificationError, TableVersionNotFoundError
from tiltyard.store import Retry
from tiltyard.versions.base import NewVersion

OLD = pa.table({"id": [1]})
NEW = pa.table({"id": [7]})
TABLE = ["people"]


@pytest.fixture(params=[V1, COMPATIBILITY], ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def catalog(root: str, mode: Mode) -> DirectoryNamespace:
    return _tracked(root, mode)


def _tracked(root: str, mode: Mode) -> DirectoryNamespace:
    return tiltyard.connect(root, table_version_tracking_enabled=True, **mode.properties)


def _write(catalog: DirectoryNamespace, rows: pa.Table = OLD, mode: str = "append") -> None:
    lance.write_dataset(rows, namespace_client=catalog, table_id=TABLE, mode=mode)


def _versions(catalog: DirectoryNamespace) -> list[int]:
    found = catalog.list_table_versions(api.ListTableVersionsRequest(id=TABLE))
    return [version.version for version in found.versions]


def _delete(catalog: DirectoryNamespace, first: int, last: int) -> None:
    catalog.batch_delete_table_versions(
        api.BatchDeleteTableVersionsRequest(
            id=TABLE, ranges=[VersionRange(start_version=first, end_version=last + 1)]
        )
    )


def _collected(catalog: DirectoryNamespace) -> None:
    """A table of seven versions, of which the first six were deleted."""
    _write(catalog, mode="create")
    for _ in range(6):
        _write(catalog)
    _delete(catalog, 1, 6)


def _replace(root: str, mode: Mode, versions: int) -> None:
    """As Lance's own client does."""
    peer = open_pylance({"root": root, **mode.properties})
    peer.drop_table(api.DropTableRequest(id=TABLE))
    lance.write_dataset(NEW, namespace_client=peer, table_id=TABLE)
    for _ in range(versions - 1):
        lance.write_dataset(NEW, namespace_client=peer, table_id=TABLE, mode="append")


def _rows(catalog: DirectoryNamespace) -> list[int]:
    found: list[int] = lance.dataset(namespace_client=catalog, table_id=TABLE).to_table()["id"]
    return found.to_pylist()  # type: ignore[attr-defined,no-any-return]


def test_readers_and_writers_go_on_with_the_new_table(
    catalog: DirectoryNamespace, root: str, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    _collected(catalog)
    _replace(root, mode, 2)

    assert _versions(catalog) == [1, 2]
    wanted = api.DescribeTableVersionRequest(id=TABLE, version=1)
    assert catalog.describe_table_version(wanted).version.version == 1
    for client in (catalog, _tracked(root, mode)):
        _write(client)

    assert "begin again" in caplog.text
    assert _versions(catalog) == [1, 2, 3, 4]
    assert _rows(catalog) == [7, 7, 1, 1]


def test_a_collector_goes_on_with_the_new_table(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    _collected(catalog)
    _replace(root, mode, 3)

    _delete(catalog, 1, 1)
    assert _versions(catalog) == [2, 3]
    _write(catalog)
    assert _versions(_tracked(root, mode)) == [2, 3, 4]


def test_a_scrub_deletes_nothing_of_the_new_table(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    _collected(catalog)
    _replace(root, mode, 3)

    assert catalog.services.versions.scrub(("people",)) == []
    assert _versions(catalog) == [1, 2, 3]


def test_a_writer_that_had_opened_the_old_table_is_refused(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    """Lance would count on from the version that it knows, on top of files that are gone."""
    _collected(catalog)
    stale = lance.dataset(namespace_client=catalog, table_id=TABLE)
    _replace(root, mode, 3)

    with pytest.raises(OSError, match=r"conflict|concurrent writers"):
        stale.insert(OLD)

    assert _versions(catalog) == [1, 2, 3]
    assert _rows(catalog) == [7, 7, 7]


def test_a_table_where_nothing_was_deleted_may_be_replaced_too(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    for _ in range(3):
        _write(catalog, mode="append" if catalog.list_tables(_ROOT).tables else "create")
    stale = lance.dataset(namespace_client=catalog, table_id=TABLE)
    _replace(root, mode, 1)
    with pytest.raises(OSError, match=r"conflict|concurrent writers"):
        stale.insert(OLD)
    _write(catalog)
    assert _rows(catalog) == [7, 1]


_ROOT = api.ListTablesRequest(id=[])


def test_a_purge_begins_no_new_incarnation(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    """Versions go on after it, and the manifest from which they do is no version of the table."""
    _collected(catalog)
    catalog.drop_table(api.DropTableRequest(id=TABLE))
    catalog.purge_table(TABLE)
    create(catalog, *TABLE, data=NEW)
    _write(catalog, NEW)

    assert _versions(catalog) == [8, 9]
    with pytest.raises(TableVersionNotFoundError):
        catalog.describe_table_version(api.DescribeTableVersionRequest(id=TABLE, version=7))
    assert [
        version.version for version in version_files.every(catalog.context.store, "people.lance")
    ] == [8, 9]
    directory = f"{names.BOUNDARIES}/people.lance"
    boundary = Boundary(catalog.context.store, directory, catalog.context.clock, Retry())
    assert boundary.mark() == (1, 6)


def test_a_commit_takes_no_request_more_once_it_is_known(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    writer, store = open_faulty(catalog)

    def asked(version: int) -> int:
        body = catalog.context.store.get(key_of("people.lance", version - 1)).body
        staged = _staged(catalog, body, version)
        before = len(store.requests)
        writer.services.versions.create(staged)
        return len(store.requests) - before

    _collected(catalog)
    writer.context.catalog.find(("people",))
    before = asked(8)
    _replace(root, mode, 2)
    asked(3)
    assert asked(4) == before


def _staged(catalog: DirectoryNamespace, body: bytes, version: int) -> NewVersion:
    key = f"{key_of('people.lance', version)}-{'0' * 8}-staged"
    catalog.context.store.put(key, body)
    return NewVersion(("people",), version, key)


def test_what_a_purged_table_had_reached_is_not_built_on(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    """A writer of the old table, that has slept since it staged its manifest."""
    _write(catalog, mode="create")
    _write(catalog)
    _write(catalog)
    body = catalog.context.store.get(key_of("people.lance", 2)).body  # based on 1
    catalog.drop_table(api.DropTableRequest(id=TABLE))
    catalog.purge_table(TABLE)
    create(catalog, *TABLE, data=NEW)
    # Left by a create that had to start over: the version before is there.
    catalog.context.store.put(key_of("people.lance", 1), body)

    with pytest.raises(ConcurrentModificationError, match="of another table"):
        catalog.services.versions.create(_staged(catalog, body, 2))

    assert _rows(catalog) == [7]


def test_a_number_that_others_have_passed_is_not_given_again(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    _write(catalog, mode="create")
    _write(catalog)
    body = catalog.context.store.get(key_of("people.lance", 2)).body  # based on 1
    _replace(root, mode, 4)
    catalog.context.store.delete_many(key_of("people.lance", each) for each in (1, 2))

    with pytest.raises(ConcurrentModificationError, match="of another table"):
        catalog.services.versions.create(_staged(catalog, body, 2))

    assert _rows(catalog) == [7, 7, 7, 7]


def test_whoever_asks_again_finds_its_version_below_the_latest(
    catalog: DirectoryNamespace, root: str, mode: Mode
) -> None:
    _write(catalog, mode="create")
    for _ in range(3):
        _write(catalog)
    body = catalog.context.store.get(key_of("people.lance", 3)).body
    catalog.context.store.delete(key_of("people.lance", 2))

    assert catalog.services.versions.create(_staged(catalog, body, 3)).version == 3
