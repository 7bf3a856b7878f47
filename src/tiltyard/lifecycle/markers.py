"""The arbiter of V1 locations: every change of a table's life is one swap of its marker.

    absent, live, deregistered ── drop ──▶ deleted ── undrop ──▶ live
    deleted, purging ── purge ──▶ purging ──▶ purged
    deleted, purged ── create ──▶ reviving ──▶ live
    absent, live ── deregister ──▶ deregistered ── register ──▶ live

Creating is in `recreation`, purging in `marker_purge`, renaming in `moves`; the loser of a swap has
changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.marker import Marker, State
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from tiltyard.lifecycle.peers import hide_from_peers, show_to_peers
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.trash import DropTerms
from tiltyard.store import Store

T = TypeVar("T")

# How often an operation looks again after losing a swap. Each time it decides anew.
TRIES = 4


class Markers:
    """Changes the lives of root tables at `<name>.lance`."""

    def __init__(self, store: Store, clock: Clock, recreation: Recreation) -> None:
        self._store = store
        self._clock = clock
        self._recreation = recreation

    # -- drop and undrop

    def drop(
        self, name: str, terms: DropTerms, properties: Mapping[str, str] | None = None
    ) -> Marker:
        """Put a table into the trash. Five requests, whatever its size."""
        return persistently(lambda: self._drop(name, terms, properties))

    def _drop(self, name: str, terms: DropTerms, properties: Mapping[str, str] | None) -> Marker:
        present, version = self.droppable(name)
        deleted = marker.swap(
            self._store,
            name,
            present,
            replace(
                present.forgotten(),
                state=State.DELETED,
                generation=self._clock.generation(),
                location=names.table_directory(name),
                deleted_at_ms=self._clock.now_ms(),
                ttl_ms=terms.ttl_ms,
                version_at_drop=version,
                reason=terms.reason,
                dropped_by=terms.by,
                properties=properties,
            ),
            self._clock,
        )
        hide_from_peers(self._store, name, deleted)
        return deleted

    def droppable(self, name: str) -> tuple[Marker, int | None]:
        """The marker of a table that can be dropped and its latest version, or why it can't."""
        present = self._recreation.settled(name)
        location = names.table_directory(name)
        newest = version_files.latest(self._store, location)
        if present.state not in (State.LIVE, State.DEREGISTERED):
            raise not_there(name, present)
        if newest is None and self._is_empty(location):
            raise not_there(name, present)
        if present.protected:
            raise InvalidTableStateError(
                f"table '{name}' is protected", hint="unprotect it before dropping it"
            )
        return present, newest.version if newest else None

    def undrop(
        self, name: str, *, generation: str | None = None, keep_newer: bool = False
    ) -> Marker:
        """Bring a table back as it was dropped. The marker that it came back from is returned."""
        return persistently(lambda: self._undrop(name, generation, keep_newer))

    def _undrop(self, name: str, generation: str | None, keep_newer: bool) -> Marker:
        present = self.restorable(name, generation, keep_newer)
        show_to_peers(self._store, name)
        marker.swap(self._store, name, present, present.forgotten(), self._clock)
        return present

    def restorable(self, name: str, generation: str | None, keep_newer: bool) -> Marker:
        """The marker of a table that can be brought back, or why it can't."""
        present = self._recreation.settled(name)
        if present.state is not State.DELETED:
            raise not_there(name, present)
        if generation is not None and generation != present.generation:
            raise TableNotFoundError(f"table '{name}' has no generation {generation} in the trash")
        location = names.table_directory(name)
        newest = version_files.latest(self._store, location)
        if newest is None and (present.version_at_drop or self._is_empty(location)):
            raise TableNotFoundError(
                f"table '{name}' can't be brought back: another client has deleted its files"
            )
        # A marker of the proposal's form does not tell at which version the table was dropped.
        tells_version = present.dropped_by is not None
        at_drop = present.version_at_drop or 0
        if (
            newest is not None
            and newest.version > at_drop
            and tells_version
            and not keep_newer
            and not self._recreation.is_only_fenced(name, at_drop, newest.version)
        ):
            raise InvalidTableStateError(
                f"table '{name}' was written to after it was dropped: it is at version "
                f"{newest.version}, and was dropped at {at_drop}",
                hint="undrop it with keep_newer to keep what was written",
            )
        return present

    # -- flags

    def hold(self, name: str, held: bool, generation: str | None = None) -> Marker:
        """Keep a dropped table from being purged, or let it go again."""

        def change() -> Marker:
            present = self._recreation.settled(name)
            if present.state is not State.DELETED or generation not in (None, present.generation):
                raise not_there(name, present)
            following = replace(present, hold=held)
            return marker.swap(self._store, name, present, following, self._clock)

        return persistently(change)

    def protect(self, name: str, protected: bool) -> None:
        """Keep a table from being dropped, or allow it again."""

        def change() -> None:
            present = self._recreation.settled(name)
            if present.hides or self._is_empty(names.table_directory(name)):
                raise not_there(name, present)
            if present.protected != protected:
                following = replace(present.forgotten(), protected=protected)
                marker.swap(self._store, name, present, following, self._clock)

        persistently(change)

    # -- deregister, register, rename

    def deregister(self, name: str, properties: Mapping[str, str] | None = None) -> Marker:
        """Hide a table without a time limit; it can't be purged."""

        def change() -> Marker:
            present = self._recreation.settled(name)
            if present.hides or self._is_empty(names.table_directory(name)):
                raise not_there(name, present)
            following = replace(
                present.forgotten(),
                state=State.DEREGISTERED,
                generation=self._clock.generation(),
                properties=properties,
            )
            hidden = marker.swap(self._store, name, present, following, self._clock)
            hide_from_peers(self._store, name, hidden)
            return hidden

        return persistently(change)

    def register(self, name: str, present: Marker) -> None:
        """Show a table again that was deregistered, or whose rename did not arrive."""
        if present.state not in (State.LIVE, State.DEREGISTERED, State.MOVED) or present.buried:
            raise not_there(name, present)
        show_to_peers(self._store, name)
        if present.hides:
            marker.swap(self._store, name, present, present.forgotten(), self._clock)

    def reserve(self, name: str, owner: str) -> None:
        """Keep a root name for a table that lies elsewhere: no create may use its directory.

        Both a row and a directory can hold a root name, so the marker decides between them.
        """

        def change() -> None:
            present = self._recreation.settled(name)
            if present.state is State.MOVED:
                return
            if not self._is_gone(name, present):
                hint = marker.why_hidden(present)
                raise TableAlreadyExistsError(f"the name '{name}' is taken", hint=hint)
            following = replace(
                present.forgotten(),
                state=State.MOVED,
                generation=self._clock.generation(),
                moved_to=owner,
            )
            marker.swap(self._store, name, present, following, self._clock)

        persistently(change)

    def _is_gone(self, name: str, present: Marker) -> bool:
        """Whether nothing is left of a name: it never was, was purged, or another client deleted
        the files of what was dropped."""
        if present.state in (State.LIVE, State.DELETED):
            return self._is_empty(names.table_directory(name))
        return present.state is State.PURGED

    def _is_empty(self, location: str) -> bool:
        inside = self._store.list(location)
        return not (inside.objects or inside.directories)


def persistently(change: Callable[[], T]) -> T:
    """Look again after a lost swap; each time the change decides anew whether it may."""
    for _ in range(TRIES - 1):
        try:
            return change()
        except ConcurrentModificationError:
            continue
    return change()


def not_there(name: str, present: Marker) -> TableNotFoundError:
    return TableNotFoundError(f"table '{name}' was not found", hint=marker.why_hidden(present))
