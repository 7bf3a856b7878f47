"""The lifecycle of tables: dropping and undropping, registering and renaming.

Wherever a table lies, its arbiter decides. Its data is never touched here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from tiltyard.catalog import version_files
from tiltyard.catalog.base import DropBehaviour, DropTerms, Table, already_exists
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.catalog import as_table
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import AllOf, DropNamespace, Edit, RemoveStaleRow
from tiltyard.catalog.manifest.rows import Row
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, TableNotFoundError
from tiltyard.lifecycle.arbiter import Arbiters, Registration
from tiltyard.lifecycle.trash import DroppedTable, TableState, TableStatus, TrashReader

LOOKING_THREADS = 16

# The terms of a drop, for the namespace that a table is in.
TermsOf = Callable[[NamespaceId], DropTerms]


class TableLifecycle:
    """Drops, undrops, registers and renames the tables of one catalog."""

    def __init__(self, context: CatalogContext, arbiters: Arbiters, trash: TrashReader) -> None:
        self._store = context.store
        self._catalog = context.catalog
        self._manifest = context.manifest
        self._retry = context.retry
        self._arbiters = arbiters
        self._trash = trash

    # -- drop

    def drop(self, table: TableId, terms: TermsOf) -> Table:
        """Put a table into the trash: one or two small writes, whatever its size."""
        self._store.require_conditions()
        dropped = self._arbiters.find_to_drop(table)
        arbiter, agreed = self._arbiters.arbiter_for(dropped), terms(table[:-1])
        edit = arbiter.drop_edit(dropped, agreed)
        arbiter.hide(dropped, agreed)
        self._manifest.submit(edit)
        return dropped

    def drop_all(self, tables: Sequence[TableId], terms: TermsOf) -> list[Table]:
        """Drop any number of tables; their rows go in one commit, all of them or none.

        Tables at `<name>.lance` go one after the other, once it is clear that each of them can.
        """
        self._store.require_conditions()
        dropped = [self._arbiters.find_to_drop(table) for table in tables]
        steps = [
            (self._arbiters.arbiter_for(table), table, terms(table.id[:-1])) for table in dropped
        ]
        commit = AllOf(tuple(arbiter.drop_edit(table, agreed) for arbiter, table, agreed in steps))
        for arbiter, table, _ in steps:
            arbiter.check_drop(table)
        commit.apply(Draft(self._manifest.read()))  # what is refused has to be before any is hidden
        for arbiter, table, agreed in steps:
            arbiter.hide(table, agreed)
        self._manifest.submit(commit)
        return dropped

    def drop_namespace(
        self, namespace: NamespaceId, behaviour: DropBehaviour, terms: TermsOf
    ) -> Mapping[str, str]:
        """Remove a namespace; with Cascade its tables go into the trash in the same commit."""
        is_cascade = behaviour is DropBehaviour.CASCADE and self._manifest.is_enabled
        if not (is_cascade and namespace):
            return self._catalog.drop_namespace(namespace, behaviour)
        # A table that comes or goes after a look is met by the commit: then look again.
        return self._retry.on(
            (ConcurrentModificationError, TableNotFoundError),
            lambda: self._cascade(namespace, terms),
        )

    def _cascade(self, namespace: NamespaceId, terms: TermsOf) -> Mapping[str, str]:
        snapshot = self._manifest.read_with(namespace)
        tables = [row for row in snapshot.below(namespace) if row.is_table]
        with ThreadPoolExecutor(LOOKING_THREADS) as pool:
            edits = list(pool.map(lambda row: self._drop_edit(row, terms), tables))
        edits.append(DropNamespace(namespace, DropBehaviour.CASCADE))
        properties: Mapping[str, str] = (
            self._manifest.submit(AllOf(tuple(edits))).answer[-1].properties
        )
        return properties

    def _drop_edit(self, row: Row, terms: TermsOf) -> Edit:
        """A row that is left of an undone rename has no table to put into the trash."""
        if not self._manifest.is_trusted(row):
            return RemoveStaleRow(row.identity)
        table = as_table(row)
        return self._arbiters.arbiter_for(table).drop_edit(table, terms(table.id[:-1]))

    def adopt(self, directory: str, terms: DropTerms) -> TableId:
        """Put a table that has no name into the trash: one commit, or one swap of a marker.

        The answer is the name to undrop it by. InvalidTableStateError if a row has the directory.
        """
        self._store.require_conditions()
        newest = version_files.latest(self._store, directory)
        if newest is None:
            raise InvalidInputError(f"{directory!r} holds no table")
        return self._arbiters.arbiter_at(directory).adopt(directory, terms, newest.version)

    # -- undrop

    def undrop(
        self,
        table: TableId,
        *,
        generation: str | None = None,
        target: TableId | None = None,
        keep_newer: bool = False,
    ) -> Table:
        """Bring a dropped table back, under its own name or another that is free."""
        self._store.require_conditions()
        dropped = self._trash.find(table, generation)
        target = target or table
        if target != table:
            self._arbiters.require_renames("brought back under another name")
        if self._exists(target):
            raise already_exists(
                target, hint="bring it back under another name, or drop the one that is there"
            )
        return self._arbiters.arbiter_for(dropped).undrop(dropped, target, keep_newer)

    def _exists(self, table: TableId) -> bool:
        try:
            self._catalog.find(table)
        except TableNotFoundError:
            return False
        return True

    # -- status and flags

    def status(self, table: TableId) -> TableStatus:
        """Whether a table exists, is in the trash, or is not to be found."""
        if self._exists(table):
            return TableStatus(TableState.EXISTS)
        with suppress(TableNotFoundError):
            dropped = self._trash.find(table)
            return TableStatus(
                TableState.SOFT_DELETED, dropped.dropped_at, dropped.expires_at, dropped.generation
            )
        return TableStatus(TableState.NOT_FOUND)

    def hold(self, table: TableId, held: bool, generation: str | None = None) -> DroppedTable:
        """Keep a dropped table from being purged, or allow it again."""
        self._store.require_conditions()
        dropped = self._trash.find(table, generation)
        self._arbiters.arbiter_for(dropped).hold(dropped, held)
        return replace(dropped, held=held)

    def protect(self, table: TableId, protected: bool) -> None:
        """Keep a table from being dropped, or allow it again."""
        self._store.require_conditions()
        present = self._catalog.find(table)
        self._arbiters.arbiter_for(present).protect(present, protected)

    # -- names

    def rename(self, table: TableId, target: TableId) -> Table:
        """Move a table to a free name, across namespaces too. Its files stay where they are."""
        self._arbiters.require_renames("renamed")
        self._store.require_conditions()
        present = self._catalog.find(table)
        return self._arbiters.arbiter_for(present).rename(present, target)

    def deregister(self, table: TableId) -> Table:
        """Take a name away and keep the data. The answer tells where it lies."""
        self._store.require_conditions()
        present = self._catalog.find(table)
        return self._arbiters.arbiter_for(present).deregister(present)

    def register_all(self, wanted: Sequence[Registration]) -> list[Table]:
        """Give names to Lance tables inside the root; all rows in one commit, or none."""
        snapshot = self._manifest.read()
        checked = [
            self._arbiters.arbiter_at(registration.location).check_registration(
                registration, snapshot
            )
            for registration in wanted
        ]
        at_root = [entry.root_name for entry in checked if entry.root_name is not None]
        commit = AllOf(tuple(entry.edit for entry in checked))
        snapshot = self._manifest.remove_stale_rows(snapshot, at_root)
        commit.apply(Draft(snapshot))  # what is refused has to be before any is shown
        self._store.require_conditions()
        for registration, entry in zip(wanted, checked, strict=True):
            self._arbiters.arbiter_at(registration.location).show(entry)
        try:
            self._manifest.submit_at(at_root, commit)
        except InvalidInputError as taken:
            if not at_root:
                raise
            raise ConcurrentModificationError(
                "a table was renamed by another process as soon as it was shown"
            ) from taken
        return [entry.table for entry in checked]
