"""Which names a table goes by: register, deregister, rename. Its data is never touched.

The arbiter follows the location. A table in a directory of its own is moved by one commit of the
manifest. A table at a V1 location is moved by its marker, and its row is an index that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tiltyard import names
from tiltyard.catalog.base import Catalog, RegisterMode, Table, already_exists, no_such_table
from tiltyard.catalog.directory import (
    DirectoryCatalog,
    DirectoryState,
    no_namespaces,
    no_properties,
    why_hidden,
)
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row, as_table
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import (
    AddTable,
    AllOf,
    Edit,
    IndexTable,
    RemoveIndex,
    RemoveTable,
    RenameTable,
    ReplaceTable,
)
from tiltyard.catalog.manifest.rows import check_properties
from tiltyard.catalog.manifest.snapshot import EMPTY, Snapshot
from tiltyard.catalog.marker import Marker, State
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    UnsupportedOperationError,
)
from tiltyard.lifecycle.markers import Markers
from tiltyard.lifecycle.moves import Moves
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
        moves: Moves | None,
        *,
        lists_directories: bool,
    ) -> None:
        self._lists_directories = lists_directories
        self._store = store
        self._catalog = catalog
        self._directory = directory
        self._manifest = manifest
        self._markers = markers
        self._moves = moves

    # -- deregister

    def deregister(self, table: TableId) -> Table:
        """Take a name away and keep the data. The answer tells where it lies."""
        self._store.require_conditions()
        found = self._catalog.find(table)
        if not names.is_marked(table, found.location):
            assert self._manifest is not None
            removing = RemoveTable(table, found.location)
            return as_table(self._manifest.submit(self.guarded(found, removing)).answer)
        self.settle(found)
        self._markers.deregister(table[0], found.properties)
        if self._manifest is not None:
            self._manifest.submit(RemoveIndex(table, found.location))
        return found

    # -- register

    def register_all(self, requests: Sequence[Registration]) -> list[Table]:
        """Give names to Lance tables inside the root; all rows in one commit, or none."""
        snapshot = EMPTY if self._manifest is None else self._manifest.read()
        states: list[DirectoryState | None] = []
        for each in requests:
            if self._manifest is None:
                no_properties(each.properties)
            check_properties(each.properties)
            is_directory = names.table_name(each.location) is not None or self._manifest is None
            states.append(self._check_directory(each, snapshot) if is_directory else None)
            if not is_directory:
                self._check_location(each)
        shown = [state.name for state in states if state is not None]
        placed = [self._placed(*each) for each in zip(requests, states, strict=True)]
        commit = AllOf(
            tuple(_inserting(*each) for each in zip(requests, placed, states, strict=True))
        )
        if self._manifest is not None:
            snapshot = self._manifest.remove_stale_rows(snapshot, shown)
            commit.apply(Draft(snapshot))  # a refusal has to come before anything is shown
        self._store.require_conditions()
        for state in states:
            if state is not None:
                self._markers.register(state.name, state.marker)
        if self._manifest is not None:
            for table, state in zip(placed, states, strict=True):
                if state is None:
                    self.keep_root_name(table.id)
            self._submit(self._manifest, commit, shown)
        return placed

    def _submit(self, manifest: ManifestCatalog, commit: Edit, shown: Sequence[str]) -> None:
        try:
            manifest.submit_at(shown, commit)
        except InvalidInputError as taken:
            if not shown:
                raise
            raise ConcurrentModificationError(
                "a table was renamed by another process as soon as it was shown"
            ) from taken

    def _check_location(self, wanted: Registration) -> None:
        location = wanted.location
        if location.startswith((names.RESERVED_PREFIX, ".")):
            raise InvalidInputError(f"'{location}' is the catalog's own")
        top = names.top_directory(location)
        if top != location and names.table_name(top) is not None:
            raise InvalidInputError(f"'{location}' lies inside the directory of a table")
        if names.VERSIONS_DIRECTORY not in self._store.list(location).directories:
            raise InvalidInputError(f"there is no Lance table at '{location}' to register")
        if wanted.mode is RegisterMode.CREATE and self._catalog.holder(wanted.table):
            raise already_exists(wanted.table)

    def _check_directory(self, wanted: Registration, snapshot: Snapshot) -> DirectoryState:
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
        state = self._directory.look(table)
        if state.is_empty:
            raise InvalidInputError(f"there is no Lance table at '{location}' to register")
        if state.marker.state is State.MOVED:
            self._must_be_ownerless(state)
        if wanted.mode is RegisterMode.CREATE:
            row = snapshot.get(table[0])
            is_listed = row is not None or self._lists_directories
            if (state.is_visible and is_listed) or (row is not None and row.location != location):
                raise already_exists(table)
        if self._manifest is None and state.marker.properties:
            raise UnsupportedOperationError(
                f"table {names.display(table)} has properties, which directory mode would lose",
                hint="register it with manifest_enabled=true",
            )
        return state

    def _must_be_ownerless(self, state: DirectoryState) -> None:
        """Whether a table that was renamed is still there under that name, its row can tell."""
        owner = self._away().owner(state)
        if owner is not None and owner.id == (state.name,):
            self._away().settle(as_table(owner))
            raise already_exists(owner.id)
        if owner is not None:
            location = names.table_directory(state.name)
            raise InvalidInputError(f"'{location}' belongs to {names.display(owner.id)} now")

    def _placed(self, wanted: Registration, state: DirectoryState | None) -> Table:
        kept = dict(wanted.properties) if self._manifest else None
        if state is not None:
            return replace(state.as_table(), properties=kept)
        return Table(wanted.table, wanted.location, only_declared=False, properties=kept)

    def keep_root_name(self, table: TableId) -> None:
        """Where directories are listed too, a root table elsewhere keeps others off its V1 name."""
        if len(table) == 1 and self._lists_directories:
            self._markers.reserve(table[0], names.object_id(table))

    # -- rename

    def rename(self, table: TableId, target: TableId) -> Table:
        """Move a table to a free name, across namespaces too. Its bytes do not move."""
        manifest = self.require_manifest("renamed")
        self._store.require_conditions()
        found = self._catalog.find(table)
        if table != target and names.is_marked(target, found.location):
            return self._away().come_home(found, target)
        if self._catalog.holder(target) is not None:
            raise already_exists(target)
        if not names.is_marked(table, found.location):
            self.keep_root_name(target)
            renaming = RenameTable(table, target, found.location)
            return as_table(manifest.submit(self.guarded(found, renaming)).answer)
        self.settle(found)
        state = self._directory.look(table)
        if not state.is_visible:
            raise no_such_table(table, hint=why_hidden(state))
        return self.hand_over(state.marker, found, target)

    def hand_over(self, present: Marker, found: Table, target: TableId) -> Table:
        """Give a table at its V1 location to another name."""
        self.keep_root_name(target)
        return self._away().hand_over(present, found, target)

    def guarded(self, table: Table, edit: Edit) -> Edit:
        """An edit of a table's row, which of a renamed one counts once the rename is final."""
        return self._away().guarded(table, edit)

    def settle(self, table: Table) -> None:
        """Before the marker of a table at its V1 location decides: finish its way home."""
        if self._moves is not None:
            self._moves.settle(table)

    def _away(self) -> Moves:
        if self._moves is None:
            raise UnsupportedOperationError(
                "the table was renamed, and only a catalog with a manifest can tell where to",
                hint="open the catalog with manifest_enabled=true",
            )
        return self._moves

    def require_manifest(self, done: str) -> ManifestCatalog:
        if self._manifest is None:
            raise UnsupportedOperationError(
                f"in directory mode a table's directory is its name, so it can't be {done}",
                hint="open the catalog with manifest_enabled=true",
            )
        return self._manifest


def _inserting(wanted: Registration, placed: Table, state: DirectoryState | None) -> Edit:
    row = as_row(placed)
    if wanted.mode is RegisterMode.OVERWRITE:
        return ReplaceTable(row)
    return AddTable(row) if state is None else IndexTable(row)
