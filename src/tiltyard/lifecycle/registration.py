"""Which names a table goes by: register, deregister, rename. Its data is never touched.

The arbiter follows the location. A table in a directory of its own is moved by one commit of the
manifest. A table at a V1 location is moved by its marker, and its row is an index that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from tiltyard.lifecycle.markers import Markers
from tiltyard.names import TableId
from tiltyard.store import Store


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
        catalog: Catalog,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
        markers: Markers,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._directory = directory
        self._manifest = manifest
        self._markers = markers

    # -- deregister

    def deregister(self, table: TableId) -> Table:
        """Take a name away and keep the data. The answer tells where it lies."""
        self._store.require_conditions()
        found = self._catalog.find(table)
        if not names.is_marked(table, found.location):
            assert self._manifest is not None
            row = self._manifest.submit(edits.remove_table(table, found.location)).answer
            return as_table(row)
        self._markers.deregister(table[0], found.properties)
        if self._manifest is not None:
            self._manifest.submit(edits.forget_table(table, found.location))
        return found

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
        if wanted.mode is RegisterMode.CREATE and self._catalog.occupant(wanted.table):
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
        self._store.require_conditions()
        self._markers.register(spot.name, spot.marker)
        kept = dict(wanted.properties) if self._manifest else None
        return replace(spot.as_table(), properties=kept)

    def _has_arrived(self, spot: Spot) -> bool:
        """Whether the row that a table was handed to is there; a crash may have come between."""
        assert self._manifest is not None
        target = names.split_object_id(spot.marker.moved_to or "")
        return bool(target) and self._manifest.look_up(self._manifest.read(), target) is not None

    # -- rename

    def rename(self, table: TableId, target: TableId) -> Table:
        """Move a table to a free name, across namespaces too. Its bytes do not move."""
        manifest = self.require_manifest("renamed")
        self._store.require_conditions()
        found = self._catalog.find(table)
        if self._catalog.occupant(target) is not None:
            raise already_exists(target)
        if not names.is_marked(table, found.location):
            row = manifest.submit(edits.rename_table(table, target, found.location)).answer
            return as_table(row)
        spot = self._directory.look(table)
        if not spot.is_visible:
            raise no_such_table(table, hint=why_hidden(spot))
        return self.hand_over(spot.marker, found, target)

    def hand_over(self, present: Marker, found: Table, target: TableId) -> Table:
        """Give a table at its V1 location to another name: the marker first, then the row.

        The row counts only while the marker names its nonce, so the swap back undoes the move
        whatever a stalled process still writes; that process looks again and finds out.
        """
        manifest = self.require_manifest("renamed")
        name = found.id[0]
        moved = self._markers.move(name, present, names.object_id(target))
        renamed = replace(found, id=target)
        row = as_row(renamed, **{MOVED: moved.nonce})
        try:
            manifest.submit(
                edits.all_of([edits.forget_table(found.id, found.location), edits.add_table(row)])
            )
        except TiltyardError:
            self._markers.move_back(name, moved, present)
            raise
        if marker.read(self._store, name).nonce != moved.nonce:
            manifest.submit(edits.forget_table(target, found.location))
            raise ConcurrentModificationError(
                f"the rename of {names.display(found.id)} was undone by another process"
            )
        return renamed

    def require_manifest(self, done: str) -> ManifestCatalog:
        if self._manifest is None:
            raise UnsupportedOperationError(
                f"in directory mode a table's directory is its name, so it can't be {done}",
                hint="open the catalog with manifest_enabled=true",
            )
        return self._manifest
