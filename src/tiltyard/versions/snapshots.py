"""The catalog as it was at one version of its manifest: which tables, and which version of each.

One commit of the manifest carries a version of every table that it concerns, so what a snapshot
shows was true of all tables at once. It stays readable as long as the versions that it names do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import lance

from tiltyard import names
from tiltyard.catalog.base import no_such_table
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.pylance import FAILURES, Lance, is_missing
from tiltyard.errors import InvalidTableStateError, TableVersionNotFoundError, TiltyardError
from tiltyard.names import TableId
from tiltyard.versions.managed import ManagedVersions
from tiltyard.versions.management import is_rows


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
    _opening: Callable[[TableAt], lance.LanceDataset] = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[TableAt]:
        return iter(self.tables.values())

    def __len__(self) -> int:
        return len(self.tables)

    def open(self, id: Sequence[str]) -> lance.LanceDataset:
        """A table as it was then, under the name that it had. Nothing is locked: a version that
        was deleted since is not found."""
        identifier = names.parse_table_id(id)
        wanted = self.tables.get(identifier)
        if wanted is None:
            raise no_such_table(identifier, hint=f"at version {self.version} of the catalog")
        if not wanted.version:
            raise TableVersionNotFoundError(
                f"table {names.display(identifier)} had no version yet "
                f"at version {self.version} of the catalog"
            )
        return self._opening(wanted)


class Snapshots:
    """Takes snapshots of a catalog whose versions are managed."""

    def __init__(self, access: Lance, table: ManifestTable, rows: ManagedVersions) -> None:
        self._lance = access
        self._table = table
        self._rows = rows

    def take(self, version: int | None, *, managed_only: bool) -> CatalogSnapshot:
        """One request to look, one for the time, and what Lance needs to read that version."""
        number = version
        if number is None:
            latest = self._table.read()
            _must_tell(latest)
            number = latest.version
        snapshot, when = self._table.read_at(number)
        _must_tell(snapshot)
        tables = dict(_tables(snapshot, managed_only=managed_only))
        return CatalogSnapshot(number, when, tables, lambda each: self._open(snapshot, each))

    def _open(self, snapshot: Snapshot, wanted: TableAt) -> lance.LanceDataset:
        row = snapshot.version_row(names.object_id(wanted.id), wanted.version)
        assert row is not None, "a snapshot has a row for each of its versions"
        self._rows.ready(wanted.version, row)
        try:
            return self._lance.open(wanted.location, wanted.version)
        except FAILURES as error:
            if is_missing(error):
                raise _gone(wanted) from error
            raise self._lance.explain(error, f"open table {names.display(wanted.id)}") from error


def _must_tell(snapshot: Snapshot) -> None:
    if not snapshot.managed:
        raise InvalidTableStateError(
            f"version {snapshot.version} of the catalog does not tell which versions its tables "
            f"had",
            hint="versions.manage makes it do so from then on",
        )


def _tables(snapshot: Snapshot, *, managed_only: bool) -> Iterator[tuple[TableId, TableAt]]:
    for identifier in snapshot.table_ids:
        row = snapshot.get(identifier)
        assert row is not None
        if is_rows(row):
            head = snapshot.head(identifier)
            yield row.id, TableAt(row.id, head, row.location or "")
        elif not managed_only:
            raise InvalidTableStateError(
                f"table {names.display(row.id)} keeps its versions as files, so the catalog does "
                f"not tell which it had",
                hint="take the snapshot with managed_only, or versions.manage to see why",
            )


def _gone(wanted: TableAt) -> TiltyardError:
    return TableVersionNotFoundError(
        f"version {wanted.version} of table {names.display(wanted.id)} was deleted since"
    )
