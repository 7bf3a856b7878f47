"""The catalog as it was at one version of its manifest: which tables, and which version of each.

One commit of the manifest carries a version of every table that it concerns, so what a snapshot
shows was true of all tables at once. It stays readable as long as the versions that it names do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import lance

from tiltyard.catalog import names
from tiltyard.catalog.base import no_such_table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.snapshot import ManifestSnapshot
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES, is_missing
from tiltyard.errors import (
    InvalidTableStateError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from tiltyard.versions.row_versions import RowVersions


@dataclass(frozen=True, slots=True)
class TableAt:
    """One table of a snapshot; a table that was only declared then has version 0."""

    id: TableId
    version: int
    location: str


@dataclass(frozen=True)
class CatalogSnapshot:
    """The tables of a catalog as they were together, at one version of the catalog."""

    version: int
    taken_at: datetime
    tables: Mapping[TableId, TableAt]
    _open: Callable[[TableAt], lance.LanceDataset] = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[TableAt]:
        return iter(self.tables.values())

    def __len__(self) -> int:
        return len(self.tables)

    def open(self, id: Sequence[str]) -> lance.LanceDataset:
        """A table as it was then, under the name that it had. Nothing is locked: a version that
        was deleted since is not found."""
        identifier = names.parse_table_id(id)
        table = self.tables.get(identifier)
        if table is None:
            raise no_such_table(identifier, hint=f"at version {self.version} of the catalog")
        if not table.version:
            raise TableVersionNotFoundError(
                f"table {names.display(identifier)} had no version yet "
                f"at version {self.version} of the catalog"
            )
        return self._open(table)


class Snapshots:
    """Takes snapshots of a catalog whose versions are managed."""

    def __init__(self, context: CatalogContext, rows: RowVersions) -> None:
        self._lance = context.lance
        self._manifest = context.manifest
        self._rows = rows

    def take(self, version: int | None, *, managed_only: bool) -> CatalogSnapshot:
        """One request to look, one for the time, and what Lance needs to read that version.

        UnsupportedOperationError without a manifest.
        """
        if not self._manifest.is_enabled:
            raise UnsupportedOperationError(
                "without a manifest nothing tells which versions tables had together",
                hint="open the catalog with manifest_enabled=true",
            )
        if version is None:
            latest = self._manifest.read()
            _require_managed(latest)
            version = latest.version
        snapshot, taken_at = self._manifest.table.read_at(version)
        _require_managed(snapshot)
        tables = dict(_tables(snapshot, managed_only=managed_only))
        return CatalogSnapshot(version, taken_at, tables, lambda table: self._open(snapshot, table))

    def _open(self, snapshot: ManifestSnapshot, table: TableAt) -> lance.LanceDataset:
        row = snapshot.version_row(names.object_id(table.id), table.version)
        assert row is not None, "a snapshot has a row for each of its versions"
        self._rows.ready(row)
        try:
            return self._lance.open(table.location, table.version)
        except FAILURES as error:
            if is_missing(error):
                raise TableVersionNotFoundError(
                    f"version {table.version} of table {names.display(table.id)} was deleted since"
                ) from error
            raise self._lance.explain(error, f"open table {names.display(table.id)}") from error


def _require_managed(snapshot: ManifestSnapshot) -> None:
    if not snapshot.managed:
        raise InvalidTableStateError(
            f"version {snapshot.version} of the catalog does not tell which versions its tables "
            f"had",
            hint="versions.manage makes it do so from then on",
        )


def _tables(snapshot: ManifestSnapshot, *, managed_only: bool) -> Iterator[tuple[TableId, TableAt]]:
    for identifier in snapshot.table_ids:
        row = snapshot.get(identifier)
        assert row is not None
        if row.has_version_rows:
            head = snapshot.head(identifier)
            yield row.id, TableAt(row.id, head, row.location or "")
        elif not managed_only:
            raise InvalidTableStateError(
                f"table {names.display(row.id)} keeps its versions as files, so the catalog does "
                f"not tell which it had",
                hint="take the snapshot with managed_only, or versions.manage to see why",
            )
