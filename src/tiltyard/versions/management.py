"""Turning versions that are files into rows, for a whole catalog, in steps that anyone may finish.

The catalog says first that versions are managed, which keeps out whoever does not know. Then each
table announces that its versions will be rows: from there on no writer trusts a file that it put.
What the directory has after that is made into rows. A table at a V1 location keeps its files: there
the marker decides, and not the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.catalog import as_table
from tiltyard.catalog.manifest.edits import AllOf, FinishManaging, StartManaging
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import UnsupportedOperationError
from tiltyard.versions.file_versions import FileVersions

BATCH = 100
READING_THREADS = 16

ManageProgress = Callable[[int, int], None]


class StoredAs(StrEnum):
    """How the versions of a table are kept after a run."""

    ROWS = "rows"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class ManagedTable:
    """What became of one table; `added` versions are rows now that were none before."""

    id: TableId
    location: str
    versions: StoredAs
    added: int
    reason: str | None = None


class Management:
    """Makes rows of the versions of the tables of one catalog."""

    def __init__(self, context: CatalogContext, files: FileVersions) -> None:
        self._catalog = context.catalog
        self._manifest = context.manifest
        self._files = files

    @property
    def is_on(self) -> bool:
        """Whether the catalog is managed, as far as was read. No request."""
        return self._manifest.known().managed

    def run(
        self, *, dry_run: bool = False, progress: ManageProgress | None = None
    ) -> list[ManagedTable]:
        """Manage the versions of every table that can be. Safe to repeat after a crash."""
        if not self._manifest.is_enabled:
            raise UnsupportedOperationError(
                "without a manifest there is no place for versions but their files",
                hint="open the catalog with manifest_enabled=true",
            )
        if not dry_run:
            self._manifest.manage_versions()
        tables = self._tables()
        done: list[ManagedTable] = []
        for start in range(0, len(tables), BATCH):
            batch = tables[start : start + BATCH]
            done += [self._planned(table) for table in batch] if dry_run else self.manage(batch)
            if progress:
                progress(len(done), len(tables))
        return done

    def manage(self, tables: Sequence[Table]) -> list[ManagedTable]:
        """Make rows of the versions of tables: two commits, and two requests a table."""
        eligible = [table for table in tables if _why_not(table) is None]
        new = [table for table in eligible if not table.managed]
        if new:
            self._manifest.submit(AllOf(tuple(StartManaging(it.id, it.location) for it in new)))
        with ThreadPoolExecutor(READING_THREADS) as pool:
            visible = list(pool.map(self._files.visible_at, eligible))
        added: dict[TableId, int] = {}
        if eligible:
            edits = [
                FinishManaging(table.id, table.location, tuple(files), _boundary(files, boundary))
                for table, (files, boundary) in zip(eligible, visible, strict=True)
            ]
            counts = self._manifest.submit(AllOf(tuple(edits))).answer
            added = {table.id: count for table, count in zip(eligible, counts, strict=True)}
        return [
            ManagedTable(table.id, table.location, StoredAs.ROWS, added[table.id])
            if table.id in added
            else _left_as_files(table)
            for table in tables
        ]

    def _tables(self) -> list[Table]:
        snapshot = self._manifest.read()
        rows = ((name, snapshot.get(name)) for name in self._catalog.list_all_tables())
        return [
            as_table(row) if row is not None else Table((name,), names.table_directory(name))
            for name, row in rows
        ]

    def _planned(self, table: Table) -> ManagedTable:
        if _why_not(table) is not None:
            return _left_as_files(table)
        if table.managed and not table.becoming_managed:
            return ManagedTable(table.id, table.location, StoredAs.ROWS, 0)
        files, _ = self._files.visible_at(table)
        known = self._manifest.known().version_numbers(names.object_id(table.id))
        new = [file for file in files if file.version not in known]
        return ManagedTable(table.id, table.location, StoredAs.ROWS, len(new))


def _why_not(table: Table) -> str | None:
    if names.root_table_at(table.location, table.id) is None:
        return None
    return "it lies at a V1 location; write it anew, and it gets a directory of its own"


def _left_as_files(table: Table) -> ManagedTable:
    return ManagedTable(table.id, table.location, StoredAs.FILES, 0, _why_not(table))


def _boundary(files: Iterable[VersionFile], boundary: int) -> int:
    """What is missing below the last may have been deleted, whatever the boundary says."""
    numbers = {file.version for file in files}
    last = max(numbers, default=0)
    gaps = (number for number in range(last, 0, -1) if number not in numbers)
    return max(boundary, next(gaps, 0))
