"""Dropping tables and bringing them back, wherever they lie: the arbiter follows the location."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import (
    Catalog,
    DropBehaviour,
    Table,
    already_exists,
    no_such_table,
)
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row, as_table
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import (
    AllOf,
    DropNamespace,
    DropTable,
    Edit,
    HoldTable,
    IndexTable,
    ProtectTable,
    RemoveIndex,
    RemoveStaleRow,
    UndropTable,
)
from tiltyard.catalog.manifest.rows import Row
from tiltyard.catalog.marker import State
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from tiltyard.lifecycle import rows
from tiltyard.lifecycle.markers import TRIES, Markers
from tiltyard.lifecycle.registration import Registrar
from tiltyard.lifecycle.trash import DropTerms, TableState, TableStatus, Trashed
from tiltyard.lifecycle.trash_reader import TrashReader
from tiltyard.names import NamespaceId, TableId
from tiltyard.store import Store

LOOKING_THREADS = 16

# The terms of a drop, for the namespace that a table is in.
TermsOf = Callable[[NamespaceId], DropTerms]


class TableLifecycle:
    """The lives of the tables of one catalog. `manifest` is None in directory mode."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
        markers: Markers,
        registrar: Registrar,
    ) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._directory = directory
        self._manifest = manifest
        self._markers = markers
        self._registrar = registrar
        self.bin = TrashReader(store, manifest)

    # -- drop

    def drop(self, table: TableId, terms: TermsOf) -> Table:
        """Put a table into the trash: one or two small writes, whatever its size."""
        self._store.require_conditions()
        if self._manifest is None:
            self._directory.must_be_flat(table)
            self._markers.drop(table[-1], terms(table[:-1]))
            return Table(table, names.table_directory(table[-1]))
        found = self._droppable(table)
        if names.is_marked(table, found.location):
            self._registrar.settle(found)
            self._markers.drop(table[0], terms(table[:-1]), found.properties)
            self._manifest.submit(RemoveIndex(table, found.location))
            return found
        self._manifest.submit(self._dropping(found, terms(table[:-1])))
        return found

    def drop_all(self, tables: Sequence[TableId], terms: TermsOf) -> list[Table]:
        """Drop any number of tables; their rows go in one commit, all of them or none.

        Tables at V1 locations go one after the other, once it is clear that each of them can.
        """
        self._store.require_conditions()
        if self._manifest is None:
            for table in tables:
                self._directory.must_be_flat(table)
                self._markers.droppable(table[-1])
            return [self.drop(table, terms) for table in tables]
        found = [self._droppable(table) for table in tables]
        marked = [each for each in found if names.is_marked(each.id, each.location)]
        commit = AllOf(
            tuple(
                RemoveIndex(each.id, each.location)
                if each in marked
                else self._dropping(each, terms(each.id[:-1]))
                for each in found
            )
        )
        for each in marked:
            self._registrar.settle(each)
            self._markers.droppable(each.id[0])
        commit.apply(Draft(self._manifest.read()))
        for each in marked:
            self._markers.drop(each.id[0], terms(each.id[:-1]), each.properties)
        self._manifest.submit(commit)
        return found

    def drop_namespace(
        self, namespace: NamespaceId, behaviour: DropBehaviour, terms: TermsOf
    ) -> Mapping[str, str]:
        """Remove a namespace; with Cascade its tables go into the trash in the same commit."""
        if behaviour is DropBehaviour.RESTRICT or self._manifest is None or not namespace:
            return self._catalog.drop_namespace(namespace, behaviour)
        for _ in range(TRIES - 1):
            # A table that comes or goes after this look is met by the commit: then look again.
            with suppress(ConcurrentModificationError, TableNotFoundError):
                return self._cascade(self._manifest, namespace, terms)
        return self._cascade(self._manifest, namespace, terms)

    def _cascade(
        self, manifest: ManifestCatalog, namespace: NamespaceId, terms: TermsOf
    ) -> Mapping[str, str]:
        snapshot = manifest.read_with(namespace)
        tables = [row for row in snapshot.below(namespace) if row.is_table]
        with ThreadPoolExecutor(LOOKING_THREADS) as pool:
            commits = list(pool.map(lambda row: self._dropping_row(row, terms), tables))
        commits.append(DropNamespace(namespace, DropBehaviour.CASCADE))
        properties: Mapping[str, str] = manifest.submit(AllOf(tuple(commits))).answer[-1].properties
        return properties

    def _dropping_row(self, row: Row, terms: TermsOf) -> Edit:
        """A row left over from an undone rename has no table to put into the trash."""
        assert self._manifest is not None
        table = as_table(row)
        if not self._manifest.is_trusted(row):
            return RemoveStaleRow(row.identity)
        return self._dropping(table, terms(table.id[:-1]))

    def _droppable(self, table: TableId) -> Table:
        try:
            return self._catalog.find(table)
        except TableNotFoundError:
            if len(table) == 1:  # a deregistered table can be dropped too
                state = self._directory.look(table)
                hidden = state.marker.state is State.DEREGISTERED or state.hidden_by_peer
                if hidden and not state.is_empty:
                    return replace(state.as_table(), properties=state.marker.properties or {})
            raise

    def _dropping(self, table: Table, terms: DropTerms) -> Edit:
        newest = self._catalog.latest(table)
        edit = DropTable(
            table.id,
            table.location,
            self._clock.generation(),
            terms,
            newest.version if newest else 0,
            self._clock.now_ms(),
        )
        return self._registrar.guarded(table, edit)

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
        dropped = self.bin.find(table, generation)
        target = target or table
        if self._manifest is None and target != table:
            self._registrar.require_manifest("brought back under another name")
        if self._is_taken(target):
            raise already_exists(
                target, hint="bring it back under another name, or drop the one that is there"
            )
        if self._manifest is None or self.bin.is_marked(dropped):
            return self._undrop_marked(dropped, target, keep_newer)
        if names.is_marked(table, dropped.location):
            raise ConcurrentModificationError(
                f"another process changed the state of table {names.display(table)} meanwhile"
            )
        if names.is_marked(target, dropped.location):
            raise InvalidTableStateError(
                f"table {names.display(table)} was renamed from {names.display(target)}, and can't "
                f"come back to that name at once",
                hint="bring it back under another name, and rename it",
            )
        self._must_be_as_dropped(dropped, keep_newer)
        edit = UndropTable(table, dropped.generation, target)
        edit.apply(Draft(self._manifest.read()))  # what is refused has to be before a name is kept
        self._registrar.keep_root_name(target)
        return as_table(self._manifest.submit(edit).answer)

    def _undrop_marked(self, dropped: Trashed, target: TableId, keep_newer: bool) -> Table:
        name = dropped.id[0]
        table = Table(
            dropped.id,
            dropped.location,
            properties=None if self._manifest is None else dict(dropped.properties or {}),
        )
        if target != dropped.id:
            present = self._markers.restorable(name, dropped.generation, keep_newer)
            return self._registrar.hand_over(present, table, target)
        if self._manifest is None:
            _no_properties(dropped)
            self._markers.undrop(name, generation=dropped.generation, keep_newer=keep_newer)
            return table
        # The row counts for nothing until the marker shows the table, so that a crash loses none.
        self._manifest.submit_at([name], IndexTable(as_row(table)))
        former = self._markers.undrop(name, generation=dropped.generation, keep_newer=keep_newer)
        try:
            self._manifest.submit_at([name], IndexTable(as_row(table), keep=True))
        except (TableAlreadyExistsError, NamespaceAlreadyExistsError):
            terms = DropTerms(former.ttl_ms, former.dropped_by or "tiltyard", former.reason)
            self._markers.drop(name, terms, former.properties)
            raise
        except InvalidInputError:  # it was renamed by another process as soon as it was shown
            pass
        return table

    def _must_be_as_dropped(self, dropped: Trashed, keep_newer: bool) -> None:
        newest = version_files.latest(self._store, dropped.location)
        if newest is None and dropped.version:
            raise TableNotFoundError(
                f"table {names.display(dropped.id)} can't be brought back: "
                f"another client has deleted its files"
            )
        if rows.is_managed(self._manifest, dropped):
            return  # its rows came along, and no writer adds to them
        if newest and newest.version > (dropped.version or 0) and not keep_newer:
            raise InvalidTableStateError(
                f"table {names.display(dropped.id)} was written to after it was dropped: it is at "
                f"version {newest.version}, and was dropped at {dropped.version or 0}",
                hint="undrop it with keep_newer to keep what was written",
            )

    def _is_taken(self, table: TableId) -> bool:
        try:
            self._catalog.find(table)
        except TableNotFoundError:
            return False
        return True

    # -- status and flags

    def status(self, table: TableId) -> TableStatus:
        """Whether a table exists, is in the trash, or is not to be found."""
        if self._is_taken(table):
            return TableStatus(TableState.EXISTS)
        with suppress(TableNotFoundError):
            dropped = self.bin.find(table, None)
            return TableStatus(
                TableState.SOFT_DELETED, dropped.dropped_at, dropped.expires_at, dropped.generation
            )
        return TableStatus(TableState.NOT_FOUND)

    def hold(self, table: TableId, held: bool, generation: str | None = None) -> Trashed:
        """Keep a dropped table from being purged, or let it go again."""
        self._store.require_conditions()
        dropped = self.bin.find(table, generation)
        if self._manifest is None or self.bin.is_marked(dropped):
            self._markers.hold(table[0], held, dropped.generation)
        else:
            self._manifest.submit(HoldTable(table, dropped.generation, held))
        return replace(dropped, held=held)

    def protect(self, table: TableId, protected: bool) -> None:
        """Keep a table from being dropped, or allow it again."""
        self._store.require_conditions()
        found = self._catalog.find(table)
        if names.is_marked(table, found.location):
            self._registrar.settle(found)
            self._markers.protect(table[0], protected)
        else:
            if self._manifest is None:
                raise no_such_table(table)
            edit = ProtectTable(table, protected)
            self._manifest.submit(self._registrar.guarded(found, edit))


def _no_properties(dropped: Trashed) -> None:
    """A live marker has no room for properties, and a client without a manifest no other place."""
    if dropped.properties:
        raise UnsupportedOperationError(
            f"table {names.display(dropped.id)} has properties, which directory mode would lose",
            hint="bring it back with manifest_enabled=true",
        )
