"""Creates and renames at V1 locations that a crash cut off, and rows that outlived their tables.

Their markers tell how far they came, and whoever meets such a table finishes what it needs. Here
all of them are looked for at once, and the same code finishes each.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import RemoveStaleRow
from tiltyard.catalog.manifest.rows import MOVED, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import Marker, State
from tiltyard.clock import Clock
from tiltyard.errors import InvalidTableStateError, TiltyardError
from tiltyard.lifecycle.arbiter import Registration
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.tables import TableLifecycle
from tiltyard.maintenance.recovery import PATIENCE_MS, Recovered, Resolution
from tiltyard.store import Listing, Store

READING_THREADS = 16

CREATE, RENAME, ROW = "create", "rename", "row"


@dataclass(frozen=True, slots=True)
class LeftOver:
    """Something that was begun and not finished: by its kind, and whose marker or row tells so."""

    kind: str
    name: str
    since_ms: int
    row: Row | None = None


class LeftOvers:
    """Finds and finishes what is half done at the V1 locations of one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
        recreation: Recreation,
        renames: Renames,
        lifecycle: TableLifecycle,
    ) -> None:
        self._store = store
        self._clock = clock
        self._directory = directory
        self._manifest = manifest
        self._recreation = recreation
        self._renames = renames
        self._lifecycle = lifecycle

    def find(self, listing: Listing | None = None) -> list[LeftOver]:
        """One listing of the root, unless it is given, one request for each hidden marker, and one
        for each row at a V1 location."""
        listing = listing or self._store.list()
        found: list[LeftOver] = []
        for name, present in hidden_markers(self._store, listing):
            if isinstance(present, Marker) and present.is_underway:
                kind = CREATE if present.state is State.REVIVING else RENAME
                found.append(LeftOver(kind, name, _since(present)))
        if self._manifest is not None:
            found += self._rows(self._manifest, listing)
        return found

    def _rows(self, manifest: ManifestCatalog, listing: Listing) -> Iterator[LeftOver]:
        snapshot = manifest.read()
        for row in rows_at_v1(snapshot):
            name = names.root_table_at(row.location or "", row.id)
            assert name is not None
            if names.table_directory(name) in listing.directories and manifest.is_trusted(row):
                if MOVED in row.metadata and row.object_id == name:
                    yield LeftOver(RENAME, name, 0, row)
                continue
            if not marker.read(self._store, name).is_underway:
                yield LeftOver(ROW, row.object_id, 0, row)

    def finish(self, *, patience_ms: int = PATIENCE_MS) -> list[Recovered]:
        """Finish all of them, each by itself; what stops one does not stop the others."""
        return [self._finished(each, patience_ms) for each in self.find()]

    def _finished(self, left: LeftOver, patience_ms: int) -> Recovered:
        table = names.split_object_id(left.name)
        if self._clock.now_ms() - left.since_ms < patience_ms:
            why = "whoever began it may be at work"
            return Recovered("", left.kind, Resolution.DEFERRED, (table,), why)
        try:
            outcome = self._finish(left)
        except TiltyardError as error:
            return Recovered("", left.kind, Resolution.FAILED, (table,), str(error))
        return Recovered("", left.kind, outcome, (table,))

    def _finish(self, left: LeftOver) -> Resolution:
        if left.kind == CREATE:
            hides = self._recreation.decided_marker(left.name).hides
            return Resolution.BACK if hides else Resolution.FORWARD
        assert self._manifest is not None or left.kind == RENAME
        if left.kind == ROW and left.row is not None and self._manifest is not None:
            self._manifest.submit(RemoveStaleRow(left.row.identity))
            return Resolution.DISCARDED
        return self._finish_move(left.name)

    def _finish_move(self, name: str) -> Resolution:
        """Its row makes a rename final; without one the table is shown again where it was."""
        state = self._directory.look((name,))
        owner = self._renames.owner(state)
        if owner is None:
            location = names.table_directory(name)
            self._lifecycle.register_all([Registration((name,), location)])
            return Resolution.BACK
        self._renames.finish(owner)
        return Resolution.FORWARD


def hidden_markers(store: Store, listing: Listing) -> list[tuple[str, Marker | str]]:
    """Every marker that hides its table, or why it can't be understood. One request for each."""
    every = (names.marked_name(each.key) for each in listing.objects if marker.hides(each.size))

    def read(name: str) -> tuple[str, Marker | str]:
        try:
            return name, marker.read(store, name)
        except InvalidTableStateError as error:
            return name, error.message

    with ThreadPoolExecutor(READING_THREADS) as pool:
        return list(pool.map(read, [name for name in every if name is not None]))


def rows_at_v1(snapshot: Snapshot) -> list[Row]:
    """The rows of tables that have a name, at a location where a marker decides."""
    rows = (snapshot.get(each) for each in snapshot.table_ids)
    return [
        row
        for row in rows
        if row is not None and names.root_table_at(row.location or "", row.id) is not None
    ]


def _since(present: Marker) -> int:
    """When a create or a rename began; the generation of a move begins with its time."""
    if present.state is State.REVIVING:
        return present.deleted_at_ms or 0
    return int((present.generation or "0")[:11], 16)
