"""The V2 catalog: nested namespaces and tables as rows of `__manifest`.

Reads come from a snapshot in memory that one request proves fresh. Writes are edits, committed in
groups. A row at a V1 location is only an index of its table: the marker there decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.base import (
    CreateMode,
    CreateTarget,
    DropBehaviour,
    Table,
    already_exists,
    in_the_trash,
    no_such_namespace,
    no_such_table,
)
from tiltyard.catalog.manifest.committer import Committer, Then
from tiltyard.catalog.manifest.draft import Change, taken
from tiltyard.catalog.manifest.edits import (
    AddTable,
    AllOf,
    CreateNamespace,
    DropNamespace,
    Edit,
    RemoveStaleRow,
)
from tiltyard.catalog.manifest.rows import (
    ARRIVING,
    DELETED,
    DELETED_AT,
    MANAGED,
    MOVED,
    OURS,
    STATE,
    TABLE,
    TTL,
    VERSIONS,
    Row,
    check_properties,
)
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.manifest.table import (
    MANAGEMENT,
    ManifestTable,
    NoManifestTable,
)
from tiltyard.catalog.marker import Marker
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    TableAlreadyExistsError,
    TiltyardError,
)
from tiltyard.store import Store

# Keys of the manifest table's own metadata that are not properties of the root.
_NOT_PROPERTIES = (OURS, "lance.", MANAGEMENT)


class ManifestCatalog:
    """Every name is a row. Tables get a directory of their own, never used again."""

    def __init__(
        self,
        store: Store,
        table: ManifestTable,
        committer: Committer,
        clock: Clock,
    ) -> None:
        self._store = store
        self.table = table
        self.committer = committer
        self._clock = clock

    @property
    def is_enabled(self) -> bool:
        """False in directory mode: then there is no row, and a commit that adds one is refused."""
        return not isinstance(self.table, NoManifestTable)

    # -- namespaces

    def create_namespace(
        self, namespace: NamespaceId, mode: CreateMode, properties: Mapping[str, str]
    ) -> Mapping[str, str]:
        """One request to look, three to commit."""
        check_properties(properties)
        if not namespace:
            return self._create_root(mode, properties)
        edit = CreateNamespace(namespace, mode, self._clock.now_ms(), dict(properties))
        return dict(self.submit(edit).answer.properties)

    def _create_root(self, mode: CreateMode, properties: Mapping[str, str]) -> Mapping[str, str]:
        """The root always exists; overwriting it replaces its properties and nothing else."""
        if mode is CreateMode.CREATE:
            raise NamespaceAlreadyExistsError("the root namespace always exists")
        if mode is CreateMode.OVERWRITE:
            for key in properties:
                if key.startswith(_NOT_PROPERTIES):
                    raise InvalidInputError(f"property {key!r} is reserved at the root")
            self.require_conditions()
            if not self.table.exists():
                self.table.create()
            self.table.read_for_writing()  # refuses a catalog that we must not write to
            kept = self.describe_namespace(names.ROOT)
            self.table.update_metadata({**dict.fromkeys(kept), **properties})
        return self.describe_namespace(names.ROOT)

    def describe_namespace(self, namespace: NamespaceId) -> Mapping[str, str]:
        """One request."""
        if not namespace:
            every = self.table.metadata()
            return {k: v for k, v in every.items() if not k.startswith(_NOT_PROPERTIES)}
        row = self.read().get(names.object_id(namespace))
        if row is None or row.is_table:
            raise no_such_namespace(namespace)
        return row.properties

    def known_properties(self, namespace: NamespaceId) -> Mapping[str, str]:
        """The properties of a namespace as they were read last. No request."""
        snapshot, metadata = self.table.last_read()
        if not namespace:
            return metadata
        row = snapshot.get(names.object_id(namespace))
        return {} if row is None else row.properties

    def drop_namespace(self, namespace: NamespaceId, behaviour: DropBehaviour) -> Mapping[str, str]:
        """One request to look, three to commit."""
        if not namespace:
            raise InvalidInputError("the root namespace can't be dropped")
        return dict(self.submit(DropNamespace(namespace, behaviour)).answer.properties)

    def list_namespaces(self, parent: NamespaceId) -> Sequence[str]:
        """One request."""
        return self.read_with(parent).children(parent).namespaces

    # -- tables

    def list_tables(self, namespace: NamespaceId) -> Sequence[str]:
        """One request; at the root one listing more, if there are tables at V1 locations."""
        snapshot = self.read_with(namespace)
        tables = snapshot.children(namespace).tables
        return tables if namespace else self._still_visible(snapshot, tables)

    def list_all_tables(self) -> Sequence[str]:
        """One request, and one listing more if there are tables at V1 locations."""
        snapshot = self.read()
        return self._still_visible(snapshot, snapshot.table_ids)

    def _still_visible(self, snapshot: Snapshot, tables: Sequence[str]) -> Sequence[str]:
        """Less the rows whose V1 directory is gone or hidden: those only index it."""
        indexed = snapshot.v1_root_tables
        if not indexed:
            return tables
        listing = self._store.list()
        hidden, directories = marker.hidden_tables(listing), set(listing.directories)
        stale = {
            name
            for name in indexed
            if name in hidden or names.table_directory(name) not in directories
        }
        return [name for name in tables if name not in stale] if stale else tables

    def find(self, table: TableId) -> Table:
        """One request; two for a table at a V1 location."""
        snapshot = self.read()
        present = self.find_in(snapshot, table)
        if present is None:
            raise self.missing(snapshot, table)
        return present

    def missing(self, snapshot: Snapshot, table: TableId) -> TiltyardError:
        """Why a table is not found, and where it is if it was dropped."""
        trashed = snapshot.last_trashed(names.object_id(table))
        if trashed is not None and trashed.metadata.get(STATE) == DELETED:
            ttl = trashed.metadata.get(TTL)
            hint = in_the_trash(int(trashed.metadata[DELETED_AT]), int(ttl) if ttl else None)
            return no_such_table(table, hint=hint)
        if not self._has_namespace(snapshot, table[:-1]):
            return no_such_namespace(table[:-1])
        return no_such_table(table)

    def find_in(self, snapshot: Snapshot, table: TableId) -> Table | None:
        """The table of a row that can be trusted. One request for one at a V1 location."""
        row = snapshot.get(names.object_id(table))
        if row is None or not row.is_table or row.location is None or not self.is_trusted(row):
            return None
        present = as_table(row)
        if row.metadata.get(VERSIONS) != MANAGED:
            return present
        return replace(present, only_declared=not snapshot.head(row.object_id))

    def holder(self, table: TableId) -> Table | None:
        """One request; two for a table at a V1 location."""
        snapshot = self.read()
        self.check_namespace(snapshot, table[:-1])
        row = snapshot.get(names.object_id(table))
        if row is None:
            return None
        if not row.is_table:
            raise taken(row)
        present = self._marker_over(row)
        if present is None or _counts(row, present):
            return as_table(row)
        if MOVED not in row.metadata and present.is_underway:
            raise already_exists(table, hint=marker.why_hidden(present))
        # A row that a rename which was undone has left, or a drop that a crash cut off.
        self.submit(RemoveStaleRow(row.identity))
        return None

    def create_target(self, table: TableId, properties: Mapping[str, str]) -> CreateTarget:
        """One request; two for a table at a V1 location."""
        existing = self.holder(table)
        return CreateTarget(existing or self.place(table, properties), exists=existing is not None)

    def is_only_declared(self, table: Table) -> bool:
        """One request, if finding the table did not show it."""
        if table.only_declared is not None:
            return table.only_declared
        if table.managed:
            return self.latest(table) is None
        return names.VERSIONS_DIRECTORY not in self._store.list(table.location).directories

    def latest(self, table: Table) -> VersionFile | None:
        """No request for a table whose versions are rows, one for another."""
        row = self.known().get(names.object_id(table.id)) if table.managed else None
        if row is None or row.metadata.get(VERSIONS) != MANAGED:
            return version_files.latest(self._store, table.location)
        snapshot = self.table.known()
        head = snapshot.version_row(row.object_id, snapshot.head(row.object_id))
        return None if head is None else head.file

    def table_at(self, location: str) -> Table | None:
        """The table that has a location now. One request."""
        snapshot = self.read()
        directory = names.top_directory(location)
        owners = [*names.natural_owners(directory), *snapshot.unusual_owners(directory)]
        rows = (snapshot.get(owner) for owner in owners if not owner.startswith(names.TRASH))
        live = (row for row in rows if row is not None and row.is_table)
        return next((as_table(row) for row in live if row.location == location), None)

    def is_trusted(self, row: Row) -> bool:
        """A row at a V1 location counts as far as the marker there agrees. One request for such."""
        present = self._marker_over(row)
        return present is None or _counts(row, present)

    def _marker_over(self, row: Row) -> Marker | None:
        name = names.root_table_at(row.location or "", row.id)
        return None if name is None else marker.read(self._store, name)

    def remove_stale_rows(self, snapshot: Snapshot, tables: Iterable[str]) -> Snapshot:
        """Remove rows of renames that were undone, at the V1 locations of these root tables.

        The answer is a snapshot without them. No request, unless there are rows of renamed tables.
        """
        stale = [row for name in tables for row in self._stale_rows(snapshot, name)]
        if not stale:
            return snapshot
        self.submit(AllOf(tuple(RemoveStaleRow(row.identity) for row in stale)))
        return self.read()

    def _stale_rows(self, snapshot: Snapshot, name: str) -> list[Row]:
        """Rows are read before the marker, so one whose nonce the marker does not have is stale."""
        rows = snapshot.rows_at(names.table_directory(name))
        moved = [row for row in rows if MOVED in row.metadata and row.object_id != name]
        if not moved:
            return []
        present = marker.read(self._store, name)
        return [
            row for row in moved if not present.handed_to(row) and present.buried != row.object_id
        ]

    def declare_all(self, tables: Mapping[TableId, Mapping[str, str]]) -> list[Table]:
        """All of them in one commit, or none: one request to look, three to commit, one a table.

        The rows come first, so that the loser of a race has written nothing.
        """
        placed = [self.place(table, properties) for table, properties in tables.items()]
        publish = AllOf(tuple(self.to_add(table, ()) for table in placed))
        reservations = self.reservations(placed)
        try:
            self.submit(publish, reservations)
        except TableAlreadyExistsError:  # maybe of a stale row, which `holder` removes
            if any(self.holder(table) is not None for table in tables):
                raise
            self.submit(publish, reservations)
        return placed

    def reservations(self, tables: Sequence[Table]) -> Then:
        """Put an object into each directory after the commit: for people, and for old clients."""
        bodies = {
            f"{table.location}/{names.RESERVATION}": marker.reservation_body(self._clock)
            for table in tables
        }
        return Then(self._put_all, bodies)

    def _put_all(self, committed: Sequence[tuple[Mapping[str, bytes], Any]]) -> Sequence[Any]:
        self._store.put_many({key: body for bodies, _ in committed for key, body in bodies.items()})
        return [answer for _, answer in committed]

    def place(self, table: TableId, properties: Mapping[str, str]) -> Table:
        """A new table in a directory that nothing was ever in. No request."""
        check_properties(properties)
        location = names.hashed_directory(table, self._clock.token(8))
        kept, managed = dict(properties), self.table.known().managed
        return Table(table, location, only_declared=True, properties=kept, managed=managed)

    def publish(self, table: Table) -> None:
        """One request to look, three to commit; one for the versions, if they are to be rows."""
        self.submit(self.to_add(table))

    def to_add(self, table: Table, files: Sequence[VersionFile] | None = None) -> Edit:
        """The edit that adds a table in a directory of its own, with the versions that are there.

        One request for the versions, if they are to be rows and `files` does not name them.
        """
        if not table.managed:
            return AddTable(as_row(table))
        if files is None:
            files = version_files.every(self._store, table.location)
        return AddTable(as_row(table), tuple(files))

    # -- rows and commits, for the services

    def read(self) -> Snapshot:
        """The newest rows. One request."""
        return self.table.read()

    def read_with(self, namespace: NamespaceId) -> Snapshot:
        """The newest rows, with this namespace among them. One request."""
        snapshot = self.read()
        self.check_namespace(snapshot, namespace)
        return snapshot

    def check_namespace(self, snapshot: Snapshot, namespace: NamespaceId) -> None:
        if not self._has_namespace(snapshot, namespace):
            raise no_such_namespace(namespace)

    def _has_namespace(self, snapshot: Snapshot, namespace: NamespaceId) -> bool:
        row = snapshot.get(names.object_id(namespace)) if namespace else None
        return not namespace or (row is not None and not row.is_table)

    def known(self) -> Snapshot:
        """The rows as they were read last. No request."""
        return self.table.known()

    def known_row(self, table: TableId) -> Row | None:
        """The row of a table as it was read last. No request."""
        return self.table.last_read()[0].get(names.object_id(table))

    def manage_versions(self) -> None:
        """Note that versions of tables are to be rows. No request if that is known."""
        self.require_conditions()
        if not self.table.exists():
            self.table.create()
        if not self.table.read_for_writing().managed:
            self.table.manage_versions()

    def submit_at(self, tables: Sequence[str], edit: Edit) -> Change:
        """Commit rows of root tables at V1 locations, after stale rows of them are removed."""
        try:
            return self.submit(edit)
        except InvalidInputError:
            self.remove_stale_rows(self.read(), tables)
            return self.submit(edit)

    def submit(self, edit: Edit, then: Then | None = None) -> Change:
        """Commit an edit, and do `then` what follows. One request to read, three to commit."""
        self.require_conditions()
        return self.committer.submit(edit, then)

    def require_conditions(self) -> None:
        self._store.require_conditions()


def _counts(row: Row, present: Marker) -> bool:
    """Whether a marker agrees with a row at its location."""
    if present.handed_to(row):
        return True
    has_v1_name = row.location == names.table_directory(row.object_id)
    # A table that is being renamed back has the nonce of its rename until that is finished.
    return not present.hides and (has_v1_name or MOVED not in row.metadata)


def as_table(row: Row) -> Table:
    assert row.location is not None
    return Table(
        row.id,
        row.location,
        properties=row.properties,
        managed=row.is_managed,
        becoming_managed=row.metadata.get(VERSIONS) == ARRIVING,
    )


def as_row(table: Table, **metadata: str) -> Row:
    kept = {**(table.properties or {}), **metadata}
    return Row(names.object_id(table.id), TABLE, table.location, kept)
