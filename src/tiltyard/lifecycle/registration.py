"""Hiding a table without touching its data, and showing it again: the marker of a V1 location.

Each is one compare-and-swap. The nested file for Lance's own clients follows a hide and precedes
a show, so that a crash in between leaves them seeing more than we do, never a lost table.
"""

from __future__ import annotations

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.base import RegisterMode, Table, already_exists, no_such_table
from tiltyard.catalog.directory import DirectoryCatalog, why_hidden
from tiltyard.catalog.marker import State
from tiltyard.errors import InvalidInputError
from tiltyard.names import TableId
from tiltyard.store import Store
from tiltyard.world import World


def deregister(catalog: DirectoryCatalog, store: Store, world: World, table: TableId) -> Table:
    """Hide a table. Four requests."""
    store.require_conditions()
    spot = catalog.look(table)
    if not spot.is_visible:
        raise no_such_table(table, hint=why_hidden(spot))
    location = names.table_directory(spot.name)
    generation = world.generation()
    marker.swap(store, spot.name, spot.marker, State.DEREGISTERED, world, generation=generation)
    store.put(f"{location}/{names.DEREGISTERED}", marker.nested_body(generation))
    return Table(table, location)


def register(
    catalog: DirectoryCatalog,
    store: Store,
    world: World,
    table: TableId,
    location: str,
    mode: RegisterMode,
) -> Table:
    """Show a hidden table again. Its location is its name, so no other can be registered."""
    spot = catalog.look(table)
    expected = names.table_directory(spot.name)
    if location != expected:
        raise InvalidInputError(
            f"in directory mode {names.display(table)} can only be at '{expected}', not '{location}'",
            hint="open the catalog with manifest_enabled=true to register other locations",
        )
    if spot.is_empty:
        raise InvalidInputError(f"there is no Lance table at '{location}' to register")
    if spot.is_visible and mode is RegisterMode.CREATE:
        raise already_exists(table)
    store.require_conditions()
    store.delete(f"{location}/{names.DEREGISTERED}")
    if spot.marker.hides:
        marker.swap(store, spot.name, spot.marker, State.LIVE, world)
    return spot.as_table()
