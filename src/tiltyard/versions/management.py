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

from tiltyard import names
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_table
from tiltyard.catalog.manifest.edits import AllOf, FinishManaging, StartManaging
from tiltyard.catalog.manifest.rows import MANAGED, VERSIONS, Row
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import UnsupportedOperationError
from tiltyard.names import TableId
from tiltyard.versions.directory import DirectoryVersions

BATCH = 100
READING_THREADS = 16

Progress = Callable[[int, int], None]


class Keeping(StrEnum):
    """How the versions of a table are kept after a run."""

    ROWS = "rows"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class ManagedTable:
    """What became of one table; `added` versions are rows now that were none before."""

    id: TableId
    location: str
    versions: Keeping
    added: int
    reason: str | None = None


class Management:
    """Brings the tables of one catalog into management."""

    def __init__(
        self, catalog: Catalog, manifest: ManifestCatalog | None, files: DirectoryVersions
    ) -> None:
        self._catalog = catalog
        self._manifest = manifest
        self._files = files

    @property
    def is_on(self) -> bool:
        """Whether the catalog is managed, as far as was read. No request."""
        return self._manifest is not None and self._manifest.known().managed

    def run(self, *, dry_run: bool = False, progress: Progress | None = None) -> list[ManagedTable]:
        """Manage the versions of every table that can be. Safe to repeat after a crash."""
        manifest = self._required()
        if not dry_run:
            manifest.manage_versions()
        every = self._tables(manifest)
        done = []
        for start in range(0, len(every), BATCH):
            batch = every[start : start + BATCH]
            done += [self._looked_at(each) for each in batch] if dry_run else self.bring_in(batch)
            if progress:
                progress(len(done), len(every))
        return done

    def bring_in(self, tables: Sequence[Table]) -> list[ManagedTable]:
        """Make rows of the versions of tables: two commits, and two requests a table."""
        manifest = self._required()
        fit = [each for each in tables if _why_not(each) is None]
        new = [each for each in fit if not each.managed]
        if new:
            manifest.submit(AllOf(tuple(StartManaging(t.id, t.location) for t in new)))
        with ThreadPoolExecutor(READING_THREADS) as pool:
            found = list(pool.map(self._files.visible_at, fit))
        added: dict[TableId, int] = {}
        if fit:
            answers = manifest.submit(
                AllOf(
                    tuple(
                        FinishManaging(
                            table.id, table.location, tuple(files), _boundary(files, boundary)
                        )
                        for table, (files, boundary) in zip(fit, found, strict=True)
                    )
                )
            ).answer
            added = {table.id: count for table, count in zip(fit, answers, strict=True)}
        return [
            ManagedTable(each.id, each.location, Keeping.ROWS, added[each.id])
            if each.id in added
            else _left(each)
            for each in tables
        ]

    def _tables(self, manifest: ManifestCatalog) -> list[Table]:
        snapshot = manifest.read()
        identifiers = self._catalog.list_all_tables()
        rows = ((each, snapshot.get(each)) for each in identifiers)
        return [
            as_table(row) if row is not None else Table((each,), names.table_directory(each))
            for each, row in rows
        ]

    def _looked_at(self, table: Table) -> ManagedTable:
        if _why_not(table) is not None:
            return _left(table)
        if table.managed and not table.arriving:
            return ManagedTable(table.id, table.location, Keeping.ROWS, 0)
        files, _ = self._files.visible_at(table)
        known = self._required().known().version_numbers(names.object_id(table.id))
        new = [each for each in files if each.version not in known]
        return ManagedTable(table.id, table.location, Keeping.ROWS, len(new))

    def _required(self) -> ManifestCatalog:
        if self._manifest is None:
            raise UnsupportedOperationError(
                "without a manifest there is no place for versions but their files",
                hint="open the catalog with manifest_enabled=true",
            )
        return self._manifest


def is_rows(row: Row) -> bool:
    return row.metadata.get(VERSIONS) == MANAGED


def _why_not(table: Table) -> str | None:
    if names.root_table_at(table.location, table.id) is None:
        return None
    return "it lies at a V1 location; write it anew, and it gets a directory of its own"


def _left(table: Table) -> ManagedTable:
    return ManagedTable(table.id, table.location, Keeping.FILES, 0, _why_not(table))


def _boundary(files: Iterable[VersionFile], boundary: int) -> int:
    """What is missing below the last may have been deleted, whatever the boundary says."""
    numbers = {each.version for each in files}
    last = max(numbers, default=0)
    gaps = (each for each in range(last, 0, -1) if each not in numbers)
    return max(boundary, next(gaps, 0))
