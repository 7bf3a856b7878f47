"""Operations on namespaces, on tables that exist, and how tables come to exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING
from urllib.parse import quote

import lance_namespace as api
from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

from tiltyard.catalog import names
from tiltyard.catalog.base import CreateMode, DropBehaviour, RegisterMode, Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from tiltyard.lifecycle.arbiter import Registration
from tiltyard.namespace.base import CatalogBase, choice, operation, properties_of
from tiltyard.namespace.services import Services
from tiltyard.namespace.trash import drop_terms
from tiltyard.paging import page
from tiltyard.tables import describe, schema
from tiltyard.tables.ipc import check_schema, read_ipc

if TYPE_CHECKING:
    import lance

PROBING_THREADS = 16


class DropMode(StrEnum):
    """What to do if the namespace to drop does not exist."""

    FAIL = "fail"
    SKIP = "skip"


class TableOperations(CatalogBase):
    """Namespaces and their properties; listing, describing, creating and renaming tables."""

    # -- namespaces

    @operation("list namespaces of")
    def list_namespaces(self, request: api.ListNamespacesRequest) -> api.ListNamespacesResponse:
        """The names of the namespaces directly inside one, sorted. One request."""
        parent = names.parse_namespace_id(request.id)
        chosen, token = page(
            self.context.catalog.list_namespaces(parent), request.page_token, request.limit
        )
        return api.ListNamespacesResponse(namespaces=list(chosen), page_token=token)

    @operation("describe namespace")
    def describe_namespace(
        self, request: api.DescribeNamespaceRequest
    ) -> api.DescribeNamespaceResponse:
        """The properties of a namespace. One request. NamespaceNotFoundError."""
        namespace = names.parse_namespace_id(request.id)
        return api.DescribeNamespaceResponse(
            properties=dict(self.context.catalog.describe_namespace(namespace))
        )

    @operation("look for namespace")
    def namespace_exists(self, request: api.NamespaceExistsRequest) -> api.NamespaceExistsResponse:
        """One request. NamespaceNotFoundError."""
        self.context.catalog.describe_namespace(names.parse_namespace_id(request.id))
        return api.NamespaceExistsResponse()

    @operation("create namespace")
    def create_namespace(self, request: api.CreateNamespaceRequest) -> api.CreateNamespaceResponse:
        """Create a namespace. One request to look, and one commit of the manifest."""
        namespace = names.parse_namespace_id(request.id)
        mode = choice(CreateMode, request.mode, "create mode")
        kept = self.context.catalog.create_namespace(namespace, mode, request.properties or {})
        return api.CreateNamespaceResponse(properties=dict(kept))

    @operation("drop namespace")
    def drop_namespace(self, request: api.DropNamespaceRequest) -> api.DropNamespaceResponse:
        """Drop a namespace; with `behavior=cascade` its tables go into the trash.

        NamespaceNotEmptyError if it has tables and the behavior is `restrict`.
        """
        namespace = names.parse_namespace_id(request.id)
        mode = choice(DropMode, request.mode, "drop mode")
        behaviour = choice(DropBehaviour, request.behavior, "drop behavior")
        try:
            properties = self.services.lifecycle.drop_namespace(
                namespace, behaviour, drop_terms(self.context)
            )
        except NamespaceNotFoundError:
            if mode is DropMode.FAIL:
                raise
            return api.DropNamespaceResponse()
        return api.DropNamespaceResponse(properties=dict(properties))

    # -- tables: which there are

    @operation("list tables of")
    def list_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """One request to the manifest, one listing of the root, or both, by the mode.

        `include_declared=false` alone looks into each table, many at a time.
        """
        namespace = names.parse_namespace_id(request.id)
        tables = self.context.catalog.list_tables(namespace)
        if request.include_declared is False:
            tables = self._without_declared([(*namespace, name) for name in tables], tables)
        return _page_of(tables, request)

    @operation("list all tables")
    def list_all_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """The ids of the tables of all namespaces. Costs what `list_tables` does."""
        tables = self.context.catalog.list_all_tables()
        if request.include_declared is False:
            tables = self._without_declared(list(map(names.split_object_id, tables)), tables)
        return _page_of(tables, request)

    @operation("look for table")
    def table_exists(self, request: api.TableExistsRequest) -> api.TableExistsResponse:
        """What finding the table takes. TableNotFoundError, TableVersionNotFoundError."""
        table = self.services.access.find(request.id)
        if request.version is not None:
            self.services.access.open(table, describe.At(request.version))
        return api.TableExistsResponse()

    @operation("describe table")
    def describe_table(self, request: api.DescribeTableRequest) -> api.DescribeTableResponse:
        """What finding the table takes: one request for a table of the manifest, two in directory
        mode, three for a root table in both; with detail, what Lance needs to open the version."""
        identifier = names.parse_table_id(request.id)
        at = describe.At(request.version, request.tag, request.branch)
        table = self.context.catalog.find(identifier)
        uri = self.services.access.uri(table)
        answer = api.DescribeTableResponse(
            table=table.id[-1],
            namespace=list(table.id[:-1]),
            location=uri,
            table_uri=_complete(uri) if request.with_table_uri else None,
            storage_options=_vended(self.context, request.vend_credentials),
            properties=properties_of(table),
            managed_versioning=_tracks_versions(self.context, table),
        )
        wants_detail = bool(request.load_detailed_metadata) or at != describe.LATEST
        if request.check_declared or wants_detail:
            answer.is_only_declared = self.context.catalog.is_only_declared(table)
        if wants_detail and not answer.is_only_declared:
            detail = describe.describe(self.services.access.open(table, at))
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
        table = self.services.access.find(id)
        return self.services.access.open(table, describe.At(version, tag))

    # -- tables: making and removing

    @operation("declare table")
    def declare_table(self, request: api.DeclareTableRequest) -> api.DeclareTableResponse:
        """Reserve a name without data. V1 three requests, V2 five."""
        return self.declare_tables([request])[0]

    def declare_tables(
        self, requests: Sequence[api.DeclareTableRequest]
    ) -> list[api.DeclareTableResponse]:
        """Reserve any number of names; in the manifest in one commit, all of them or none."""
        return declare(self.services, requests)

    @operation("create table")
    def create_table(
        self, request: api.CreateTableRequest, request_data: bytes
    ) -> api.CreateTableResponse:
        """Racing creates of one name have one winner, and the table holds the winner's data."""
        identifier = names.parse_table_id(request.id)
        mode = choice(CreateMode, request.mode, "create mode")
        rows = read_ipc(request_data)
        check_schema(rows.schema)
        self.services.access.before_write([identifier])
        created = self.services.creation.create(identifier, rows, mode, request.properties or {})
        return api.CreateTableResponse(
            location=self.services.access.uri(created.table),
            version=created.version,
            storage_options=_vended(self.context, None),
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
                names.relative_location(self.context.settings.root, request.location),
                choice(RegisterMode, request.mode, "register mode"),
                request.properties or {},
            )
            for request in requests
        ]
        registered = self.services.lifecycle.register_all(wanted)
        if self.services.versions.management.is_on:
            self.services.versions.management.manage(registered)
        return [
            api.RegisterTableResponse(
                location=self.services.access.uri(table), properties=properties_of(table)
            )
            for table in registered
        ]

    @operation("deregister table")
    def deregister_table(self, request: api.DeregisterTableRequest) -> api.DeregisterTableResponse:
        """Hide a table and keep its data; `register_table` shows it again."""
        identifier = names.parse_table_id(request.id)
        table = self.services.lifecycle.deregister(identifier)
        return api.DeregisterTableResponse(
            id=list(identifier),
            location=self.services.access.uri(table),
            properties=properties_of(table),
        )

    @operation("rename table")
    def rename_table(self, request: api.RenameTableRequest) -> api.RenameTableResponse:
        """Give a table another name, in another namespace too. Its bytes do not move."""
        identifier = names.parse_table_id(request.id)
        namespace = (
            identifier[:-1] if request.new_namespace_id is None else request.new_namespace_id
        )
        target = names.parse_table_id([*namespace, request.new_table_name])
        self.services.lifecycle.rename(identifier, target)
        return api.RenameTableResponse()

    def _without_declared(self, tables: Sequence[names.TableId], shown: Sequence[str]) -> list[str]:
        def has_versions(table: names.TableId) -> bool:
            try:
                return not self.context.catalog.is_only_declared(self.context.catalog.find(table))
            except TableNotFoundError:
                return False

        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            return [
                name
                for name, keep in zip(shown, pool.map(has_versions, tables), strict=True)
                if keep
            ]


@operation("declare tables")
def declare(
    services: Services, requests: Sequence[api.DeclareTableRequest]
) -> list[api.DeclareTableResponse]:
    """Reserve names without data; in the manifest in one commit, all of them or none."""
    context = services.context
    wanted: dict[names.TableId, Mapping[str, str]] = {}
    for request in requests:
        identifier = names.parse_table_id(request.id)
        if identifier in wanted:
            raise InvalidInputError(f"table {names.display(identifier)} is named twice")
        _check_own_location(context, identifier, request.location)
        wanted[identifier] = request.properties or {}
    declared = context.catalog.declare_all(wanted) if wanted else []
    return [
        api.DeclareTableResponse(
            location=services.access.uri(table),
            storage_options=_vended(context, request.vend_credentials),
            properties=properties_of(table),
            managed_versioning=_tracks_versions(context, table),
        )
        for table, request in zip(declared, requests, strict=True)
    ]


def _check_own_location(
    context: CatalogContext, identifier: names.TableId, location: str | None
) -> None:
    """Lance's clients may name the location that the catalog would choose, and no other."""
    if location is None:
        return
    wanted = names.relative_location(context.settings.root, location)
    if len(identifier) > 1 or wanted != names.table_directory(identifier[0]):
        raise InvalidInputError(
            f"the location of a table is chosen by the catalog, so it can't be {location!r}",
            hint="leave it out, or write the table and register it",
        )


def _tracks_versions(context: CatalogContext, table: Table) -> bool | None:
    """Whether Lance is to publish every commit through the catalog."""
    return context.settings.table_version_tracking_enabled or table.managed or None


def _vended(context: CatalogContext, wanted: bool | None) -> dict[str, str] | None:
    """The caller's own storage options, if the catalog was opened to hand them out."""
    settings = context.settings
    if not settings.vend_input_storage_options or wanted is False:
        return None
    options = dict(settings.storage)
    interval = settings.vend_input_storage_options_refresh_interval_millis
    if interval is not None:
        options["expires_at_millis"] = str(context.clock.now_ms() + interval)
    return options


def _page_of(tables: Sequence[str], request: api.ListTablesRequest) -> api.ListTablesResponse:
    chosen, token = page(tables, request.page_token, request.limit)
    # Names from the catalog are strings already; validating a hundred thousand again takes longer
    # than finding them.
    return api.ListTablesResponse.model_construct(tables=list(chosen), page_token=token)


def _complete(uri: str) -> str:
    """A table URI has a scheme, also for a path on a local disk."""
    return uri if "://" in uri else f"file://{quote(uri)}"
