"""Who decides about a table: its marker, or its row in the manifest. The location tells which.

| the table's directory | who decides |
|---|---|
| `<name>.lance` of the root table `<name>` | the marker `<name>.deleted`: `marker_arbiter` |
| any other, which is never used again | the row of the manifest: `row_arbiter` |

The services of this package (`tables`, `creation`, `writing`, `purge`) ask the arbiter of a table
and do not know which of the two it is. See docs/design/lifecycle.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tiltyard.catalog import names
from tiltyard.catalog.base import CreateTarget, DropTerms, RegisterMode, Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.manifest.edits import Edit
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import Marker, State
from tiltyard.catalog.names import TableId
from tiltyard.errors import TableNotFoundError, UnsupportedOperationError
from tiltyard.lifecycle.trash import DroppedTable


@dataclass(frozen=True)
class Registration:
    """A request to give a name to the table at a location."""

    table: TableId
    location: str
    mode: RegisterMode = RegisterMode.CREATE
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckedRegistration:
    """A registration that can be made: the table as it will be, and the edit that adds its row.

    `marker` is what hides the table, where a marker decides.
    """

    table: Table
    edit: Edit
    marker: Marker | None = None

    @property
    def root_name(self) -> str | None:
        """The root table whose directory it is, where a marker decides."""
        return None if self.marker is None else self.table.id[0]


@dataclass(frozen=True, slots=True)
class PurgeClaim:
    """A purge that nobody can undo any more.

    `keys` were listed before the claim, the versions last, and nothing else may be deleted. Without
    them the directory is never used again, so it can be listed after the claim, by anyone.
    """

    dropped: DroppedTable
    keys: tuple[str, ...] | None
    bytes: int = 0
    marker: Marker | None = None

    def halves(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys that go first, and the versions, which go once all of those are gone."""
        keys, folder = self.keys or (), f"/{names.VERSIONS_DIRECTORY}/"
        first = next((at for at, key in enumerate(keys) if folder in key), len(keys))
        return keys[:first], keys[first:]


class Arbiter(Protocol):
    """Decides about tables. Each change is one compare-and-swap, of a marker or of the manifest;
    whoever loses it gets ConcurrentModificationError and has changed nothing."""

    # -- create

    def guard(self, target: CreateTarget) -> TableGuard:
        """The state in which a write finds the table, or the place for it.

        ConcurrentModificationError if it has changed since the target was chosen.
        """

    def create(self, target: CreateTarget, rows: Any, guard: TableGuard | None) -> int:
        """Write the first version where the target is, and return its number.

        With a `guard` only if the state is still the same: rows whose files were there before are
        safe as long as it is. TableAlreadyExistsError if another process was first.
        """

    def withdraw(self, table: Table) -> None:
        """Remove a table that was created and could not be published: its name was taken."""

    # -- drop, undrop

    def check_drop(self, table: Table) -> None:
        """Refuse what `hide` would refuse. Changes nothing."""

    def hide(self, table: Table, terms: DropTerms) -> None:
        """Put a table into the trash, as far as the manifest does not do that."""

    def drop_edit(self, table: Table, terms: DropTerms) -> Edit:
        """What a drop changes in the manifest, after `hide`."""

    def undrop(self, dropped: DroppedTable, target: TableId, keep_newer: bool) -> Table:
        """Bring a dropped table back as it was dropped, under a name that is free."""

    def adopt(self, directory: str, terms: DropTerms, version: int) -> TableId:
        """Put a table without a name into the trash. The answer is the name to undrop it by."""

    # -- flags

    def hold(self, dropped: DroppedTable, held: bool) -> None:
        """Keep a dropped table from being purged, or allow it again."""

    def protect(self, table: Table, protected: bool) -> None:
        """Keep a table from being dropped, or allow it again."""

    # -- names

    def rename(self, table: Table, target: TableId) -> Table:
        """Move a table to a free name. Its files stay where they are."""

    def deregister(self, table: Table) -> Table:
        """Take the name of a table away and keep its files."""

    def check_registration(self, wanted: Registration, snapshot: Snapshot) -> CheckedRegistration:
        """Refuse a registration, or tell what it comes to. Changes nothing."""

    def show(self, registration: CheckedRegistration) -> None:
        """Make a table visible under its name, as far as the manifest does not do that."""

    # -- purge

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        """Begin a purge or take one over: from here on the table can't be undropped.

        Safe to repeat, by anyone.
        """

    def finish(self, claim: PurgeClaim) -> bool:
        """Note that the files are deleted. False if another process took the purge over."""


class Arbiters:
    """The two arbiters of one catalog. `arbiter_for` and `arbiter_at` choose, and nobody else."""

    def __init__(self, context: CatalogContext, marker: Arbiter, row: Arbiter) -> None:
        self._context = context
        self._marker = marker
        self._row = row

    def arbiter_for(self, table: Table | DroppedTable) -> Arbiter:
        """Who decides about a table, by its location."""
        return self._marker if table.has_marker else self._row

    def arbiter_at(self, location: str) -> Arbiter:
        """Who decides about a table without a name."""
        has_rows = self._context.manifest.is_enabled
        is_v1 = names.table_name(location) is not None
        return self._marker if is_v1 or not has_rows else self._row

    def find_to_drop(self, table: TableId) -> Table:
        """The table of a name, for a drop, which takes a deregistered one too.

        No request in directory mode: there, the name tells the location, and a drop reads the
        marker itself.
        """
        directory = self._context.directory
        if not self._context.manifest.is_enabled:
            directory.must_be_flat(table)
            return Table(table, names.table_directory(table[-1]))
        try:
            return self._context.catalog.find(table)
        except TableNotFoundError:
            if len(table) == 1:
                state = directory.look(table)
                is_hidden = state.marker.state is State.DEREGISTERED or state.hidden_by_peer
                if is_hidden and not state.is_empty:
                    return replace(state.as_table(), properties=state.marker.properties or {})
            raise

    def require_renames(self, done: str) -> None:
        """UnsupportedOperationError in directory mode, where a table can't change its name."""
        if not self._context.manifest.is_enabled:
            raise UnsupportedOperationError(
                f"in directory mode a table's directory is its name, so it can't be {done}",
                hint="open the catalog with manifest_enabled=true",
            )
