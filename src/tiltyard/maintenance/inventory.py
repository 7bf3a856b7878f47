"""What a table is made of, in numbers: rows, files, and which versions need its bytes.

One unit of work for one table, which changes nothing. The console, the doctor and the inventory job
take their numbers from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import lance

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES, MOST_ROWS_PER_FILE
from tiltyard.clock import moment
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.optimize import indexed_fragments, user_indexes
from tiltyard.maintenance.orphan_candidates import ORPHAN_MIN_AGE_MS, OrphanKind, candidate
from tiltyard.maintenance.orphans import Orphans
from tiltyard.maintenance.referenced_files import ReferencedFiles, is_staged
from tiltyard.store import Entry


class InventoryState(StrEnum):
    """What a row of an inventory is about."""

    LIVE = "live"
    DECLARED = "declared"
    TRASH = "trash"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TableInventory:
    """One table. Its bytes are live if its latest version needs them, of old versions if only those
    do, orphans if nothing does and they are a week old; the rest is of writes under way, and notes.

    `index_coverage` is the share of the rows that the index has that lacks most; None without an
    index. `small_file_score` is the share of its fragments that an optimize could do without.
    """

    table: str
    state: InventoryState = InventoryState.LIVE
    version: int | None = None
    versions: int = 0
    rows: int = 0
    deleted_rows: int = 0
    fragments: int = 0
    files: int = 0
    bytes: int = 0
    live_bytes: int = 0
    old_version_bytes: int = 0
    trash_bytes: int = 0
    orphan_bytes: int = 0
    other_bytes: int = 0
    orphans: int = 0
    indexes: int = 0
    index_coverage: float | None = None
    small_file_score: float = 0.0
    last_write_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class VersionInventory:
    """One version of a table, and the data files that it needs."""

    table: str
    version: int | None = None
    rows: int = 0
    fragments: int = 0
    files: int = 0
    bytes: int = 0
    created_at: datetime | None = None
    error: str | None = None


class Inventory:
    """Counts tables of one catalog, one at a time."""

    def __init__(self, maintenance: MaintenanceContext, orphans: Orphans) -> None:
        self._maintenance = maintenance
        self._context = maintenance.context
        self._orphans = orphans

    def of(self, table: Table, min_age_ms: int = ORPHAN_MIN_AGE_MS) -> TableInventory:
        """A listing of its files, and a request for each version, two if it has indexes."""
        row = TableInventory(names.dotted(table.id))
        if self._context.catalog.latest(table) is None:
            entries = list(self._context.store.walk(table.location))
            size = sum(entry.size for entry in entries)
            return replace(
                row,
                state=InventoryState.DECLARED,
                files=len(entries),
                bytes=size,
                other_bytes=size,
            )
        try:
            dataset = self._maintenance.open_table(table)
            row = _count_indexes(count_fragments(row, dataset), dataset)
        except FAILURES as error:
            doing = f"open table {names.display(table.id)}"
            raise self._context.lance.explain(error, doing) from error
        return self._count_bytes(row, table, dataset.version, min_age_ms)

    def of_trashed(self, dropped: DroppedTable) -> TableInventory:
        """A dropped table: all of it is trash. One listing."""
        entries = list(self._context.store.walk(dropped.location))
        size = sum(entry.size for entry in entries)
        return TableInventory(
            names.dotted(dropped.id),
            InventoryState.TRASH,
            dropped.version,
            files=len(entries),
            bytes=size,
            trash_bytes=size,
            last_write_at=_last_write(entries),
        )

    def versions(self, table: Table) -> Iterator[VersionInventory]:
        """Every version that has a file, oldest first. One request each."""
        shown = names.dotted(table.id)
        for file in version_files.every(self._context.store, table.location):
            created_at = moment(file.modified_ms or 0)
            try:
                dataset = self._context.lance.open(table.location, file.version)
                fragments = dataset.get_fragments()
                data = [data for fragment in fragments for data in fragment.metadata.files]
                yield VersionInventory(
                    shown,
                    file.version,
                    dataset.count_rows(),
                    len(fragments),
                    len(data),
                    sum(data_file.file_size_bytes or 0 for data_file in data),
                    created_at,
                )
            except FAILURES as error:
                doing = f"read version {file.version} of {shown}"
                ours = self._context.lance.explain(error, doing)
                yield VersionInventory(shown, file.version, created_at=created_at, error=str(ours))

    def _count_bytes(
        self, row: TableInventory, table: Table, version: int, min_age_ms: int
    ) -> TableInventory:
        """A row with the bytes of the latest version, of older ones, and of none."""
        manifests, indexes = self._orphans.manifests(table)
        directory = f"{table.location}/{names.VERSIONS_DIRECTORY}/"
        numbers = {
            entry.key: file.version
            for entry in manifests
            if entry.key.startswith(directory) and (file := version_files.parse(entry)) is not None
        }
        latest = [entry for entry in manifests if numbers.get(entry.key) == version]
        by_latest, by_any = ReferencedFiles(), ReferencedFiles()
        for referenced in self._orphans.references(table, latest, indexes, min_age_ms):
            by_latest.add(referenced)
        for referenced in self._orphans.references(table, manifests, indexes, min_age_ms):
            by_any.add(referenced)
        usage = _Usage(table.location, {entry.key for entry in latest}, by_latest, by_any)
        sizes: Counter[str] = Counter()
        files: Counter[str] = Counter()
        noted = self._orphans.noted(min_age_ms)
        for entry in self._context.store.walk(table.location):
            is_young = not any(self._orphans.candidates(table, [entry], noted, min_age_ms))
            use = usage.of(entry, is_young=is_young)
            files[use] += 1
            sizes[use] += entry.size
        return replace(
            row,
            versions=len(numbers),
            files=files.total(),
            bytes=sizes.total(),
            live_bytes=sizes["live"],
            old_version_bytes=sizes["old"],
            orphan_bytes=sizes["orphan"],
            other_bytes=sizes["other"],
            orphans=files["orphan"],
            last_write_at=_last_write(latest),
        )


@dataclass(frozen=True)
class _Usage:
    """What needs the files of one table. `latest` are the manifests of its latest version."""

    location: str
    latest: set[str]
    by_latest: ReferencedFiles
    by_any: ReferencedFiles

    def of(self, entry: Entry, *, is_young: bool) -> str:
        """Live, old, orphan or other."""
        if f"/{names.VERSIONS_DIRECTORY}/" in entry.key and not is_staged(entry):
            if version_files.parse(entry) is None:
                return "other"
            return "live" if entry.key in self.latest else "old"
        file = candidate(self.location, entry)
        if file is None:
            return "other"
        is_file = file.kind is OrphanKind.FILE
        if is_file and file.is_referenced(self.by_latest):
            return "live"
        if file.is_referenced(self.by_any):
            return "old" if is_file else "other"
        return "other" if is_young else "orphan"


def count_fragments(row: TableInventory, dataset: lance.LanceDataset) -> TableInventory:
    """A row with what the fragments of a version tell. No request."""
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    rows = sum(fragment.num_rows for fragment in fragments)
    ideal = max(1, -(-rows // MOST_ROWS_PER_FILE))
    return replace(
        row,
        version=dataset.version,
        rows=rows,
        deleted_rows=sum(fragment.num_deletions for fragment in fragments),
        fragments=len(fragments),
        small_file_score=max(0, len(fragments) - ideal) / len(fragments) if fragments else 0.0,
    )


def _count_indexes(row: TableInventory, dataset: lance.LanceDataset) -> TableInventory:
    rows = {
        fragment.fragment_id: fragment.metadata.num_rows for fragment in dataset.get_fragments()
    }
    covered = [
        sum(rows.get(fragment, 0) for fragment in indexed_fragments(index))
        for index in user_indexes(dataset)
    ]
    coverage = min(covered) / row.rows if covered and row.rows else 1.0
    return replace(row, indexes=len(covered), index_coverage=coverage if covered else None)


def _last_write(entries: Sequence[Entry]) -> datetime | None:
    newest = max((entry.modified_ms for entry in entries), default=None)
    return None if newest is None else moment(newest)
