"""The dropped tables of a catalog, those that a marker hides and those of the manifest, as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tiltyard.catalog import marker, names
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.rows import (
    DELETED,
    DELETED_AT,
    DROPPED_BY,
    HOLD,
    REASON,
    STATE,
    TTL,
    VERSION,
    Row,
)
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import State
from tiltyard.catalog.names import TableId
from tiltyard.clock import expiry, moment
from tiltyard.errors import InvalidTableStateError, TableNotFoundError

READING_THREADS = 32


class TableState(StrEnum):
    """What a name stands for. A purged table is not found, like one that never was."""

    EXISTS = "exists"
    SOFT_DELETED = "soft_deleted"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What became of a table."""

    state: TableState
    deleted_at: datetime | None = None
    expires_at: datetime | None = None
    generation: str | None = None


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """One table in the trash. `restorable` is false from the moment its purge has begun."""

    id: TableId
    generation: str
    location: str
    state: str
    dropped_at: datetime
    expires_at: datetime | None
    dropped_by: str | None
    reason: str | None
    version: int | None
    held: bool
    restorable: bool
    properties: Mapping[str, str] | None = None
    bytes: int | None = None

    @property
    def has_marker(self) -> bool:
        """Whether its marker decides about it, and not its row."""
        return names.is_marked(self.id, self.location)

    def is_purgable(self, now: datetime, dropped_before: datetime | None = None) -> bool:
        """Whether its time has come: its own, or the one of a caller's cutoff."""
        if self.held:
            return False
        if not self.restorable:
            return True  # a purge that was begun has to be finished
        if dropped_before is not None:
            return self.dropped_at < dropped_before
        return self.expires_at is not None and self.expires_at <= now


class TrashReader:
    """Reads the trash of one catalog; changes nothing."""

    def __init__(self, context: CatalogContext) -> None:
        self._store = context.store
        self._manifest = context.manifest

    def list_tables(self, *, with_bytes: bool = False) -> list[DroppedTable]:
        """Every dropped table, oldest drop first.

        One listing, one request for each hidden marker, one for the manifest; with bytes, a
        listing of each table besides.
        """
        with ThreadPoolExecutor(READING_THREADS) as pool:
            dropped = [table for table in pool.map(self._if_understood, self._hidden()) if table]
            dropped.extend(_in_rows(self._manifest.read()))
            if with_bytes:
                dropped = list(pool.map(self._with_bytes, dropped))
        return sorted(dropped, key=lambda table: (table.dropped_at, table.id))

    def find(self, table: TableId, generation: str | None = None) -> DroppedTable:
        """One dropped table: the generation that is asked for, or the one dropped last.

        One request for the manifest, and one for the marker of a root table.
        """
        drops = []
        if len(table) == 1 and (marked := self._of_marker(table[0])):
            drops.append(marked)
        drops.extend(drop for drop in _in_rows(self._manifest.read()) if drop.id == table)
        if generation is not None:
            chosen = [drop for drop in drops if drop.generation == generation]
        else:
            chosen = [drop for drop in drops if drop.restorable] or drops
        if not chosen:
            known = ", ".join(drop.generation for drop in drops)
            raise TableNotFoundError(
                f"{'' if generation is None else f'generation {generation} of '}"
                f"table {names.display(table)} is not in the trash",
                hint=f"its generation {known} is" if known else "list_trash tells what is",
            )
        return max(chosen, key=lambda drop: (drop.dropped_at, drop.generation))

    def _hidden(self) -> list[str]:
        """Names whose marker hides them: its size tells."""
        listed = (
            names.marked_name(entry.key)
            for entry in self._store.list().objects
            if marker.hides(entry.size)
        )
        return [name for name in listed if name is not None]

    def _if_understood(self, name: str) -> DroppedTable | None:
        try:
            return self._of_marker(name)
        except InvalidTableStateError:  # of a newer version: not ours to list
            return None

    def _of_marker(self, name: str) -> DroppedTable | None:
        present = marker.read(self._store, name)
        if present.state is State.REVIVING and present.previous is not None:
            present = present.previous  # until the create is done, the table is in the trash
        if present.state not in (State.DELETED, State.PURGING):
            return None
        deleted_at_ms = present.deleted_at_ms or 0
        return DroppedTable(
            id=(name,),
            generation=present.generation or "",
            location=names.table_directory(name),
            state=present.state.value,
            dropped_at=moment(deleted_at_ms),
            expires_at=expiry(deleted_at_ms, present.ttl_ms),
            dropped_by=present.dropped_by,
            reason=present.reason,
            version=present.version_at_drop,
            held=present.hold,
            restorable=present.state is State.DELETED,
            properties=present.properties,
        )

    def _with_bytes(self, dropped: DroppedTable) -> DroppedTable:
        size = sum(entry.size for entry in self._store.walk(dropped.location))
        return replace(dropped, bytes=size)


def _in_rows(snapshot: Snapshot) -> Iterator[DroppedTable]:
    """Every dropped table of the manifest, oldest drop first."""
    for row in sorted(snapshot.below((names.TRASH,)), key=lambda row: row.object_id):
        yield _of_row(row)


def _of_row(row: Row) -> DroppedTable:
    _, generation, *original = row.id
    about = row.metadata
    deleted_at_ms = int(about[DELETED_AT])
    ttl_ms = int(about[TTL]) if about.get(TTL) else None
    return DroppedTable(
        id=tuple(original),
        generation=generation,
        location=row.location or "",
        state=about[STATE],
        dropped_at=moment(deleted_at_ms),
        expires_at=expiry(deleted_at_ms, ttl_ms),
        dropped_by=about.get(DROPPED_BY),
        reason=about.get(REASON),
        version=int(about[VERSION]) or None,
        held=HOLD in about,
        restorable=about[STATE] == DELETED,
        properties=row.properties,
    )
