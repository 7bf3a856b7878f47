"""The arbiter of tables in directories of their own: every change is one commit of the manifest.

    row ── drop ──▶ row in the trash ── undrop ──▶ row
    row in the trash ── purge ──▶ purging ──▶ no row

A directory is fresh for every create and never used again, so anyone may finish a purge that was
interrupted. Every check of an edit (`catalog.manifest.edits`) holds in the commit that carries it.
The row of a renamed table lies at `<name>.lance`; what that takes is in `renames`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import CreateTarget, DropTerms, RegisterMode, Table, already_exists
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.manifest.catalog import as_row, as_table
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import (
    AddTable,
    AdoptTable,
    ClaimPurge,
    DropTable,
    Edit,
    FinishPurge,
    HoldTable,
    ProtectTable,
    RemoveTable,
    RenameTable,
    ReplaceTable,
    UndropTable,
)
from tiltyard.catalog.manifest.rows import Row, check_properties, trash_id
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import NONCE_DIGITS
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import InvalidInputError, InvalidTableStateError, TableNotFoundError
from tiltyard.lifecycle.arbiter import CheckedRegistration, PurgeClaim, Registration
from tiltyard.lifecycle.recreation import Files
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.trash import DroppedTable


class RowArbiter:
    """Decides about tables that the manifest has. See `arbiter.Arbiter` for what each does."""

    def __init__(self, context: CatalogContext, files: Files, renames: Renames) -> None:
        self._context = context
        self._store = context.store
        self._clock = context.clock
        self._catalog = context.catalog
        self._manifest = context.manifest
        self._files = files
        self._renames = renames

    # -- create

    def guard(self, target: CreateTarget) -> TableGuard:
        """No request: the location tells whether a table is still the same."""
        return TableGuard(target.table)

    def create(self, target: CreateTarget, rows: Any, guard: TableGuard | None) -> int:
        """A table that was declared is looked for again once it is written (Guard C)."""
        table = target.table
        try:
            staged = self._files.stage(table.location, rows, 0)
        except LostRaceError as lost:
            raise already_exists(table.id) from lost
        try:
            version = self._files.commit(staged, self._clock.token(NONCE_DIGITS))
        except LostRaceError as lost:
            self._files.discard(staged)
            raise already_exists(table.id) from lost
        if target.exists:
            TableGuard(table).require_same(self._context)
        return version

    def withdraw(self, table: Table) -> None:
        """The directory is fresh, so everything in it is ours."""
        self._store.delete_many(entry.key for entry in self._store.walk(table.location))

    # -- drop, undrop

    def check_drop(self, table: Table) -> None:
        """No request: the edit refuses what can't be dropped."""

    def hide(self, table: Table, terms: DropTerms) -> None:
        """No request: the edit does it."""

    def drop_edit(self, table: Table, terms: DropTerms) -> Edit:
        """The row moves into the trash. One request, unless the versions are rows."""
        newest = self._catalog.latest(table)
        version = newest.version if newest else 0
        generation, now_ms = self._clock.generation(), self._clock.now_ms()
        edit = DropTable(table.id, table.location, generation, terms, version, now_ms)
        return self._renames.guarded(table, edit)

    def undrop(self, dropped: DroppedTable, target: TableId, keep_newer: bool) -> Table:
        if Table(target, dropped.location).has_marker:
            raise InvalidTableStateError(
                f"table {names.display(dropped.id)} was renamed from {names.display(target)}, and "
                f"can't come back to that name at once",
                hint="bring it back under another name, and rename it",
            )
        self._require_as_dropped(dropped, keep_newer)
        edit = UndropTable(dropped.id, dropped.generation, target)
        edit.apply(Draft(self._manifest.read()))  # what is refused has to be before a name is kept
        self._renames.reserve_name(target)
        return as_table(self._manifest.submit(edit).answer)

    def _require_as_dropped(self, dropped: DroppedTable, keep_newer: bool) -> None:
        newest = version_files.latest(self._store, dropped.location)
        if newest is None and dropped.version:
            raise TableNotFoundError(
                f"table {names.display(dropped.id)} can't be brought back: "
                f"another client has deleted its files"
            )
        row = self._manifest.known().get(trash_id(dropped.id, dropped.generation))
        if row is not None and row.is_managed:
            return  # its rows came along, and no writer adds to them
        if newest and newest.version > (dropped.version or 0) and not keep_newer:
            raise InvalidTableStateError(
                f"table {names.display(dropped.id)} was written to after it was dropped: it is at "
                f"version {newest.version}, and was dropped at {dropped.version or 0}",
                hint="undrop it with keep_newer to keep what was written",
            )

    def adopt(self, directory: str, terms: DropTerms, version: int) -> TableId:
        owners = names.natural_owners(directory)
        table = names.split_object_id(owners[-1] if owners else directory)
        terms = replace(terms, reason=terms.reason or "it had no name")
        generation, now_ms = self._clock.generation(), self._clock.now_ms()
        edit = AdoptTable(table, directory, generation, terms, version, now_ms)
        row: Row = self._manifest.submit(edit).answer
        return row.id[2:]

    # -- flags

    def hold(self, dropped: DroppedTable, held: bool) -> None:
        self._manifest.submit(HoldTable(dropped.id, dropped.generation, held))

    def protect(self, table: Table, protected: bool) -> None:
        edit = self._renames.guarded(table, ProtectTable(table.id, protected))
        self._manifest.submit(edit)

    # -- names

    def rename(self, table: Table, target: TableId) -> Table:
        """A renamed table may return to the name of its directory, where the marker decides."""
        if replace(table, id=target).has_marker:
            return self._renames.rename_back(table, target)
        if self._catalog.holder(target) is not None:
            raise already_exists(target)
        self._renames.reserve_name(target)
        edit = self._renames.guarded(table, RenameTable(table.id, target, table.location))
        return as_table(self._manifest.submit(edit).answer)

    def deregister(self, table: Table) -> Table:
        edit = self._renames.guarded(table, RemoveTable(table.id, table.location))
        return as_table(self._manifest.submit(edit).answer)

    def check_registration(self, wanted: Registration, snapshot: Snapshot) -> CheckedRegistration:
        """One request, and those to see whether the name is free."""
        check_properties(wanted.properties)
        location = wanted.location
        if location.startswith((names.RESERVED_PREFIX, ".")):
            raise InvalidInputError(f"'{location}' is the catalog's own")
        top = names.top_directory(location)
        if top != location and names.table_name(top) is not None:
            raise InvalidInputError(f"'{location}' lies inside the directory of a table")
        if names.VERSIONS_DIRECTORY not in self._store.list(location).directories:
            raise InvalidInputError(f"there is no Lance table at '{location}' to register")
        is_new = wanted.mode is RegisterMode.CREATE
        if is_new and self._catalog.holder(wanted.table):
            raise already_exists(wanted.table)
        properties = dict(wanted.properties)
        table = Table(wanted.table, location, only_declared=False, properties=properties)
        edit = AddTable(as_row(table)) if is_new else ReplaceTable(as_row(table))
        return CheckedRegistration(table, edit)

    def show(self, registration: CheckedRegistration) -> None:
        """The edit adds the row; a root name is reserved before."""
        self._renames.reserve_name(registration.table.id)

    # -- purge

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        """A renamed table still lies at `<name>.lance`: there, its marker has the last word."""
        row = self._manifest.submit(ClaimPurge(dropped.id, dropped.generation)).answer
        return PurgeClaim(dropped, None if self._renames.tombstone(row) else ())

    def finish(self, claim: PurgeClaim) -> bool:
        edit = FinishPurge(claim.dropped.id, claim.dropped.generation)
        is_finished: bool = self._manifest.submit(edit).answer
        return is_finished
