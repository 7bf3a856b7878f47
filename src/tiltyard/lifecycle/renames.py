"""Tables at `<name>.lance` that have another name: renamed, or undropped under another one.

    live, deleted ── rename ──▶ moved ── its row is there ──▶ moved, arrived ── back ──▶ live
                                moved ── no row came ──▶ live
                                moved, arrived ── the row is purged ──▶ moved, buried

Here both arbiters meet. The row of the new name carries the nonce of the marker that handed the
directory over. Until the marker says that the row has arrived, one swap undoes the rename, and a
row that came or comes too late counts for nothing, for nonces never return. From then on the row
decides. So whoever changes such a row first sees to it that the marker says so, and whoever takes
the directory away from the row, to rename the table back or to purge it, changes the row first.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tiltyard.catalog import marker, names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.directory import DirectoryState
from tiltyard.catalog.manifest.catalog import as_row, as_table
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import (
    AddTable,
    AllOf,
    ClearRename,
    Edit,
    IfSameRow,
    RemoveIndex,
    RemoveStaleRow,
    RenameTable,
)
from tiltyard.catalog.manifest.rows import MOVED, PROTECTED, Row
from tiltyard.catalog.marker import Marker, State
from tiltyard.catalog.names import TableId
from tiltyard.errors import (
    ConcurrentModificationError,
    TiltyardError,
    UnsupportedOperationError,
)
from tiltyard.lifecycle.recreation import (
    Recreation,
    name_is_taken,
)


class Renames:
    """Hands directories `<name>.lance` over to rows, and takes them back."""

    def __init__(self, context: CatalogContext, recreation: Recreation) -> None:
        self._store = context.store
        self._clock = context.clock
        self._retry = context.retry
        self._manifest = context.manifest
        self._lists_directories = context.settings.dir_listing_enabled
        self._recreation = recreation

    # -- away from the name of the directory

    def hand_over(self, present: Marker, table: Table, target: TableId) -> Table:
        """Give a table to another name: three steps, the marker, the row, the marker.

        `table` has the name of its directory, and `present` is its marker.
        """
        self.reserve_name(target)
        name = table.id[0]
        moved = self._move(name, present, target)
        protection = {PROTECTED: "1"} if present.protected else {}
        row = as_row(replace(table, id=target), **{MOVED: moved.nonce}, **protection)
        change = AllOf((RemoveIndex(table.id, table.location), AddTable(row)))
        try:
            self._manifest.submit_at([name], change)
        except TiltyardError:
            self._move_back(name, moved, present)
            raise
        if not self._arrive(name, row):
            self._manifest.submit(RemoveStaleRow(row.identity))
            raise _undone(table.id)
        return as_table(row)

    def reserve_name(self, table: TableId) -> None:
        """Keep a root name for a table that lies elsewhere: no create may use its directory.

        Where directories are listed, both a row and a directory can hold a root name, so the
        marker decides between them.
        """
        if len(table) > 1 or not self._lists_directories:
            return
        name = table[0]

        def change() -> None:
            present = self._recreation.decided_marker(name)
            if present.state is State.MOVED:
                return
            if not self._is_gone(name, present):
                raise name_is_taken(name, present)
            self._swap_to_moved(name, present, names.object_id(table))

        self._retry.on(ConcurrentModificationError, change)

    def _is_gone(self, name: str, present: Marker) -> bool:
        """Whether nothing is left of a name: it never was, was purged, or another client deleted
        the files of what was dropped."""
        if present.state in (State.LIVE, State.DELETED):
            inside = self._store.list(names.table_directory(name))
            return not (inside.objects or inside.directories)
        return present.state is State.PURGED

    def _move(self, name: str, present: Marker, target: TableId) -> Marker:
        moved = self._swap_to_moved(name, present, names.object_id(target))
        marker.hide_from_peers(self._store, name, moved)
        return moved

    def _swap_to_moved(
        self, name: str, present: Marker, owner: str, buried: str | None = None
    ) -> Marker:
        following = replace(
            present.forgotten(),
            state=State.MOVED,
            generation=self._clock.generation(),
            moved_to=owner,
            buried=buried,
        )
        return marker.swap(self._store, name, present, following, self._clock)

    def _move_back(self, name: str, moved: Marker, former: Marker) -> None:
        """Undo a move whose row did not come about. If another was first, there is nothing to."""
        with suppress(ConcurrentModificationError):
            if not former.hides:
                marker.show_to_peers(self._store, name)
            marker.swap(self._store, name, moved, replace(former, tag=moved.tag), self._clock)

    def _arrive(self, name: str, row: Row) -> bool:
        """Make a rename final, its row being there; False if it was undone before."""

        def change() -> bool:
            present = marker.read(self._store, name)
            if present.handed_to(row) and not present.arrived:
                following = replace(present, arrived=True)
                marker.swap(self._store, name, present, following, self._clock, fresh=False)
            return present.handed_to(row)

        return self._retry.on(ConcurrentModificationError, change)

    # -- while it has another name

    def owner(self, state: DirectoryState) -> Row | None:
        """The row that a directory was handed to, live or in the trash.

        The marker was read before the rows are. So if there is none, and the marker does not change
        until it is swapped, there is none then: a row comes before its arrival, or counts for
        nothing after the swap.
        """
        if state.marker.state is not State.MOVED:
            return None
        if not self._manifest.is_enabled:
            raise UnsupportedOperationError(
                "the table was renamed, and only a catalog with a manifest can tell where to",
                hint="open the catalog with manifest_enabled=true",
            )
        rows = self._manifest.read().rows_at(names.table_directory(state.name))
        return next((row for row in rows if state.marker.handed_to(row)), None)

    def guarded(self, table: Table, edit: Edit) -> Edit:
        """An edit of a table's row. Of a renamed table it only takes effect once that is final."""
        name = names.root_table_at(table.location, table.id)
        if name is None:
            return edit
        row = Draft(self._manifest.read()).require_table(table.id)
        if MOVED in row.metadata and not self._arrive(name, row):
            raise _undone(table.id)
        return IfSameRow(row.identity, edit)

    def finish(self, owner: Row) -> None:
        """Finish a rename that was interrupted after its row was there, in either direction."""
        table = as_table(owner)
        if table.has_marker:
            self.finish_return(table)
        else:
            self.guarded(table, AllOf(()))

    # -- back to the name of the directory, or to the end

    def rename_back(self, table: Table, target: TableId) -> Table:
        """Give a table the name of its directory again: the row, the marker, the row."""
        change = AllOf(
            (
                RemoveIndex(target, table.location),  # of a table that is not there
                RenameTable(table.id, target, table.location),
            )
        )
        row = self._manifest.submit(self.guarded(table, change)).answer[-1]
        self._return(row)
        return as_table(row)

    def finish_return(self, table: Table) -> None:
        """Finish a rename back that was interrupted: only then can the marker decide again.

        `table` has the name of its directory. No request, unless there is something to finish.
        """
        row = self._manifest.known_row(table.id)
        if row is not None and MOVED in row.metadata:
            self._return(row)

    def _return(self, row: Row) -> None:
        """Show a table whose row has the name of its directory; nobody else can have it."""
        name = row.object_id

        def change() -> None:
            present = marker.read(self._store, name)
            if present.handed_to(row):
                marker.show_to_peers(self._store, name)
                following = replace(present.forgotten(), protected=PROTECTED in row.metadata)
                marker.swap(self._store, name, present, following, self._clock)

        self._retry.on(ConcurrentModificationError, change)
        self._manifest.submit(ClearRename(row.identity))

    def tombstone(self, trashed: Row) -> bool:
        """Give up a directory whose row is being purged; False if the row does not have it.

        From this swap on nobody can take the directory back, and it is never used again: so it can
        be listed and deleted after it, by anyone. No request for a row that has a directory of its
        own.
        """
        name = names.root_table_at(trashed.location or "", trashed.id[2:])
        if name is None:
            return True

        def change() -> bool:
            present = marker.read(self._store, name)
            if present.buried == trashed.object_id:
                return True
            if not (present.handed_to(trashed) or _is_given_away(trashed, present)):
                return False
            self._swap_to_moved(name, present, name, buried=trashed.object_id)
            return True

        return self._retry.on(ConcurrentModificationError, change)


def _is_given_away(row: Row, present: Marker) -> bool:
    """Lance's own clients may give a directory `<name>.lance` to a row, and know no marker."""
    return MOVED not in row.metadata and not present.hides


def _undone(table: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"the rename of {names.display(table)} was undone by another process"
    )
