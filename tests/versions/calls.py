"""Requests about versions, in the words of a test."""

from __future__ import annotations

import lance
import lance_namespace as api
from lance_namespace_urllib3_client.models.version_range import VersionRange

from tests.behaviours.calls import PEOPLE
from tiltyard import DirectoryNamespace

MORE = PEOPLE.slice(0, 1)


def append(catalog: DirectoryNamespace, *table: str, times: int = 1) -> None:
    """Append one row, as pylance does through a namespace."""
    for _ in range(times):
        lance.write_dataset(MORE, namespace_client=catalog, table_id=list(table), mode="append")


def versions(catalog: DirectoryNamespace, *table: str) -> list[int]:
    request = api.ListTableVersionsRequest(id=list(table))
    return [version.version for version in catalog.list_table_versions(request).versions]


def delete(catalog: DirectoryNamespace, *table: str, first: int, last: int) -> None:
    ranges = [VersionRange(start_version=first, end_version=last + 1)]
    catalog.batch_delete_table_versions(
        api.BatchDeleteTableVersionsRequest(id=list(table), ranges=ranges)
    )
