"""Interrupted creates and renames at V1 locations, and rows that outlived their tables.

A marker tells how far a create or a rename came, and every client that needs such a table finishes
it. Here all of them are found at once, and finished by the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tiltyard.catalog import marker, names
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.edits import RemoveStaleRow
from tiltyard.catalog.manifest.rows import MOVED, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import Marker, State
from tiltyard.errors import InvalidTableStateError, TiltyardError
from tiltyard.lifecycle.arbiter import Registration
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.tables import TableLifecycle
from tiltyard.maintenance.recovery import RECOVERY_MIN_AGE_MS, Recovered
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.store import Listing, Store

READING_THREADS = 16

CREATE, RENAME, ROW = "create", "rename", "row"


@dataclass(frozen=True, slots=True)
class UnfinishedOperation:
    """An operation that was begun and not finished, and the name whose marker or row tells so."""

    kind: str
    name: str
    since_ms: int
    row: Row | None = None


class UnfinishedOperations:
    """Finds and finishes what a crash interrupted at the V1 locations of one catalog."""

    def __init__(
        self,
        context: CatalogContext,
        recreation: Recreation,
        renames: Renames,
        lifecycle: TableLifecycle,
    ) -> None:
        self._context = context
        self._recreation = recreation
        self._renames = renames
        self._lifecycle = lifecycle

    def find(self, listing: Listing | None = None) -> list[UnfinishedOperation]:
        """One listing of the root, unless it is given, one request for each hidden marker, and one
        for each row at a V1 location."""
        listing = listing or self._context.store.list()
        unfinished: list[UnfinishedOperation] = []
        for name, present in hidden_markers(self._context.store, listing):
            if isinstance(present, Marker) and present.is_underway:
                kind = CREATE if present.state is State.REVIVING else RENAME
                unfinished.append(UnfinishedOperation(kind, name, _started_at_ms(present)))
        return [*unfinished, *self._left_over_rows(listing)]

    def _left_over_rows(self, listing: Listing) -> Iterator[UnfinishedOperation]:
        manifest = self._context.manifest
        for row in _rows_at_v1(manifest.read()):
            name = names.root_table_at(row.location or "", row.id)
            assert name is not None
            if names.table_directory(name) in listing.directories and manifest.is_trusted(row):
                if MOVED in row.metadata and row.object_id == name:
                    yield UnfinishedOperation(RENAME, name, 0, row)
                continue
            if not marker.read(self._context.store, name).is_underway:
                yield UnfinishedOperation(ROW, row.object_id, 0, row)

    def finish(self, *, min_age_ms: int = RECOVERY_MIN_AGE_MS) -> list[Recovered]:
        """Finish all that began longer ago than `min_age_ms`; an error of one does not stop the
        others."""
        return [self._finish(unfinished, min_age_ms) for unfinished in self.find()]

    def _finish(self, unfinished: UnfinishedOperation, min_age_ms: int) -> Recovered:
        kind, tables = unfinished.kind, (names.split_object_id(unfinished.name),)
        if self._context.clock.now_ms() - unfinished.since_ms < min_age_ms:
            why = "the process that began it may still be at work"
            return Recovered("", kind, Resolution.DEFERRED, tables, why)
        try:
            if kind == CREATE:
                outcome = self._finish_create(unfinished.name)
            elif kind == ROW and unfinished.row is not None:
                self._context.manifest.submit(RemoveStaleRow(unfinished.row.identity))
                outcome = Resolution.DISCARDED
            else:
                outcome = self._finish_rename(unfinished.name)
        except TiltyardError as error:
            return Recovered("", kind, Resolution.FAILED, tables, str(error))
        return Recovered("", kind, outcome, tables)

    def _finish_create(self, name: str) -> Resolution:
        hides = self._recreation.decided_marker(name).hides
        return Resolution.BACK if hides else Resolution.FORWARD

    def _finish_rename(self, name: str) -> Resolution:
        """Its row makes a rename final; without one the table is shown again where it was."""
        owner = self._renames.owner(self._context.directory.look((name,)))
        if owner is None:
            location = names.table_directory(name)
            self._lifecycle.register_all([Registration((name,), location)])
            return Resolution.BACK
        self._renames.finish(owner)
        return Resolution.FORWARD


def hidden_markers(store: Store, listing: Listing) -> list[tuple[str, Marker | str]]:
    """Every name whose marker hides its table, with the marker or why it can't be read. One
    request for each."""
    hidden = (names.marked_name(entry.key) for entry in listing.objects if marker.hides(entry.size))

    def read(name: str) -> tuple[str, Marker | str]:
        try:
            return name, marker.read(store, name)
        except InvalidTableStateError as error:
            return name, error.message

    with ThreadPoolExecutor(READING_THREADS) as pool:
        return list(pool.map(read, [name for name in hidden if name is not None]))


def _rows_at_v1(snapshot: Snapshot) -> list[Row]:
    """The rows of tables that have a name, at a location where a marker decides."""
    rows = (snapshot.get(object_id) for object_id in snapshot.table_ids)
    return [
        row
        for row in rows
        if row is not None and names.root_table_at(row.location or "", row.id) is not None
    ]


def _started_at_ms(present: Marker) -> int:
    """When a create or a rename began; the generation of a move begins with its time."""
    if present.state is State.REVIVING:
        return present.deleted_at_ms or 0
    return int((present.generation or "0")[:11], 16)
