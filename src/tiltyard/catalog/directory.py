"""The V1 catalog: a flat namespace of `<name>.lance` directories, discovered by listing the root.

One listing shows the directories and the markers that hide some of them, however many there are.
Two requests find one table: its directory and its marker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NoReturn

from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.base import (
    CreateMode,
    CreateTarget,
    DropBehaviour,
    Table,
    already_exists,
    no_such_table,
)
from tiltyard.catalog.marker import Marker, State
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import UnsupportedOperationError
from tiltyard.store import AlreadyThere, Listing, Store, read_back

log = logging.getLogger(__name__)

PROBING_THREADS = 32

# How long after a purge a name can't be declared in directory mode.
TOMBSTONE_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """What is at a V1 location: the listing of the directory's first level, and the marker."""

    name: str
    location: str
    inside: Listing
    marker: Marker

    @property
    def is_empty(self) -> bool:
        return not (self.inside.objects or self.inside.directories)

    @property
    def has_versions(self) -> bool:
        return names.VERSIONS_DIRECTORY in self.inside.directories

    @property
    def is_reserved(self) -> bool:
        reservation = f"{self.location}/{names.RESERVATION}"
        return any(entry.key == reservation for entry in self.inside.objects)

    @property
    def hidden_by_peer(self) -> bool:
        """A nested marker that is not ours: ours only counts together with the root marker."""
        nested = f"{self.location}/{names.DEREGISTERED}"
        return any(
            entry.key == nested and not marker.is_ours_nested(entry.size)
            for entry in self.inside.objects
        )

    @property
    def is_visible(self) -> bool:
        return not (self.is_empty or self.marker.hides or self.hidden_by_peer)

    @property
    def is_free(self) -> bool:
        """Whether a create may have the directory: nothing is there, or a dropped table that is not
        held, or one that goes by another name, or what is left of an interrupted create."""
        if self.marker.state is State.LIVE:
            return self.is_empty
        return self.marker.state is not State.DEREGISTERED and not self.marker.hold

    @property
    def can_continue(self) -> bool:
        """Whether the versions of a new table can follow those of the one before.

        Lance counts from the last manifest, so one has to exist, or to be kept in the marker.
        """
        floor, kept = self.marker.floor, self.marker.last_manifest
        if self.marker.state is State.PURGED:
            return floor == 0 or (kept is not None and kept.version == floor)
        if self.marker.state is State.DELETED:
            return self.has_versions or not (self.marker.version_at_drop or floor)
        if self.marker.state is State.LIVE:
            return self.has_versions or not floor
        return self.marker.state is State.REVIVING

    def as_table(self) -> Table:
        return Table((self.name,), self.location, only_declared=not self.has_versions)


class DirectoryCatalog:
    """Tables are directories. There are no child namespaces and no table properties."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._is_new: bool | None = None

    def create_namespace(
        self, namespace: NamespaceId, mode: CreateMode, properties: Mapping[str, str]
    ) -> NoReturn:
        raise no_namespaces(namespace)

    def describe_namespace(self, namespace: NamespaceId) -> Mapping[str, str]:
        only_root(namespace)
        return {}

    def known_properties(self, namespace: NamespaceId) -> Mapping[str, str]:
        return {}

    def drop_namespace(self, namespace: NamespaceId, behaviour: DropBehaviour) -> NoReturn:
        raise no_namespaces(namespace)

    def list_tables(self, namespace: NamespaceId) -> Sequence[str]:
        """One listing, whatever the number of tables.

        In a catalog of Lance's own clients that was never migrated, tables may be hidden by a file
        inside their directory: there, and only there, every directory is looked into.
        """
        only_root(namespace)
        listing = self._store.list()
        hidden = marker.hidden_tables(listing)
        tables = (names.table_name(directory) for directory in listing.directories)
        visible = sorted(name for name in tables if name is not None and name not in hidden)
        return visible if is_lifted(listing) else self._without_nested(visible)

    def _without_nested(self, tables: Sequence[str]) -> list[str]:
        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            hidden = pool.map(self._is_hidden_by_peer, tables)
            return [name for name, hides in zip(tables, hidden, strict=True) if not hides]

    def _is_hidden_by_peer(self, name: str) -> bool:
        location = names.table_directory(name)
        inside = self._store.list(location)
        return DirectoryState(name, location, inside, marker.ABSENT).hidden_by_peer

    def notice_if_new(self) -> None:
        """Before the first table is made: a root without any has no nested markers either.

        One listing per process.
        """
        if self._is_new is None:
            listing = self._store.list()
            has_tables = any(names.table_name(directory) for directory in listing.directories)
            self._is_new = not (has_tables or is_lifted(listing))
            if has_tables and not is_lifted(listing):
                log.info(
                    "%s: run maintenance.migrate() once, and a listing is one request",
                    self._store.url,
                )

    def stamp_if_new(self) -> None:
        """After the first table was made in a root that was empty before."""
        if self._is_new:
            self.stamp()
            self._is_new = False

    def stamp(self) -> None:
        """Note that no table is hidden by a nested marker alone."""
        self._store.put(names.LIFTED, b"1")

    def list_all_tables(self) -> Sequence[str]:
        return self.list_tables(names.ROOT)

    def list_namespaces(self, parent: NamespaceId) -> Sequence[str]:
        only_root(parent)
        return []

    def must_be_flat(self, table: TableId) -> None:
        only_root(table[:-1])

    def look(self, table: TableId) -> DirectoryState:
        """What lies at the table's location, visible or not. Two requests."""
        self.must_be_flat(table)
        name = table[-1]
        location = names.table_directory(name)
        inside = self._store.list(location)
        return DirectoryState(name, location, inside, marker.read(self._store, name))

    def is_taken(self, name: str) -> bool:
        """Whether a visible table has a name. One request if nothing lies there, else two."""
        location = names.table_directory(name)
        inside = self._store.list(location)
        if not (inside.objects or inside.directories):
            return False
        return DirectoryState(name, location, inside, marker.read(self._store, name)).is_visible

    def find(self, table: TableId) -> Table:
        """Two requests."""
        state = self.look(table)
        if not state.is_visible:
            raise no_such_table(table, hint=why_hidden(state))
        return state.as_table()

    def holder(self, table: TableId) -> Table | None:
        """Two requests."""
        state = self.look(table)
        if state.is_visible:
            return state.as_table()
        if not state.is_free:
            hint = marker.HELD if state.marker.hold else why_hidden(state)
            raise already_exists(table, hint=hint)
        return None

    def create_target(self, table: TableId, properties: Mapping[str, str]) -> CreateTarget:
        """Two requests."""
        existing = self.holder(table)
        if existing is None:
            self.notice_if_new()
        return CreateTarget(existing or self.place(table, properties), exists=existing is not None)

    def latest(self, table: Table) -> VersionFile | None:
        """One request."""
        return version_files.latest(self._store, table.location)

    def is_only_declared(self, table: Table) -> bool:
        if table.only_declared is not None:
            return table.only_declared
        return names.VERSIONS_DIRECTORY not in self._store.list(table.location).directories

    def declare_all(self, tables: Mapping[TableId, Mapping[str, str]]) -> list[Table]:
        """Three requests a table: what is there, the marker, and the reservation."""
        placed = [self.place(table, properties) for table, properties in tables.items()]
        self._store.require_conditions()
        states = [self.look(table.id) for table in placed]
        for table, state in zip(placed, states, strict=True):
            self._require_declarable(table.id, state)
        for table, state in zip(placed, states, strict=True):
            if state.marker.hides:  # an old tombstone
                following = replace(state.marker.cleared(), floor=0)
                marker.swap(self._store, state.name, state.marker, following, self._clock)
            self.reserve(table)
        return placed

    def _require_declarable(self, table: TableId, state: DirectoryState) -> None:
        """A reservation has no version that could distinguish it from files of an earlier table."""
        if not state.is_empty or state.marker.state not in (State.LIVE, State.PURGED):
            raise already_exists(table, hint=why_hidden(state))
        if state.marker.state is State.LIVE and not state.can_continue:
            raise marker.cannot_continue(state.name)
        if state.marker.state is State.PURGED:
            age_ms = self._clock.now_ms() - (state.marker.purged_at_ms or 0)
            if age_ms < TOMBSTONE_MS:
                raise already_exists(
                    table, hint="it was purged less than a day ago; create it instead"
                )

    def reserve(self, table: Table) -> None:
        """Put something into a directory that is free. Of racing reservations one wins."""
        body = marker.reservation_body(self._clock)
        self.notice_if_new()
        try:
            read_back.put_new(self._store, f"{table.location}/{names.RESERVATION}", body)
        except AlreadyThere as taken:
            raise already_exists(table.id) from taken
        self.stamp_if_new()

    def place(self, table: TableId, properties: Mapping[str, str]) -> Table:
        only_root(table[:-1])
        no_properties(properties)
        return Table(table, names.table_directory(table[-1]), only_declared=True)

    def publish(self, table: Table) -> None:
        """The directory is the name, so committing its first version published it."""
        self.stamp_if_new()


def is_lifted(listing: Listing) -> bool:
    """Whether a catalog has the stamp, so that no table is hidden by a nested marker alone."""
    return any(entry.key == names.LIFTED for entry in listing.objects)


def only_root(namespace: NamespaceId) -> None:
    """V1 is flat: anything below the root needs the manifest."""
    if namespace:
        raise no_namespaces(namespace)


def no_namespaces(namespace: NamespaceId) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"directory mode has the root namespace only, not {names.display(namespace)}",
        hint="open the catalog with manifest_enabled=true",
    )


def no_properties(properties: Mapping[str, str]) -> None:
    if properties:
        raise UnsupportedOperationError(
            "directory mode has no place for table properties",
            hint="open the catalog with manifest_enabled=true",
        )


def why_hidden(state: DirectoryState) -> str | None:
    """The hint for a table that is there and not visible."""
    if state.marker.hides:
        return marker.why_hidden(state.marker)
    if state.hidden_by_peer:
        location = names.table_directory(state.name)
        return f"it is deregistered; register_table with location '{location}'"
    return None
