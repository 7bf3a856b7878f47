"""Dropping a table that lies at a V1 location: its directory is deleted, and its name is free."""

from __future__ import annotations

from collections.abc import Iterable

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.marker import State
from tiltyard.names import TableId
from tiltyard.store import Entry, Store
from tiltyard.world import World


def drop(catalog: DirectoryCatalog, store: Store, world: World, table: TableId) -> Table:
    """Delete a table, registered or not. A drop that fails half-way leaves a table to drop again."""
    store.require_conditions()
    spot = catalog.look(table)
    if spot.is_empty:
        raise no_such_table(table)
    location = names.table_directory(spot.name)
    if spot.marker.hides:  # or the next table of this name would be born hidden
        marker.swap(store, spot.name, spot.marker, State.LIVE, world)
    store.delete_many(_versions_last(location, store.walk(location)))
    return Table(table, location)


def _versions_last(location: str, entries: Iterable[Entry]) -> Iterable[str]:
    """While a version is left, whatever is left of the table can still be found and dropped."""
    versions = []
    for entry in entries:
        if entry.key.startswith(f"{location}/{names.VERSIONS_DIRECTORY}/"):
            versions.append(entry.key)
        else:
            yield entry.key
    yield from versions
