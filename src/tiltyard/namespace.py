"""DirectoryNamespace, the front door: a method checks its request, asks a room, shapes the answer.

It is a `lance_namespace.LanceNamespace`, so pylance, lancedb and whatever else speaks that
interface use it as it is. A constructor and a read never write.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import quote

import lance_namespace as api
from lance_namespace_urllib3_client.models.table_basic_stats import TableBasicStats

from tiltyard import names
from tiltyard.catalog.base import Catalog, CreateMode, DropBehaviour, RegisterMode, Table
from tiltyard.catalog.compatible import CompatibleCatalog
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.group import Committer
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.migration import Migrated, Migration
from tiltyard.catalog.pylance import Lance
from tiltyard.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    translate,
)
from tiltyard.lifecycle.creation import Creation
from tiltyard.lifecycle.lives import Lives
from tiltyard.lifecycle.marker_purge import MarkerPurge
from tiltyard.lifecycle.markers import Markers
from tiltyard.lifecycle.purge import Purge, PurgePlan, Receipt, TableProgress
from tiltyard.lifecycle.registration import Registrar, Registration
from tiltyard.lifecycle.revival import Revival
from tiltyard.lifecycle.trash import DropTerms, TableStatus, Trashed
from tiltyard.paging import page
from tiltyard.settings import Settings, duration
from tiltyard.store import Outcome, Retry, open_store
from tiltyard.tables import describe, schema
from tiltyard.tables.files import LanceFiles
from tiltyard.tables.ipc import check_schema, read_ipc
from tiltyard.world import WORLD

if TYPE_CHECKING:
    import lance

P = ParamSpec("P")
T = TypeVar("T")
Choice = TypeVar("Choice", bound=StrEnum)

PROBING_THREADS = 16
DEFAULT_TTL = "default_ttl"

Duration = str | int | float | timedelta | None


class DropMode(StrEnum):
    """What to do if the namespace to drop does not exist."""

    FAIL = "fail"
    SKIP = "skip"


def _says(doing: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Name what a method does; errors of pylance and the store leave it as ours, with that name.

    lancedb hands requests over as dicts; they become the model that the method takes.
    """

    def decorate(method: Callable[P, T]) -> Callable[P, T]:
        kind = getattr(api, method.__annotations__.get("request", "").removeprefix("api."), None)

        @functools.wraps(method)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            if kind is not None and len(args) > 1 and isinstance(args[1], dict):
                given: Any = (args[0], kind.model_validate(args[1]), *args[2:])
                return guarded(*given, **kwargs)
            try:
                return method(*args, **kwargs)
            except (OSError, ValueError, RuntimeError, Outcome) as error:
                namespace, request = args[0], args[1] if len(args) > 1 else None
                identifier = names.display(_id_of(request))
                secrets = namespace._settings.secrets  # type: ignore[attr-defined]
                raise translate(error, f"{doing} {identifier}", secrets) from error

        return guarded

    return decorate


class DirectoryNamespace(api.LanceNamespace):
    """A catalog of Lance tables in one directory, on a disk or in a bucket.

    Properties are those of pylance's own DirectoryNamespace: `root`, `manifest_enabled`,
    `dir_listing_enabled`, `storage.*` and so on, as strings or as Python values.
    """

    def __init__(self, **properties: Any) -> None:
        self._settings = Settings.from_properties(properties)
        self._world = WORLD
        self._store = open_store(self._settings)
        self._lance = Lance(self._settings)
        directory = DirectoryCatalog(self._store, self._world)
        manifest = self._open_manifest() if self._settings.manifest_enabled else None
        self._catalog: Catalog = directory
        if manifest is not None:
            both = self._settings.dir_listing_enabled
            self._catalog = CompatibleCatalog(manifest, directory) if both else manifest
        files = LanceFiles(self._lance, self._store)
        revival = Revival(self._store, self._world, files)
        markers = Markers(self._store, self._world, revival)
        self._registrar = Registrar(
            self._store,
            self._catalog,
            directory,
            manifest,
            markers,
            lists_directories=self._settings.dir_listing_enabled,
        )
        self._lives = Lives(
            self._store,
            self._world,
            self._catalog,
            directory,
            manifest,
            markers,
            self._registrar,
        )
        self._purge = Purge(
            self._store,
            self._world,
            self._lives.bin,
            MarkerPurge(self._store, self._world, revival),
            manifest,
            self._settings.actor,
        )
        self._creation = Creation(
            self._store, self._world, self._catalog, files, revival, markers, Retry()
        )
        self._migration = Migration(self._store, self._world, directory, manifest)

    def _open_manifest(self) -> ManifestCatalog:
        retry = Retry(attempts=self._settings.commit_retries + 1, first_pause=0.01)
        table = ManifestTable(self._store, self._lance, self._settings, retry)
        return ManifestCatalog(self._store, table, Committer(table, retry), self._world)

    def __repr__(self) -> str:
        return self.namespace_id()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._settings.as_properties())

    def namespace_id(self) -> str:
        """Equal for equal settings; never shows a credential."""
        modes = [
            name
            for name, on in (
                ("manifest", self._settings.manifest_enabled),
                ("directory", self._settings.dir_listing_enabled),
            )
            if on
        ]
        root = self._settings.root
        return f'tiltyard.DirectoryNamespace {{ root: "{root}", mode: "{"+".join(modes)}" }}'

    # -- namespaces

    @_says("list namespaces of")
    def list_namespaces(self, request: api.ListNamespacesRequest) -> api.ListNamespacesResponse:
        parent = names.parse_namespace_id(request.id)
        found, token = page(
            self._catalog.list_namespaces(parent), request.page_token, request.limit
        )
        return api.ListNamespacesResponse(namespaces=list(found), page_token=token)

    @_says("describe namespace")
    def describe_namespace(
        self, request: api.DescribeNamespaceRequest
    ) -> api.DescribeNamespaceResponse:
        namespace = names.parse_namespace_id(request.id)
        return api.DescribeNamespaceResponse(
            properties=dict(self._catalog.describe_namespace(namespace))
        )

    @_says("look for namespace")
    def namespace_exists(self, request: api.NamespaceExistsRequest) -> api.NamespaceExistsResponse:
        self._catalog.describe_namespace(names.parse_namespace_id(request.id))
        return api.NamespaceExistsResponse()

    @_says("create namespace")
    def create_namespace(self, request: api.CreateNamespaceRequest) -> api.CreateNamespaceResponse:
        namespace = names.parse_namespace_id(request.id)
        mode = _choice(CreateMode, request.mode, "create mode")
        kept = self._catalog.create_namespace(namespace, mode, request.properties or {})
        return api.CreateNamespaceResponse(properties=dict(kept))

    @_says("drop namespace")
    def drop_namespace(self, request: api.DropNamespaceRequest) -> api.DropNamespaceResponse:
        namespace = names.parse_namespace_id(request.id)
        mode = _choice(DropMode, request.mode, "drop mode")
        behaviour = _choice(DropBehaviour, request.behavior, "drop behavior")
        try:
            properties = self._lives.drop_namespace(namespace, behaviour, self._terms(namespace))
        except NamespaceNotFoundError:
            if mode is DropMode.FAIL:
                raise
            return api.DropNamespaceResponse()
        return api.DropNamespaceResponse(properties=dict(properties))

    # -- tables: which there are

    @_says("list tables of")
    def list_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        """One request to the manifest, one listing of the root, or both, by the mode.

        `include_declared=false` alone looks into each table, many at a time.
        """
        namespace = names.parse_namespace_id(request.id)
        found = self._catalog.list_tables(namespace)
        if request.include_declared is False:
            found = self._without_declared([(*namespace, name) for name in found], found)
        return _tables(found, request)

    @_says("list all tables")
    def list_all_tables(self, request: api.ListTablesRequest) -> api.ListTablesResponse:
        found = self._catalog.list_all_tables()
        if request.include_declared is False:
            found = self._without_declared([names.split_object_id(each) for each in found], found)
        return _tables(found, request)

    @_says("look for table")
    def table_exists(self, request: api.TableExistsRequest) -> api.TableExistsResponse:
        table = self._catalog.find(names.parse_table_id(request.id))
        if request.version is not None:
            describe.open_at(self._lance, table, describe.At(request.version))
        return api.TableExistsResponse()

    @_says("describe table")
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
            properties=_properties(table),
        )
        wants_detail = bool(request.load_detailed_metadata) or at != describe.LATEST
        if request.check_declared or wants_detail:
            answer.is_only_declared = self._catalog.is_only_declared(table)
        if wants_detail and not answer.is_only_declared:
            detail = describe.describe(self._lance, table, at)
            answer.version = detail.version
            answer.var_schema = schema.to_json(detail.schema)
            answer.stats = TableBasicStats(
                num_deleted_rows=detail.deleted_rows, num_fragments=detail.fragments
            )
            answer.metadata = {"total_rows": str(detail.rows)}
        elif wants_detail and at != describe.LATEST:
            raise at.missing(table)
        return answer

    @_says("open table")
    def open_table(
        self, id: Sequence[str], *, version: int | None = None, tag: str | None = None
    ) -> lance.LanceDataset:
        """The table as pylance's own dataset, at its latest version or another."""
        table = self._catalog.find(names.parse_table_id(id))
        return describe.open_at(self._lance, table, describe.At(version, tag))

    # -- tables: making and removing

    @_says("declare table")
    def declare_table(self, request: api.DeclareTableRequest) -> api.DeclareTableResponse:
        """Reserve a name without data. V1 three requests, V2 five."""
        return self.declare_tables([request])[0]

    @_says("declare tables")
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
                properties=_properties(table),
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

    @_says("create table")
    def create_table(
        self, request: api.CreateTableRequest, request_data: bytes
    ) -> api.CreateTableResponse:
        """Racing creates of one name have one winner, and the table holds the winner's data."""
        identifier = names.parse_table_id(request.id)
        mode = _choice(CreateMode, request.mode, "create mode")
        rows = read_ipc(request_data)
        check_schema(rows.schema)
        created = self._creation.create(identifier, rows, mode, request.properties or {})
        return api.CreateTableResponse(
            location=self._uri(created.table),
            version=created.version,
            storage_options=self._vended(None),
            properties=_properties(created.table),
        )

    @_says("register table")
    def register_table(self, request: api.RegisterTableRequest) -> api.RegisterTableResponse:
        """Give a name to a Lance table that lies inside the root and has none."""
        return self.register_tables([request])[0]

    @_says("register tables")
    def register_tables(
        self, requests: Sequence[api.RegisterTableRequest]
    ) -> list[api.RegisterTableResponse]:
        """Register any number of tables; in the manifest in one commit, all of them or none."""
        wanted = [
            Registration(
                names.parse_table_id(request.id),
                names.relative_location(self._settings.root, request.location),
                _choice(RegisterMode, request.mode, "register mode"),
                request.properties or {},
            )
            for request in requests
        ]
        return [
            api.RegisterTableResponse(location=self._uri(table), properties=_properties(table))
            for table in self._registrar.register_all(wanted)
        ]

    @_says("deregister table")
    def deregister_table(self, request: api.DeregisterTableRequest) -> api.DeregisterTableResponse:
        """Hide a table and keep its data; `register_table` shows it again."""
        identifier = names.parse_table_id(request.id)
        table = self._registrar.deregister(identifier)
        return api.DeregisterTableResponse(
            id=list(identifier), location=self._uri(table), properties=_properties(table)
        )

    @_says("drop table")
    def drop_table(
        self, request: api.DropTableRequest, *, ttl: Duration = None, reason: str | None = None
    ) -> api.DropTableResponse:
        """Put a table into the trash: small writes only, whatever its size; its data stays.

        `ttl` is how long it can be brought back ("7d", seconds, a timedelta, "never"); without it
        the namespace's property `default_ttl` counts, and then the catalog's.
        """
        identifier = names.parse_table_id(request.id)
        terms = self._terms(identifier[:-1], ttl, reason)
        return self._dropped(self._lives.drop(identifier, terms))

    @_says("drop tables")
    def drop_tables(
        self,
        requests: Sequence[api.DropTableRequest],
        *,
        ttl: Duration = None,
        reason: str | None = None,
    ) -> list[api.DropTableResponse]:
        """Drop any number of tables; their rows go in one commit, all of them or none."""
        identifiers = [names.parse_table_id(request.id) for request in requests]
        if len(set(identifiers)) < len(identifiers):
            raise InvalidInputError("a table is named twice")
        terms = self._terms(identifiers[0][:-1] if identifiers else (), ttl, reason)
        return [self._dropped(table) for table in self._lives.drop_all(identifiers, terms)]

    def _dropped(self, table: Table) -> api.DropTableResponse:
        return api.DropTableResponse(
            id=list(table.id), location=self._uri(table), properties=_properties(table)
        )

    @_says("rename table")
    def rename_table(self, request: api.RenameTableRequest) -> api.RenameTableResponse:
        """Give a table another name, in another namespace too. Its bytes do not move."""
        identifier = names.parse_table_id(request.id)
        namespace = (
            identifier[:-1] if request.new_namespace_id is None else request.new_namespace_id
        )
        target = names.parse_table_id([*namespace, request.new_table_name])
        self._registrar.rename(identifier, target)
        return api.RenameTableResponse()

    # -- the trash

    @_says("undrop table")
    def undrop_table(
        self,
        id: Sequence[str],
        *,
        generation: str | None = None,
        as_id: Sequence[str] | None = None,
        keep_newer: bool = False,
    ) -> api.RegisterTableResponse:
        """Bring a dropped table back, the one dropped last or a given generation of it.

        `as_id` gives it another name without copying a byte; `keep_newer` accepts what somebody
        wrote to it after it was dropped.
        """
        table = self._lives.undrop(
            names.parse_table_id(id),
            generation=generation,
            target=None if as_id is None else names.parse_table_id(as_id),
            keep_newer=keep_newer,
        )
        return api.RegisterTableResponse(location=self._uri(table), properties=_properties(table))

    @_says("tell the status of table")
    def table_status(self, id: Sequence[str]) -> TableStatus:
        """Whether a table exists, is in the trash, or is not found (purged, or never was)."""
        return self._lives.status(names.parse_table_id(id))

    @_says("list the trash of")
    def list_trash(self, *, with_bytes: bool = False) -> list[Trashed]:
        """Every dropped table, oldest drop first. Its size costs a listing of each."""
        return self._lives.bin.everything(with_bytes=with_bytes)

    @_says("list what can be purged from")
    def list_purgable_tables(self, deleted_before: datetime | None = None) -> list[Trashed]:
        """Dropped tables that are not held and whose time has run out.

        With a cutoff, those dropped before it instead, whatever their own time.
        """
        return self._purge.purgable(_aware(deleted_before))

    @_says("purge table")
    def purge_table(self, id: Sequence[str], *, generation: str | None = None) -> Receipt:
        """Delete a dropped table for good, whether or not its time has come."""
        self._store.require_conditions()
        dropped = self._lives.bin.find(names.parse_table_id(id), generation)
        return self._purge.purge(dropped)

    @_says("purge tables of")
    def purge_tables(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        *,
        dry_run: bool = False,
        progress: TableProgress | None = None,
    ) -> list[Receipt]:
        """Delete everything whose time has come, or exactly the given dropped tables."""
        plan = self.plan_purge(ids)
        return self._purge.as_planned(plan) if dry_run else self.apply_purge(plan, progress)

    @_says("plan a purge of")
    def plan_purge(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        *,
        deleted_before: datetime | None = None,
    ) -> PurgePlan:
        """What a purge would delete, bound to the very drops that are in the trash now."""
        tables = None if ids is None else [names.parse_table_id(each) for each in ids]
        return self._purge.plan(tables, _aware(deleted_before))

    @_says("apply a purge to")
    def apply_purge(self, plan: PurgePlan, progress: TableProgress | None = None) -> list[Receipt]:
        """Purge what was planned; whatever moved since is skipped, and its receipt says so."""
        self._store.require_conditions()
        return self._purge.apply(plan, progress)

    @_says("hold table")
    def hold_table(self, id: Sequence[str], *, generation: str | None = None) -> Trashed:
        """Keep a dropped table from being purged until it is released."""
        return self._lives.hold(names.parse_table_id(id), True, generation)

    @_says("release table")
    def release_table(self, id: Sequence[str], *, generation: str | None = None) -> Trashed:
        """Let a held table go again, when its time has come."""
        return self._lives.hold(names.parse_table_id(id), False, generation)

    @_says("protect table")
    def protect_table(self, id: Sequence[str]) -> None:
        """Keep a table from being dropped until it is unprotected."""
        self._lives.protect(names.parse_table_id(id), True)

    @_says("unprotect table")
    def unprotect_table(self, id: Sequence[str]) -> None:
        """Allow a protected table to be dropped."""
        self._lives.protect(names.parse_table_id(id), False)

    def _terms(
        self, namespace: names.NamespaceId, ttl: Duration = None, reason: str | None = None
    ) -> DropTerms:
        """The terms of a drop: what the caller says, else the namespace, else the catalog."""
        seconds = self._default_ttl(namespace) if ttl is None else duration(ttl)
        ttl_ms = None if seconds is None else round(seconds * 1000)
        return DropTerms(ttl_ms, self._settings.actor, reason)

    def _default_ttl(self, namespace: names.NamespaceId) -> float | None:
        """The nearest namespace upwards that has the property `default_ttl`."""
        while self._settings.manifest_enabled and namespace:
            kept = self._catalog.describe_namespace(namespace).get(DEFAULT_TTL)
            if kept is not None:
                return duration(kept, DEFAULT_TTL)
            namespace = namespace[:-1]
        return self._settings.default_ttl

    def migrate(
        self, *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Migrated]:
        """Give every V1 table of the directory a row in the manifest; its bytes do not move.

        Safe to repeat. Afterwards `dir_listing_enabled=false` shows the same tables.
        """
        return self._migration.run(dry_run=dry_run, progress=progress)

    # -- shaping

    def _uri(self, table: Table) -> str:
        return self._lance.uri(table.location)

    def _vended(self, wanted: bool | None) -> dict[str, str] | None:
        """The caller's own storage options, if the catalog was opened to hand them out."""
        if not self._settings.vend_input_storage_options or wanted is False:
            return None
        options = dict(self._settings.storage)
        interval = self._settings.vend_input_storage_options_refresh_interval_millis
        if interval is not None:
            options["expires_at_millis"] = str(self._world.now_ms() + interval)
        return options

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


def connect(root: str | os.PathLike[str], **properties: Any) -> DirectoryNamespace:
    """Open the catalog in a directory: a path, or a URI like s3://bucket/prefix.

    Properties with a dot in their name go in as a mapping: `**{"storage.region": "eu-west-1"}`.
    """
    return DirectoryNamespace(root=root, **properties)


def _reopen(kind: type[DirectoryNamespace], properties: dict[str, str]) -> DirectoryNamespace:
    return kind(**properties)


def _tables(found: Sequence[str], request: api.ListTablesRequest) -> api.ListTablesResponse:
    chosen, token = page(found, request.page_token, request.limit)
    # Names from the catalog are strings already; validating a hundred thousand again takes longer
    # than finding them.
    return api.ListTablesResponse.model_construct(tables=list(chosen), page_token=token)


def _aware(when: datetime | None) -> datetime | None:
    """A time without a zone is meant in the caller's own."""
    return None if when is None else when.astimezone(UTC)


def _id_of(request: Any) -> Sequence[str]:
    """Whatever a method was called with, as far as it names something."""
    identifier = request if isinstance(request, list | tuple) else getattr(request, "id", None)
    return [part for part in identifier or () if isinstance(part, str)]


def _properties(table: Table) -> dict[str, str] | None:
    return None if table.properties is None else dict(table.properties)


def _complete(uri: str) -> str:
    """A table URI has a scheme, also for a path on a local disk."""
    return uri if "://" in uri else f"file://{quote(uri)}"


def _choice(kind: type[Choice], text: str | None, what: str) -> Choice:
    """A mode in PascalCase or snake_case, any case; the first member is the default."""
    members = list(kind)
    if text is None:
        return members[0]
    wanted = text.replace("_", "").lower()
    for member in members:
        if member.value.replace("_", "") == wanted:
            return member
    known = ", ".join(member.value for member in members)
    raise InvalidInputError(f"unknown {what} {text!r}", hint=f"one of {known}")
