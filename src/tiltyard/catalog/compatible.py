"""Both catalogs on one directory: the manifest first, the directory second.

Root tables lie at `<name>.lance`, where Lance's own clients and V1 clients see them; their rows in
the manifest are an index, and the directory and its marker decide. A root table whose row points
elsewhere (renamed, registered) is the manifest's. Everything below the root is the manifest's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from tiltyard.catalog import names
from tiltyard.catalog.base import (
    CreateMode,
    CreateTarget,
    DropBehaviour,
    Table,
    already_exists,
    no_such_table,
)
from tiltyard.catalog.directory import DirectoryCatalog, why_hidden
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row
from tiltyard.catalog.manifest.draft import Draft
from tiltyard.catalog.manifest.edits import AllOf, Edit, IndexTable, RemoveStaleRow
from tiltyard.catalog.manifest.rows import Row, check_properties
from tiltyard.catalog.manifest.snapshot import EMPTY, ManifestSnapshot
from tiltyard.catalog.marker import State
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError


class CompatibleCatalog:
    """The default: V1 and V2 together."""

    def __init__(self, manifest: ManifestCatalog, directory: DirectoryCatalog) -> None:
        self._manifest = manifest
        self._directory = directory

    # -- namespaces: the manifest's alone

    def create_namespace(
        self, namespace: NamespaceId, mode: CreateMode, properties: Mapping[str, str]
    ) -> Mapping[str, str]:
        if len(namespace) == 1 and self._directory.is_taken(namespace[0]):
            raise already_exists(namespace)
        return self._manifest.create_namespace(namespace, mode, properties)

    def describe_namespace(self, namespace: NamespaceId) -> Mapping[str, str]:
        return self._manifest.describe_namespace(namespace)

    def known_properties(self, namespace: NamespaceId) -> Mapping[str, str]:
        return self._manifest.known_properties(namespace)

    def drop_namespace(self, namespace: NamespaceId, behaviour: DropBehaviour) -> Mapping[str, str]:
        return self._manifest.drop_namespace(namespace, behaviour)

    def list_namespaces(self, parent: NamespaceId) -> Sequence[str]:
        return self._manifest.list_namespaces(parent)

    # -- tables

    def list_tables(self, namespace: NamespaceId) -> Sequence[str]:
        """One request, and at the root one listing more."""
        if namespace:
            return self._manifest.list_tables(namespace)
        return self._root_tables(self._manifest.read())

    def list_all_tables(self) -> Sequence[str]:
        """One request and one listing."""
        snapshot = self._manifest.read()
        below = [table for table in snapshot.table_ids if names.DELIMITER in table]
        return sorted([*self._root_tables(snapshot), *below])

    def _root_tables(self, snapshot: ManifestSnapshot) -> list[str]:
        """Directories that no row gives to another name, and rows that point elsewhere."""
        taken = snapshot.taken_directories
        namespaces = snapshot.children(names.ROOT).namespaces
        visible = self._directory.list_tables(names.ROOT)
        elsewhere = snapshot.other_root_tables
        if not (taken or elsewhere or namespaces):
            return list(visible)
        kept = (name for name in visible if names.table_directory(name) not in taken)
        return sorted({*kept, *elsewhere}.difference(namespaces))

    def find(self, table: TableId) -> Table:
        """One request for a table of the manifest, three for a root table at its V1 location."""
        if len(table) > 1:
            return self._manifest.find(table)
        snapshot = self._manifest.read()
        row = snapshot.get(table[0])
        if row is not None and not row.is_index:
            present = self._manifest.find_in(snapshot, table)
            if present is None:
                raise self._manifest.missing(snapshot, table)
            return present
        state = self._directory.look(table)
        if not state.is_visible or state.location in snapshot.taken_directories:
            hint = why_hidden(state)
            raise no_such_table(table, hint) if hint else self._manifest.missing(snapshot, table)
        return _with_properties(state.as_table(), row)

    def holder(self, table: TableId) -> Table | None:
        """One request for a table of the manifest, three for a root table at its V1 location."""
        if len(table) > 1:
            return self._manifest.holder(table)
        snapshot = self._manifest.read()
        row = snapshot.get(table[0])
        if row is not None and not row.is_index:
            return self._manifest.holder(table)
        if names.table_directory(table[0]) in snapshot.taken_directories:
            return None  # another name has its directory, so it gets a new one
        present = self._directory.holder(table)
        return None if present is None else _with_properties(present, row)

    def create_target(self, table: TableId, properties: Mapping[str, str]) -> CreateTarget:
        """One request for a table of the manifest, three for a root table at its V1 location.

        A root table goes to `<name>.lance`, unless another name has that directory, a dropped table
        there is held, its versions can't continue there, or are to be rows: then it gets a
        directory of its own.
        """
        check_properties(properties)
        if len(table) > 1:
            return self._manifest.create_target(table, properties)
        snapshot = self._manifest.read()
        row = snapshot.get(table[0])
        location = names.table_directory(table[0])
        elsewhere = row is not None and not row.is_index
        if elsewhere or location in snapshot.taken_directories:
            return self._manifest.create_target(table, properties)
        state = self._directory.look(table)
        if state.is_visible:
            return CreateTarget(_with_properties(state.as_table(), row), exists=True)
        if state.marker.hold or (state.is_free and (snapshot.managed or not state.can_continue)):
            return CreateTarget(self._elsewhere(table, properties, row), exists=False)
        if not state.is_free:
            raise already_exists(table, hint=why_hidden(state))
        self._directory.notice_if_new()
        placed = Table(table, location, only_declared=True, properties=dict(properties))
        return CreateTarget(placed, exists=False)

    def latest(self, table: Table) -> VersionFile | None:
        return self._manifest.latest(table)

    def is_only_declared(self, table: Table) -> bool:
        return self._manifest.is_only_declared(table)

    def declare_all(self, tables: Mapping[TableId, Mapping[str, str]]) -> list[Table]:
        """All of them in one commit; a root table costs four requests more, to look and to reserve.

        The directory of a root table decides about its name, so those are reserved first.
        """
        at_root = [table[0] for table in tables if len(table) == 1]
        snapshot = self._manifest.read() if at_root else EMPTY
        placed = [self._declared(table, kept, snapshot) for table, kept in tables.items()]
        here = [table for table in placed if table.has_marker]
        elsewhere = [table for table in placed if not table.has_marker]
        publish = AllOf(tuple(self._to_publish(table) for table in placed))
        if at_root:
            if any(snapshot.get(table.id[0]) for table in elsewhere):
                snapshot = self._manifest.read()  # a stale row was removed
            snapshot = self._manifest.remove_stale_rows(snapshot, at_root)
            publish.apply(Draft(snapshot))  # a refusal has to come before anything is reserved
        self._manifest.require_conditions()
        for table in here:
            self._directory.reserve(table)
        self._manifest.submit(
            publish, self._manifest.reservations(elsewhere) if elsewhere else None
        )
        return placed

    def _declared(
        self, table: TableId, properties: Mapping[str, str], snapshot: ManifestSnapshot
    ) -> Table:
        """A declared root table goes to `<name>.lance`, if nothing was ever there."""
        check_properties(properties)
        location = names.table_directory(table[0])
        row = snapshot.get(table[0])
        elsewhere = row is not None and not row.is_index
        if len(table) > 1 or elsewhere or location in snapshot.taken_directories:
            return self._manifest.place(table, properties)
        state = self._directory.look(table)
        may_be_here = state.can_continue and not snapshot.managed
        if state.is_empty and state.marker.state is State.LIVE and may_be_here:
            return Table(table, location, only_declared=True, properties=dict(properties))
        is_over = state.marker.state in (State.PURGED, State.PURGING, State.MOVED)
        if is_over or (state.is_empty and not state.marker.hides):
            return self._elsewhere(table, properties, row)
        raise already_exists(table, hint=why_hidden(state))

    def _elsewhere(self, table: TableId, properties: Mapping[str, str], index: Row | None) -> Table:
        """A directory of its own. A row of an earlier table at the V1 location is removed."""
        if index is not None:
            self._manifest.submit(RemoveStaleRow(index.identity))
        return self._manifest.place(table, properties)

    def publish(self, table: Table) -> None:
        publish = self._to_publish(table)
        if table.has_marker:
            with suppress(InvalidInputError):  # another process has renamed it already
                self._manifest.submit_at(table.id, publish)
        else:
            self._manifest.submit(publish)
        self._directory.stamp_if_new()

    def _to_publish(self, table: Table) -> Edit:
        return IndexTable(as_row(table)) if table.has_marker else self._manifest.to_add(table)


def _with_properties(table: Table, row: Row | None) -> Table:
    return Table(table.id, table.location, table.only_declared, row.properties if row else {})
