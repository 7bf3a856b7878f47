"""Operations on tables that exist, and how they come to exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import quote

import lance_namespace as api
from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

from tiltyard import names
from tiltyard.catalog.base import CreateMode, RegisterMode
from tiltyard.catalog.migration import Migrated, Migration
from tiltyard.errors import InvalidInputError, TableNotFoundError
from tiltyard.lifecycle.arbiter import Registration
from tiltyard.namespace.requests import choice, operation, properties_of
from tiltyard.namespace.rooms import Rooms
from tiltyard.paging import page
from tiltyard.tables import describe, schema
from tiltyard.tables.ipc import check_schema, read_ipc
from tiltyard.tables.scan import Snapshot

if TYPE_CHECKING:
    import lance

PROBING_THREADS = 16


class TableOperations(Rooms):
    """Listing, describing, declaring, creating, registering and renaming tables."""

    # -- tables: which there are

    @operation("list tables of")
    def list_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """One request to the manifest, one listing of the root, or both, by the mode.

        `include_declared=false` alone looks into each table, many at a time.
        """
        namespace = names.parse_namespace_id(request.id)
        found = self._catalog.list_tables(namespace)
        if request.include_declared is False:
            found = self._without_declared([(*namespace, name) for name in found], found)
        return _page_of(found, request)

    @operation("list all tables")
    def list_all_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        found = self._catalog.list_all_tables()
        if request.include_declared is False:
            found = self._without_declared([names.split_object_id(each) for each in found], found)
        return _page_of(found, request)

    @operation("look for table")
    def table_exists(self, request: api.TableExistsRequest) -> api.TableExistsResponse:
        table = self._catalog.find(names.parse_table_id(request.id))
        if request.version is not None:
            self._open(table, describe.At(request.version))
        return api.TableExistsResponse()

    @operation("describe table")
    def describe_table(self, request: api.DescribeTableRequest) -> api.DescribeTableResponse:
        """What finding the table takes: one request for a table of the manifest, two in directory
        mode, three for a root table in both; with detail, what Lance needs to open the version."""
        at = describe.At(request.version, request.tag, request.branch)
        table = self._catalog.find(names.parse_table_id(request.id))
        uri = self._uri(table)
        answer = api.DescribeTableResponse(
            table=table.id[-1],
            namespace=list(table.id[:-1]),
            location=uri,
            table_uri=_complete(uri) if request.with_table_uri else None,
            storage_options=self._vended(request.vend_credentials),
            properties=properties_of(table),
            managed_versioning=self._tracks_versions(table),
        )
        wants_detail = bool(request.load_detailed_metadata) or at != describe.LATEST
        if request.check_declared or wants_detail:
            answer.is_only_declared = self._catalog.is_only_declared(table)
        if wants_detail and not answer.is_only_declared:
            detail = describe.describe(self._open(table, at))
            answer.version = detail.version
            answer.var_schema = schema.to_json(detail.schema)
            answer.stats = TableBasicStats(
                num_deleted_rows=detail.deleted_rows, num_fragments=detail.fragments
            )
            answer.metadata = {"total_rows": str(detail.rows)}
        elif wants_detail and at != describe.LATEST:
            raise at.missing(table)
        return answer

    @operation("open table")
    def open_table(
        self, id: Sequence[str], *, version: int | None = None, tag: str | None = None
    ) -> lance.LanceDataset:
        """The table as pylance's own dataset, at its latest version or another."""
        table = self._catalog.find(names.parse_table_id(id))
        return self._open(table, describe.At(version, tag))

    @operation("read table")
    def snapshot_table(self, id: Sequence[str], at: describe.At = describe.LATEST) -> Snapshot:
        """One version of a table, fixed, in a form that other processes can open."""
        table = self._catalog.find(names.parse_table_id(id))
        dataset = self._open(table, at)
        return Snapshot(self._uri(table), at.pinned(dataset), dict(self._settings.storage))

    @operation("list the versions of table")
    def table_history(self, id: Sequence[str]) -> list[describe.Version]:
        """Every version of a table that is still there, oldest first."""
        table = self._catalog.find(names.parse_table_id(id))
        shown = {each.version for each in self._versions.visible(table.id)}
        return [each for each in describe.history(self._open(table)) if each.version in shown]

    # -- tables: making and removing

    @operation("declare table")
    def declare_table(self, request: api.DeclareTableRequest) -> api.DeclareTableResponse:
        """Reserve a name without data. V1 three requests, V2 five."""
        return self.declare_tables([request])[0]

    @operation("declare tables")
    def declare_tables(
        self, requests: Sequence[api.DeclareTableRequest]
    ) -> list[api.DeclareTableResponse]:
        """Reserve any number of names; in the manifest in one commit, all of them or none."""
        wanted: dict[names.TableId, Mapping[str, str]] = {}
        for request in requests:
            identifier = names.parse_table_id(request.id)
            if identifier in wanted:
                raise InvalidInputError(f"table {names.display(identifier)} is named twice")
            self._check_own_location(identifier, request.location)
            wanted[identifier] = request.properties or {}
        declared = self._catalog.declare_all(wanted) if wanted else []
        return [
            api.DeclareTableResponse(
                location=self._uri(table),
                storage_options=self._vended(request.vend_credentials),
                properties=properties_of(table),
                managed_versioning=self._tracks_versions(table),
            )
            for table, request in zip(declared, requests, strict=True)
        ]

    def _check_own_location(self, identifier: names.TableId, location: str | None) -> None:
        """Lance's clients may name the location that the catalog would choose, and no other."""
        if location is None:
            return
        wanted = names.relative_location(self._settings.root, location)
        if len(identifier) > 1 or wanted != names.table_directory(identifier[0]):
            raise InvalidInputError(
                f"the location of a table is chosen by the catalog, so it can't be {location!r}",
                hint="leave it out, or write the table and register it",
            )

    @operation("create table")
    def create_table(
        self, request: api.CreateTableRequest, request_data: bytes
    ) -> api.CreateTableResponse:
        """Racing creates of one name have one winner, and the table holds the winner's data."""
        identifier = names.parse_table_id(request.id)
        mode = choice(CreateMode, request.mode, "create mode")
        rows = read_ipc(request_data)
        check_schema(rows.schema)
        self._before_write([identifier])
        created = self._creation.create(identifier, rows, mode, request.properties or {})
        return api.CreateTableResponse(
            location=self._uri(created.table),
            version=created.version,
            storage_options=self._vended(None),
            properties=properties_of(created.table),
        )

    @operation("create an empty table")
    def create_empty_table(self, request: api.CreateTableRequest) -> api.CreateTableResponse:
        """`declare_table`, as older clients call it. It gets its schema with its first rows."""
        if choice(CreateMode, request.mode, "create mode") is not CreateMode.CREATE:
            raise InvalidInputError("a table without data can only be created anew")
        declared = self.declare_table(
            api.DeclareTableRequest(id=request.id, properties=request.properties)
        )
        return api.CreateTableResponse(
            location=declared.location,
            storage_options=declared.storage_options,
            properties=declared.properties,
        )

    @operation("register table")
    def register_table(self, request: api.RegisterTableRequest) -> api.RegisterTableResponse:
        """Give a name to a Lance table that lies inside the root and has none."""
        return self.register_tables([request])[0]

    @operation("register tables")
    def register_tables(
        self, requests: Sequence[api.RegisterTableRequest]
    ) -> list[api.RegisterTableResponse]:
        """Register any number of tables; in the manifest in one commit, all of them or none."""
        wanted = [
            Registration(
                names.parse_table_id(request.id),
                names.relative_location(self._settings.root, request.location),
                choice(RegisterMode, request.mode, "register mode"),
                request.properties or {},
            )
            for request in requests
        ]
        registered = self._lifecycle.register_all(wanted)
        if self._versions.management.is_on:
            self._versions.management.bring_in(registered)
        return [
            api.RegisterTableResponse(location=self._uri(table), properties=properties_of(table))
            for table in registered
        ]

    @operation("deregister table")
    def deregister_table(self, request: api.DeregisterTableRequest) -> api.DeregisterTableResponse:
        """Hide a table and keep its data; `register_table` shows it again."""
        identifier = names.parse_table_id(request.id)
        table = self._lifecycle.deregister(identifier)
        return api.DeregisterTableResponse(
            id=list(identifier), location=self._uri(table), properties=properties_of(table)
        )

    @operation("rename table")
    def rename_table(self, request: api.RenameTableRequest) -> api.RenameTableResponse:
        """Give a table another name, in another namespace too. Its bytes do not move."""
        identifier = names.parse_table_id(request.id)
        namespace = (
            identifier[:-1] if request.new_namespace_id is None else request.new_namespace_id
        )
        target = names.parse_table_id([*namespace, request.new_table_name])
        self._lifecycle.rename(identifier, target)
        return api.RenameTableResponse()

    def migrate(
        self, *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Migrated]:
        """Give every V1 table of the directory a row in the manifest; its bytes do not move.

        Safe to repeat. Afterwards `dir_listing_enabled=false` shows the same tables.
        """
        return self._migration.run(dry_run=dry_run, progress=progress)

    @property
    def migration_units(self) -> Migration:
        """The units of work of which a migration is made, for a job that runs them."""
        return self._migration

    def _without_declared(self, tables: Sequence[names.TableId], shown: Sequence[str]) -> list[str]:
        def has_versions(table: names.TableId) -> bool:
            try:
                return not self._catalog.is_only_declared(self._catalog.find(table))
            except TableNotFoundError:
                return False

        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            return [
                name
                for name, keep in zip(shown, pool.map(has_versions, tables), strict=True)
                if keep
            ]


def _page_of(found: Sequence[str], request: api.ListTablesRequest) -> api.ListTablesResponse:
    chosen, token = page(found, request.page_token, request.limit)
    # Names from the catalog are strings already; validating a hundred thousand again takes longer
    # than finding them.
    return api.ListTablesResponse.model_construct(tables=list(chosen), page_token=token)


def _complete(uri: str) -> str:
    """A table URI has a scheme, also for a path on a local disk."""
    return uri if "://" in uri else f"file://{quote(uri)}"
