"""Which names a table goes by: register, deregister, rename. Its data is never touched.

The arbiter follows the location. A table in a directory of its own is moved by one commit of the
manifest. A table at a V1 location is moved by its marker, one compare-and-swap; its row is an
index that follows. The nested file for Lance's own clients is written after a hide and removed
before a show, so that a crash in between leaves them seeing more than we do, never a lost table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.base import Catalog, RegisterMode, Table, already_exists, no_such_table
from tiltyard.catalog.directory import (
    DirectoryCatalog,
    Spot,
    no_namespaces,
    no_properties,
    why_hidden,
)
from tiltyard.catalog.manifest import edits
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row, as_table
from tiltyard.catalog.manifest.rows import MOVED, check_properties
from tiltyard.catalog.marker import Marker, State
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TiltyardError,
    UnsupportedOperationError,
)
from tiltyard.names import TableId
from tiltyard.store import Store
from tiltyard.world import World


@dataclass(frozen=True)
class Registration:
    """A wish to give a name to what lies at a location."""

    table: TableId
    location: str
    mode: RegisterMode = RegisterMode.CREATE
    properties: Mapping[str, str] = field(default_factory=dict)


class Registrar:
    """Gives tables of one catalog their names. `manifest` is None in directory mode."""

    def __init__(
        self,
        store: Store,
        world: World,
        catalog: Catalog,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
    ) -> None:
        self._store = store
        self._world = world
        self._catalog = catalog
        self._directory = directory
        self._manifest = manifest

    # -- deregister

    def deregister(self, table: TableId) -> Table:
        """Take a name away and keep the data. The answer tells where it lies."""
        self._store.require_conditions()
        found = self._catalog.find(table)
        name = names.root_table_at(found.location, table)
        if name is None:
            assert self._manifest is not None
            row = self._manifest.submit(edits.remove_table(table, found.location)).answer
            return as_table(row)
        self._hide(name, table)
        if self._manifest is not None:
            self._manifest.submit(edits.forget_table(table, found.location))
        return found

    def _hide(self, name: str, table: TableId) -> None:
        spot = self._directory.look((name,))
        if spot.is_empty or spot.marker.state is State.DEREGISTERED:
            raise no_such_table(table, hint=why_hidden(spot))
        generation = self._world.generation()
        hidden = marker.swap(
            self._store, name, spot.marker, State.DEREGISTERED, self._world, generation=generation
        )
        nested = f"{names.table_directory(name)}/{names.DEREGISTERED}"
        self._store.put(nested, marker.nested_body(generation))
        if marker.read(self._store, name).nonce != hidden.nonce:
            # Shown again since: Lance's own clients would go on missing it.
            self._store.delete(nested)

    # -- register

    def register_all(self, requests: Sequence[Registration]) -> list[Table]:
        """Give names to Lance tables inside the root; all rows in one commit, or none."""
        placed = []
        commits = []
        for each in requests:
            if self._manifest is None:
                no_properties(each.properties)
            check_properties(each.properties)
            if names.table_name(each.location) is not None or self._manifest is None:
                placed.append(self._register_directory(each))
                commits.append(edits.replace_table)
            else:
                placed.append(self._check_location(each))
                is_new = each.mode is RegisterMode.CREATE
                commits.append(edits.add_table if is_new else edits.replace_table)
        if self._manifest is not None:
            rows = [commit(as_row(table)) for commit, table in zip(commits, placed, strict=True)]
            self._manifest.submit(edits.all_of(rows))
        return placed

    def _check_location(self, wanted: Registration) -> Table:
        if wanted.location.startswith((names.RESERVED_PREFIX, ".")):
            raise InvalidInputError(f"'{wanted.location}' is the catalog's own")
        if names.VERSIONS_DIRECTORY not in self._store.list(wanted.location).directories:
            raise InvalidInputError(f"there is no Lance table at '{wanted.location}' to register")
        taken = wanted.mode is RegisterMode.CREATE and self._catalog.occupant(wanted.table)
        if taken:
            raise already_exists(wanted.table)
        return Table(
            wanted.table, wanted.location, only_declared=False, properties=dict(wanted.properties)
        )

    def _register_directory(self, wanted: Registration) -> Table:
        """A V1 location is a name, so it can be shown again under that name only."""
        table, location = wanted.table, wanted.location
        if len(table) > 1 and self._manifest is None:
            raise no_namespaces(table[:-1])
        if len(table) > 1 or location != names.table_directory(table[-1]):
            raise InvalidInputError(
                f"{names.display(table)} can't be registered at '{location}'",
                hint="a directory '<name>.lance' belongs to the root table of that name; "
                "register it there, and rename it",
            )
        spot = self._directory.look(table)
        if spot.is_empty:
            raise InvalidInputError(f"there is no Lance table at '{location}' to register")
        if spot.marker.state is State.MOVED and self._has_arrived(spot):
            owner = names.display(names.split_object_id(spot.marker.moved_to or ""))
            raise InvalidInputError(f"'{location}' belongs to {owner} now")
        if spot.is_visible and wanted.mode is RegisterMode.CREATE:
            raise already_exists(table)
        self._show(spot)
        kept = dict(wanted.properties) if self._manifest else None
        return replace(spot.as_table(), properties=kept)

    def _show(self, spot: Spot) -> None:
        self._store.require_conditions()
        self._store.delete(f"{names.table_directory(spot.name)}/{names.DEREGISTERED}")
        if spot.marker.hides:
            marker.swap(self._store, spot.name, spot.marker, State.LIVE, self._world)

    # -- rename

    def rename(self, table: TableId, target: TableId) -> Table:
        """Move a table to a free name, across namespaces too. Its bytes do not move."""
        if self._manifest is None:
            raise UnsupportedOperationError(
                "in directory mode a table's directory is its name, so it can't be renamed",
                hint="open the catalog with manifest_enabled=true",
            )
        self._store.require_conditions()
        found = self._catalog.find(table)
        if self._catalog.occupant(target) is not None:
            raise already_exists(target)
        name = names.root_table_at(found.location, table)
        if name is None or (name,) != table:
            row = self._manifest.submit(edits.rename_table(table, target, found.location)).answer
            return as_table(row)
        return self._move(name, found, target)

    def _move(self, name: str, found: Table, target: TableId) -> Table:
        """Rename a table at its V1 location: the marker hands it over to the row of the new name.

        The row counts only while the marker names its nonce, so the swap back undoes the move
        whatever a stalled process still writes; that process looks again and finds out.
        """
        assert self._manifest is not None
        spot = self._directory.look((name,))
        if not spot.is_visible:
            raise no_such_table(found.id, hint=why_hidden(spot))
        moved = marker.swap(
            self._store,
            name,
            spot.marker,
            State.MOVED,
            self._world,
            generation=self._world.generation(),
            moved_to=names.object_id(target),
        )
        renamed = replace(found, id=target)
        row = as_row(renamed, **{MOVED: moved.nonce})
        try:
            self._manifest.submit(
                edits.all_of([edits.forget_table(found.id, found.location), edits.add_table(row)])
            )
        except TiltyardError:
            self._undo(name, moved)
            raise
        if marker.read(self._store, name).nonce != moved.nonce:
            self._manifest.submit(edits.forget_table(target, found.location))
            raise ConcurrentModificationError(
                f"the rename of {names.display(found.id)} was undone by another process"
            )
        nested = f"{found.location}/{names.DEREGISTERED}"
        self._store.put(nested, marker.nested_body(moved.generation or ""))
        return renamed

    def _undo(self, name: str, moved: Marker) -> None:
        with suppress(ConcurrentModificationError):  # then another process has undone it
            marker.swap(self._store, name, moved, State.LIVE, self._world)

    def _has_arrived(self, spot: Spot) -> bool:
        """Whether the row that a table was handed to is there; a crash may have come between."""
        assert self._manifest is not None
        target = names.split_object_id(spot.marker.moved_to or "")
        return bool(target) and self._manifest.look_up(self._manifest.read(), target) is not None
