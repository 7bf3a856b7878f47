"""Operations on the data of tables whose versions are rows of the manifest."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client import models

import tiltyard
from tests.behaviours import data
from tests.behaviours.calls import create, drop, refused
from tests.behaviours.data import CHANGES, DATA_CALLS, POINTS, branch, count, ids, insert, tag
from tests.behaviours.modes import with_managed_versions
from tests.behaviours.trash import on_disk
from tiltyard.catalog import version_files

Catalog = api.LanceNamespace

pytestmark = [with_managed_versions, on_disk]


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    create(catalog, "points", data=POINTS)
    data.index(catalog, "id", "BTREE")
    tag(catalog, "first", 1)
    branch(catalog, "side", from_version=1)
    return catalog


def _version(catalog: Catalog) -> int:
    request = api.ListTableVersionsRequest(id=["points"], descending=True, limit=1)
    return catalog.list_table_versions(request).versions[0].version


def _delete_versions(catalog: Catalog, first: int, last: int) -> int | None:
    ranges = [models.VersionRange(start_version=first, end_version=last + 1)]
    request = api.BatchDeleteTableVersionsRequest(id=["points"], ranges=ranges)
    return catalog.batch_delete_table_versions(request).deleted_count


@pytest.mark.parametrize("name", DATA_CALLS)
def test_each_operation_works(points: Catalog, name: str) -> None:
    before = _version(points)
    DATA_CALLS[name](points)
    assert _version(points) == before + (name in CHANGES)


@pytest.mark.parametrize("name", DATA_CALLS)
def test_a_dropped_table_is_not_found(points: Catalog, name: str) -> None:
    drop(points, "points")
    with refused(ErrorCode.TABLE_NOT_FOUND):
        DATA_CALLS[name](points)


def test_a_branch_of_a_managed_table_grows_by_itself(points: Catalog) -> None:
    insert(points, POINTS.slice(0, 1), branch="side")
    assert (count(points, branch="side"), count(points)) == (5, 4)


def test_a_version_that_stayed_can_be_tagged_and_restored(points: Catalog) -> None:
    data.delete(points, "true")
    _delete_versions(points, 2, 2)
    tag(points, "again", 1)
    points.restore_table(api.RestoreTableRequest(id=["points"], version=1))
    assert ids(points) == [1, 2, 3, 4]


@pytest.mark.parametrize("tag_first", [True, False])
def test_a_tag_and_a_collector_do_not_miss_each_other(
    points: Catalog, tag_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(points)
    from tiltyard.versions import row_versions

    referenced = row_versions.referenced_versions
    looks: list[dict[int, str]] = []

    def looking(*given: Any) -> dict[int, str]:
        """The collector looks a second time; before or after that the tag is written."""
        if len(looks) == 1 and tag_first:
            tag(points, "late", 2)
        references = referenced(*given)
        looks.append(references)
        if len(looks) == 2 and not tag_first:
            tag(points, "late", 2)
        return references

    monkeypatch.setattr(row_versions, "referenced_versions", looking)
    assert _delete_versions(points, 2, 2) == 0
    monkeypatch.undo()
    assert data.count(points, version=2) == 4
    answer = points.get_table_tag_version(api.GetTableTagVersionRequest(id=["points"], tag="late"))
    assert answer.version == 2


def test_versions_of_several_tables_are_one_commit(points: Catalog) -> None:
    create(points, "more", data=POINTS)
    staged = [_staged(points, "points", 3), _staged(points, "more", 2)]
    answer = _commit(points, *staged)
    made = [result.create_table_version for result in answer.results]
    assert [version.version.version for version in made if version and version.version] == [3, 2]
    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        _commit(points, _staged(points, "points", 4), _staged(points, "more", 9))
    assert _version(points) == 3, "nothing of a batch is done if one of it can't be"


def _staged(catalog: Any, table: str, version: int) -> models.CommitTableOperation:
    """What Lance does before it asks: the bytes of a manifest under a name of their own."""
    store, location = catalog.context.store, catalog.context.catalog.find((table,)).location
    key = f"{version_files.key_of(location, version)}-{uuid4()}"
    store.put(key, store.get(version_files.key_of(location, 1)).body)
    path = tiltyard.catalog.names.store_path(catalog.context.settings.root, key)
    return models.CommitTableOperation(
        create_table_version=api.CreateTableVersionRequest(
            id=[table], version=version, manifest_path=path, naming_scheme="V2"
        )
    )


def _commit(
    catalog: Catalog, *operations: models.CommitTableOperation
) -> api.BatchCommitTablesResponse:
    return catalog.batch_commit_tables(api.BatchCommitTablesRequest(operations=list(operations)))
