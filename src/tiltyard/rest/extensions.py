"""The operations that tiltyard adds under /tiltyard/v1: the trash, maintenance and health.

A row names a method of the catalog, like `undrop_table` or `health.recover`, and can have a
function of this module that is called instead. The parameters and the return type of that function
define the request and the response.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

import lance_namespace as api
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model

from tiltyard.access import Role
from tiltyard.errors import InvalidInputError, first_problem
from tiltyard.lifecycle.purge import PurgePlan, Receipt
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.orphan_candidates import Orphan
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest.audit import Event
from tiltyard.rest.routing import Body, Operation, ParsedRequest, PreparedCall, RequestContext

Duration = str | int | float
Id = Sequence[str]

# Parameters for callers in the same process, which a request can't have.
_IN_PROCESS = ("progress",)
# Parameters that name a table or namespace, and those that name several.
_ID_PARAMETERS, _IDS_PARAMETERS = ("id", "as_id", "namespace"), ("ids", "tables")


@dataclass(frozen=True, kw_only=True)
class ExtensionOperation(Operation):
    """An operation whose request has the parameters of a function."""

    function: Callable[..., Any]
    # The method of the catalog, with its group; `RestCatalog` has the same method.
    method_path: str
    # Whether the function is that method; otherwise it takes the request's context.
    is_method: bool
    # Whether the response only has what the principal sees, so that no target has to be checked.
    filtered: bool = False

    @property
    def operation_id(self) -> str:
        return f"tiltyard_{self.name}"

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or self.name).split("\n\n")[0].replace("\n", " ")

    @cached_property
    def request(self) -> type[BaseModel]:
        """The parameters as a model, without an id that is in the path."""
        types = typing.get_type_hints(self.function)
        _, *parameters = inspect.signature(self.function).parameters.values()
        fields: dict[str, Any] = {}
        for parameter in parameters:
            name = parameter.name
            if name in _IN_PROCESS or (name == "id" and "{id}" in self.path):
                continue
            is_required = parameter.default is inspect.Parameter.empty
            fields[name] = (types[name], ... if is_required else parameter.default)
        title = "".join(word.capitalize() for word in self.name.split("_"))
        forbid = ConfigDict(extra="forbid")
        return create_model(f"{title}Request", __config__=forbid, **fields)

    @property
    def body_type(self) -> Any:
        return self.request

    @property
    def response_type(self) -> Any:
        return typing.get_type_hints(self.function)["return"]

    @cached_property
    def response_adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.response_type)

    def query_parameters(self) -> list[dict[str, Any]]:
        if self.body is Body.JSON:
            return []
        schemas = self.request.model_json_schema().get("properties", {})
        return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]

    def prepare(self, request: ParsedRequest) -> PreparedCall:
        fields = request.body if self.body is Body.JSON else _last_values(request.query)
        if not isinstance(fields, dict):
            raise InvalidInputError("the body must be a JSON object")
        if request.id is not None:
            fields = dict(fields)
            if fields.pop("id", request.id) != request.id:
                raise InvalidInputError("id in the route and in the body differ")
        model = self.validate(fields)
        arguments = {name: getattr(model, name) for name in model.model_fields_set}
        if request.id is not None:
            arguments["id"] = request.id
        targets = list(_targets(arguments)) or ([] if self.filtered else [()])
        return PreparedCall(lambda context: self._run(context, arguments), targets, self.role)

    def validate(self, fields: Mapping[str, Any]) -> BaseModel:
        """The parameters of a request. InvalidInputError."""
        for name, field in self.request.model_fields.items():
            if isinstance(fields.get(name), bool) and field.annotation is not bool:
                raise InvalidInputError(f"{name} can't be true or false")  # to pydantic, 1 or 0
        try:
            return self.request.model_validate(fields)
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from error

    def _run(self, context: RequestContext, arguments: Mapping[str, Any]) -> Any:
        if self.is_method:
            return attrgetter(self.method_path)(context.namespace)(**arguments)
        return self.function(context, **arguments)

    def encode(self, result: Any) -> Any:
        return self.response_adapter.dump_json(result, by_alias=True)


def _targets(arguments: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for name in _ID_PARAMETERS:
        if arguments.get(name) is not None:
            yield arguments[name]
    for name in _IDS_PARAMETERS:
        yield from arguments.get(name) or ()
    if "plan" in arguments:
        yield from (table.id for table in arguments["plan"].tables)


def _last_values(query: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: values[-1] for name, values in query.items() if name != "delimiter"}


# -- operations that differ from the namespace's methods


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that stands for the key of the client."""

    token: str
    seconds: float


def issue_token(context: RequestContext) -> Token:
    """A bearer token for some hours, so that the key need not be sent with every request."""
    return Token(context.sessions.issue(context.principal), context.sessions.seconds)


def drop_table(
    context: RequestContext, id: Id, *, ttl: Duration | None = None, reason: str | None = None
) -> api.DropTableResponse:
    """Put a table into the trash, and say for how long and why."""
    request = api.DropTableRequest(id=list(id))
    return context.namespace.drop_table(request, ttl=ttl, reason=reason)


def list_trash(context: RequestContext, *, with_bytes: bool = False) -> list[DroppedTable]:
    """Every dropped table that you may see, oldest drop first."""
    trash = context.namespace.list_trash(with_bytes=with_bytes)
    return [dropped for dropped in trash if context.principal.sees(dropped.id)]


def apply_purge(context: RequestContext, plan: PurgePlan) -> list[Receipt]:
    """Purge what was planned; whatever moved since is skipped, and its receipt says so."""
    return context.namespace.apply_purge(plan)


def find_orphans(
    context: RequestContext, *, ids: Sequence[Id] | None = None, older_than: Duration | None = None
) -> list[Orphan]:
    """What nothing refers to, of the whole catalog or of some tables."""
    return list(context.namespace.health.find_orphans(ids, older_than=older_than))


def remove_orphans(
    context: RequestContext,
    *,
    paths: Sequence[str],
    older_than: Duration | None = None,
    even_if_young: bool = False,
) -> list[Orphan]:
    """Delete what is still an orphan among these paths, and return what went."""
    wanted = set(paths)
    orphans = context.namespace.health.find_orphans(older_than=older_than)
    return context.namespace.health.remove_orphans(
        [orphan for orphan in orphans if orphan.path in wanted and orphan.kind.is_removable],
        older_than=older_than,
        even_if_young=even_if_young,
    )


def events(context: RequestContext, *, limit: int = 100) -> list[Event]:
    """What was changed through this server since it started, newest first."""
    return context.audit.recent(max(0, limit))


# -- the table


def _row(
    role: Role,
    method: str,
    path: str,
    method_path: str,
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    changes: bool | None = None,
    filtered: bool = False,
) -> ExtensionOperation:
    return ExtensionOperation(
        name=name or method_path.rpartition(".")[2],
        method=method,
        path=f"/tiltyard/v1/{path}",
        role=role,
        changes=role is not Role.READER if changes is None else changes,
        body=Body.JSON if method == "POST" else Body.NONE,
        function=function or _method(method_path),
        method_path=method_path,
        is_method=function is None,
        filtered=filtered,
    )


def _method(path: str) -> Callable[..., Any]:
    """The function of a method of the catalog, or of one of its groups."""
    group, _, name = path.rpartition(".")
    owner = typing.get_type_hints(DirectoryNamespace)[group] if group else DirectoryNamespace
    function: Callable[..., Any] = getattr(owner, name)
    return function


_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN

OPERATIONS: tuple[ExtensionOperation, ...] = (
    _row(_READER, "POST", "token", "issue_token", issue_token, filtered=True),
    _row(_ADMIN, "GET", "events", "events", events, changes=False),
    # the trash
    _row(_READER, "GET", "trash", "list_trash", list_trash, filtered=True),
    _row(_READER, "GET", "table/{id}/status", "table_status"),
    _row(_WRITER, "POST", "table/{id}/drop", "drop_table", drop_table),
    _row(_WRITER, "POST", "table/{id}/undrop", "undrop_table"),
    _row(_WRITER, "POST", "table/{id}/hold", "hold_table"),
    _row(_ADMIN, "POST", "table/{id}/release", "release_table"),
    _row(_WRITER, "POST", "table/{id}/protect", "protect_table"),
    _row(_ADMIN, "POST", "table/{id}/unprotect", "unprotect_table"),
    _row(_ADMIN, "POST", "table/{id}/purge", "purge_table"),
    _row(_READER, "POST", "trash/purgable", "list_purgable_tables"),
    _row(_READER, "POST", "purge/plan", "plan_purge"),
    _row(_ADMIN, "POST", "purge", "purge_tables"),
    _row(_ADMIN, "POST", "purge/apply", "apply_purge", apply_purge),
    # versions
    _row(_READER, "GET", "table/{id}/history", "versions.history", name="table_history"),
    _row(_WRITER, "POST", "table/{id}/hide_version", "versions.hide", name="hide_version"),
    _row(_WRITER, "POST", "table/{id}/show_version", "versions.show", name="show_version"),
    _row(_ADMIN, "POST", "manage_versions", "versions.manage", name="manage_versions"),
    # numbers
    _row(_READER, "POST", "inventory", "maintenance.inventory_all_tables"),
    _row(_READER, "GET", "table/{id}/inventory", "maintenance.inventory_table"),
    _row(_READER, "GET", "table/{id}/inventory/versions", "maintenance.inventory_versions"),
    # maintenance
    _row(_ADMIN, "POST", "table/{id}/optimize", "maintenance.optimize_table"),
    _row(_ADMIN, "POST", "optimize", "maintenance.optimize_all_tables"),
    _row(_ADMIN, "POST", "optimize_catalog", "maintenance.optimize_catalog"),
    _row(_ADMIN, "POST", "table/{id}/cleanup", "maintenance.cleanup_table"),
    _row(_ADMIN, "POST", "cleanup", "maintenance.cleanup_all_tables"),
    # health
    _row(_READER, "GET", "doctor", "health.doctor"),
    _row(_ADMIN, "POST", "recover", "health.recover"),
    _row(_READER, "GET", "table/{id}/drift", "health.drift", name="drift_of"),
    _row(_ADMIN, "POST", "table/{id}/repair", "health.repair_table"),
    _row(
        _ADMIN,
        "POST",
        "table/{id}/reconcile_branches",
        "health.reconcile_branches",
        name="reconcile_orphaned_branches",
    ),
    _row(_ADMIN, "POST", "table/{id}/scrub_versions", "versions.scrub", name="scrub_versions"),
    _row(_ADMIN, "POST", "table/{id}/stop_auto_cleanup", "health.stop_auto_cleanup"),
    _row(_READER, "POST", "orphans/find", "health.find_orphans", find_orphans),
    _row(_ADMIN, "POST", "orphans/remove", "health.remove_orphans", remove_orphans),
    _row(_ADMIN, "POST", "orphans/adopt", "health.adopt_orphan"),
)
