"""Real manifests that Lance has staged and nobody has published yet, for several tables at once."""

from __future__ import annotations

from typing import Any

import lance
import lance_namespace as api
import pyarrow as pa
from lance_namespace_urllib3_client.models.create_table_version_entry import (
    CreateTableVersionEntry,
)

from tiltyard import DirectoryNamespace


class Held(Exception):
    """The commit goes no further: it is published later, with others."""


class Holding(api.LanceNamespace):
    """A catalog as Lance sees it, whose commits are written down instead of being made."""

    def __init__(self, catalog: DirectoryNamespace) -> None:
        self._catalog = catalog
        self.entries: list[CreateTableVersionEntry] = []

    def namespace_id(self) -> str:
        return "holding"

    def describe_table(self, request: Any) -> api.DescribeTableResponse:
        return self._catalog.describe_table(request)

    def list_table_versions(self, request: Any) -> api.ListTableVersionsResponse:
        return self._catalog.list_table_versions(request)

    def describe_table_version(self, request: Any) -> api.DescribeTableVersionResponse:
        return self._catalog.describe_table_version(request)

    def create_table_version(self, request: Any) -> api.CreateTableVersionResponse:
        asked = api.CreateTableVersionRequest.model_validate(request)
        self.entries.append(
            CreateTableVersionEntry(
                id=asked.id, version=asked.version, manifest_path=asked.manifest_path
            )
        )
        raise Held


def stage(catalog: DirectoryNamespace, rows: pa.Table, *tables: str) -> list[Any]:
    """Appends of the same rows to each table, staged: what a batch publishes."""
    holding = Holding(catalog)
    for table in tables:
        try:
            lance.dataset(namespace_client=holding, table_id=[table]).insert(rows)
        except OSError:  # Lance can't know what became of it, and neither do we
            continue
        raise AssertionError("nothing was held")
    return holding.entries


def publish(catalog: DirectoryNamespace, entries: list[Any]) -> list[int]:
    answer = catalog.batch_create_table_versions(
        api.BatchCreateTableVersionsRequest(entries=entries)
    )
    return [version.version for version in answer.versions]
