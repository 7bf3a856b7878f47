"""What a table is made of, in numbers: rows, files, and whose its bytes are.

One unit of work for one table, which changes nothing. The console, the doctor and the job that
counts a whole catalog take their numbers from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

import lance

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.pylance import FAILURES, MOST_ROWS_PER_FILE, Lance
from tiltyard.clock import moment
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.candidates import candidate
from tiltyard.maintenance.needed import Needed, is_staged
from tiltyard.maintenance.orphan import FLOOR_MS, Kind
from tiltyard.maintenance.orphans import Orphans
from tiltyard.store import Entry, Store

# Indexes that Lance keeps for itself.
_OWN_INDEXES = "__lance"


class State(StrEnum):
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
    state: State = State.LIVE
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

    def __init__(
        self,
        store: Store,
        access: Lance,
        catalog: Catalog,
        orphans: Orphans,
        opening: Callable[[Table], lance.LanceDataset],
    ) -> None:
        self._store = store
        self._lance = access
        self._catalog = catalog
        self._orphans = orphans
        self._opening = opening

    def of(self, table: Table, floor_ms: int = FLOOR_MS) -> TableInventory:
        """A listing of its files, and a request for each version, two if it has indexes."""
        row = TableInventory(names.dotted(table.id))
        if self._catalog.latest(table) is None:
            return self._weighed(replace(row, state=State.DECLARED), table)
        try:
            dataset = self._opening(table)
            row = _indexed(counted(row, dataset), dataset)
        except FAILURES as error:
            raise self._lance.explain(error, f"open table {names.display(table.id)}") from error
        return self._shared_out(row, table, dataset.version, floor_ms)

    def of_trashed(self, dropped: DroppedTable) -> TableInventory:
        """A dropped table: all of it is trash. One listing."""
        entries = list(self._store.walk(dropped.location))
        size = sum(each.size for each in entries)
        return TableInventory(
            names.dotted(dropped.id),
            State.TRASH,
            dropped.version,
            files=len(entries),
            bytes=size,
            trash_bytes=size,
            last_write_at=_last_write(entries),
        )

    def versions(self, table: Table) -> Iterator[VersionInventory]:
        """Every version that has a file, oldest first. One request each."""
        shown = names.dotted(table.id)
        for each in version_files.every(self._store, table.location):
            when = moment(each.modified_ms or 0)
            try:
                dataset = self._lance.open(table.location, each.version)
                files = [file for part in dataset.get_fragments() for file in part.metadata.files]
                yield VersionInventory(
                    shown,
                    each.version,
                    dataset.count_rows(),
                    len(dataset.get_fragments()),
                    len(files),
                    sum(file.file_size_bytes or 0 for file in files),
                    when,
                )
            except FAILURES as error:
                ours = self._lance.explain(error, f"read version {each.version} of {shown}")
                yield VersionInventory(shown, each.version, created_at=when, error=str(ours))

    def _weighed(self, row: TableInventory, table: Table) -> TableInventory:
        entries = list(self._store.walk(table.location))
        size = sum(each.size for each in entries)
        return replace(row, files=len(entries), bytes=size, other_bytes=size)

    def _shared_out(
        self, row: TableInventory, table: Table, version: int, floor_ms: int
    ) -> TableInventory:
        """Whose the bytes are: of the latest version, of older ones, of nobody."""
        manifests, indexes = self._orphans.manifests(table)
        home = f"{table.location}/{names.VERSIONS_DIRECTORY}/"
        numbers = {
            each.key: found.version
            for each in manifests
            if each.key.startswith(home) and (found := version_files.parse(each)) is not None
        }
        latest = [each for each in manifests if numbers.get(each.key) == version]
        live, all_of_them = Needed(), Needed()
        for needed in self._orphans.references(table, latest, indexes, floor_ms):
            live.add(needed)
        for needed in self._orphans.references(table, manifests, indexes, floor_ms):
            all_of_them.add(needed)
        sums = _Sums({each.key for each in latest}, live, all_of_them)
        noted = self._orphans.noted(floor_ms)
        for entry in self._store.walk(table.location):
            is_young = not any(self._orphans.candidates(table, [entry], noted, floor_ms))
            sums.add(table.location, entry, is_young=is_young)
        return replace(
            row,
            versions=len(numbers),
            files=sums.files,
            bytes=sum(sums.bytes.values()),
            live_bytes=sums.bytes["live"],
            old_version_bytes=sums.bytes["old"],
            orphan_bytes=sums.bytes["orphan"],
            other_bytes=sums.bytes["other"],
            orphans=sums.orphans,
            last_write_at=_last_write(latest),
        )


class _Sums:
    """Bytes by whom they are for, added up file by file."""

    def __init__(self, latest: set[str], live: Needed, everything: Needed) -> None:
        self._latest = latest
        self._live = live
        self._everything = everything
        self.bytes = dict.fromkeys(("live", "old", "orphan", "other"), 0)
        self.files = 0
        self.orphans = 0

    def add(self, location: str, entry: Entry, *, is_young: bool) -> None:
        whose = self._whose(location, entry, is_young)
        self.files += 1
        self.orphans += whose == "orphan"
        self.bytes[whose] += entry.size

    def _whose(self, location: str, entry: Entry, is_young: bool) -> str:
        if f"/{names.VERSIONS_DIRECTORY}/" in entry.key and not is_staged(entry):
            if version_files.parse(entry) is None:
                return "other"
            return "live" if entry.key in self._latest else "old"
        found = candidate(location, entry)
        if found is None:
            return "other"
        if found.kind is Kind.FILE and found.is_needed(self._live):
            return "live"
        if found.is_needed(self._everything):
            return "old" if found.kind is Kind.FILE else "other"
        return "other" if is_young else "orphan"


def counted(row: TableInventory, dataset: lance.LanceDataset) -> TableInventory:
    """A row with what the fragments of a version tell. No request."""
    about = [each.metadata for each in dataset.get_fragments()]
    rows = sum(each.num_rows for each in about)
    ideal = max(1, -(-rows // MOST_ROWS_PER_FILE))
    return replace(
        row,
        version=dataset.version,
        rows=rows,
        deleted_rows=sum(each.num_deletions for each in about),
        fragments=len(about),
        small_file_score=max(0, len(about) - ideal) / len(about) if about else 0.0,
    )


def _indexed(row: TableInventory, dataset: lance.LanceDataset) -> TableInventory:
    rows_of = {each.fragment_id: each.metadata.num_rows for each in dataset.get_fragments()}
    found = [
        index for index in dataset.describe_indices() if not index.name.startswith(_OWN_INDEXES)
    ]
    covered = [sum(rows_of.get(each, 0) for each in _fragments_of(index)) for index in found]
    coverage = min(covered) / row.rows if covered and row.rows else 1.0
    return replace(row, indexes=len(found), index_coverage=coverage if found else None)


def _fragments_of(index: object) -> set[int]:
    segments = getattr(index, "segments", ())
    return {each for segment in segments for each in segment.fragment_ids}


def _last_write(entries: list[Entry]) -> datetime | None:
    newest = max((each.modified_ms for each in entries), default=None)
    return None if newest is None else moment(newest)
