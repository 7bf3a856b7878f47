"""Tables that go by another name than their directory `<name>.lance`: renamed, or undropped as.

    live, deleted ── rename ──▶ moved ── its row is there ──▶ moved, arrived ── home ──▶ live
                                moved ── no row came ──▶ live
                                moved, arrived ── the row is purged ──▶ moved, buried

The row of the new name carries the nonce of the marker that handed the directory over. Until the
marker says that it has arrived, one swap undoes the move, and a row that came or comes too late is
worthless, for nonces never return. From then on the row is the arbiter. So whoever changes such a
row first sees to it that the marker says so, and whoever takes the directory away from the row,
home or into the grave, changes the row first: each swap has one meaning for everybody.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.base import Table
from tiltyard.catalog.directory import DirectoryState
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row, as_table
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
from tiltyard.clock import Clock
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.lifecycle.markers import persistently
from tiltyard.lifecycle.peers import hide_from_peers, show_to_peers
from tiltyard.names import TableId
from tiltyard.store import Store


class Moves:
    """Hands directories over to rows, and takes them back."""

    def __init__(self, store: Store, clock: Clock, manifest: ManifestCatalog) -> None:
        self._store = store
        self._clock = clock
        self._manifest = manifest

    # -- away

    def hand_over(self, present: Marker, found: Table, target: TableId) -> Table:
        """Give a table at its V1 location to another name: the marker, the row, the marker."""
        name = found.id[0]
        moved = self._move(name, present, target)
        protection = {PROTECTED: "1"} if present.protected else {}
        row = as_row(replace(found, id=target), **{MOVED: moved.nonce}, **protection)
        change = AllOf((RemoveIndex(found.id, found.location), AddTable(row)))
        try:
            self._manifest.submit_at([name], change)
        except TiltyardError:
            self._move_back(name, moved, present)
            raise
        if not self._arrive(name, row):
            self._manifest.submit(RemoveStaleRow(row.identity))
            raise ConcurrentModificationError(
                f"the rename of {names.display(found.id)} was undone by another process"
            )
        return as_table(row)

    def _move(self, name: str, present: Marker, target: TableId) -> Marker:
        following = replace(
            present.forgotten(),
            state=State.MOVED,
            generation=self._clock.generation(),
            moved_to=names.object_id(target),
        )
        moved = marker.swap(self._store, name, present, following, self._clock)
        hide_from_peers(self._store, name, moved)
        return moved

    def _move_back(self, name: str, moved: Marker, former: Marker) -> None:
        """Undo a move whose row did not come about. If another was first, there is nothing to."""
        with suppress(ConcurrentModificationError):
            if not former.hides:
                show_to_peers(self._store, name)
            marker.swap(self._store, name, moved, replace(former, tag=moved.tag), self._clock)

    def _arrive(self, name: str, row: Row) -> bool:
        """Make a move final, its row being there; False if it was undone before."""

        def change() -> bool:
            present = marker.read(self._store, name)
            if present.handed_to(row) and not present.arrived:
                following = replace(present, arrived=True)
                marker.swap(self._store, name, present, following, self._clock, fresh=False)
            return present.handed_to(row)

        return persistently(change)

    # -- while it is away

    def owner(self, state: DirectoryState) -> Row | None:
        """The row that a directory was handed to, live or in the trash.

        The marker was read before the rows are. So if there is none, and the marker does not change
        until it is swapped, there is none then: a row comes before its arrival, or counts for
        nothing after the swap.
        """
        if state.marker.state is not State.MOVED:
            return None
        rows = self._manifest.read().rows_at(names.table_directory(state.name))
        return next((row for row in rows if state.marker.handed_to(row)), None)

    def guarded(self, table: Table, edit: Edit) -> Edit:
        """An edit of a table's row. Of a renamed table it only takes effect once that is final."""
        name = names.root_table_at(table.location, table.id)
        if name is None:
            return edit
        row = Draft(self._manifest.read()).require_table(table.id)
        if MOVED in row.metadata and not self._arrive(name, row):
            raise ConcurrentModificationError(
                f"the rename to {names.display(table.id)} was undone by another process"
            )
        return IfSameRow(row.identity, edit)

    # -- home, or into the grave

    def come_home(self, found: Table, target: TableId) -> Table:
        """Give a renamed table the name of its directory: the row, the marker, the row."""
        change = AllOf(
            (
                RemoveIndex(target, found.location),  # of a table that is not there
                RenameTable(found.id, target, found.location),
            )
        )
        row = self._manifest.submit(self.guarded(found, change)).answer[-1]
        self._welcome(row)
        return as_table(row)

    def settle(self, table: Table) -> None:
        """Finish a way home that a crash interrupted: only then can the marker decide again."""
        row = self._manifest.known_row(table.id)
        if row is not None and MOVED in row.metadata and names.is_marked(row.id, table.location):
            self._welcome(row)

    def _welcome(self, row: Row) -> None:
        """Show a table to all whose row has the name of its directory; nobody else can have it."""
        name = row.object_id

        def change() -> None:
            present = marker.read(self._store, name)
            if present.handed_to(row):
                show_to_peers(self._store, name)
                following = replace(present.forgotten(), protected=PROTECTED in row.metadata)
                marker.swap(self._store, name, present, following, self._clock)

        persistently(change)
        self._manifest.submit(ClearRename(row.identity))

    def bury(self, trashed: Row) -> bool:
        """Give up a directory whose row is being purged; False if the row does not have it.

        From this swap on nobody can take the directory back, and it is never used again: so it can
        be listed and deleted after it, by anyone.
        """
        name = names.root_table_at(trashed.location or "", trashed.id[2:])
        if name is None:
            return True

        def change() -> bool:
            present = marker.read(self._store, name)
            if present.buried == trashed.object_id:
                return True
            if not (present.handed_to(trashed) or self._is_given_away(trashed, present)):
                return False
            following = replace(
                present.forgotten(),
                state=State.MOVED,
                generation=self._clock.generation(),
                moved_to=name,
                buried=trashed.object_id,
            )
            marker.swap(self._store, name, present, following, self._clock)
            return True

        return persistently(change)

    def _is_given_away(self, row: Row, present: Marker) -> bool:
        """Lance's own clients may give a V1 directory to a row, and know no marker."""
        return MOVED not in row.metadata and not present.hides
