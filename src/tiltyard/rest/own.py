"""Our own operations under /tiltyard/v1: the trash, maintenance and health of a catalog.

A row names a method of the catalog, like `undrop_table` or `health.recover`, and may name a
function below that is called in its place; what a request may say and what it is answered with come
from the signature.
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
from tiltyard.errors import InvalidInputError
from tiltyard.lifecycle.purge import PurgePlan, Receipt
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.orphan import Orphan
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest.audit import Event
from tiltyard.rest.operation import Asked, Body, Call, Desk, Operation
from tiltyard.rest.protocol import wrong

Duration = str | int | float
Id = Sequence[str]

# What a request never says: it is for callers in the same process.
_IN_PROCESS = ("progress",)
# The parameters that name tables and namespaces: one id, or several.
_ONE, _SEVERAL = ("id", "as_id", "namespace"), ("ids", "tables")


@dataclass(frozen=True)
class OwnOperation(Operation):
    """An operation whose request is the parameters of a function."""

    function: Callable[..., Any]
    # The method of the catalog, with its group; a client has the same method.
    method_path: str
    # Whether the function is that method, or one of ours that is given the whole desk.
    is_method: bool
    # Whether it answers with what one may see, so that it needs no sight of the whole catalog.
    filtered: bool = False

    @cached_property
    def request(self) -> type[BaseModel]:
        """The parameters as a model. An id that is in the route is not asked for again."""
        hints = typing.get_type_hints(self.function)
        _, *parameters = inspect.signature(self.function).parameters.values()
        fields: dict[str, Any] = {}
        for each in parameters:
            if each.name in _IN_PROCESS or (each.name == "id" and "{id}" in self.path):
                continue
            default = ... if each.default is inspect.Parameter.empty else each.default
            fields[each.name] = (hints[each.name], default)
        forbid = ConfigDict(extra="forbid")
        return create_model(f"{_title(self.name)}Request", __config__=forbid, **fields)

    @cached_property
    def returned(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.tells)

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.function) or self.name).split("\n\n")[0].replace("\n", " ")

    def understand(self, asked: Asked) -> Call:
        given = asked.body if self.body is Body.JSON else _last_of(asked.query)
        if not isinstance(given, dict):
            raise InvalidInputError("the body must be a JSON object")
        if asked.id is not None:
            given = dict(given)
            if given.pop("id", asked.id) != asked.id:
                raise InvalidInputError("id in the route and in the body differ")
        request = self.checked(given)
        arguments = {name: getattr(request, name) for name in request.model_fields_set}
        if asked.id is not None:
            arguments["id"] = asked.id
        targets = list(_targets(arguments)) or ([] if self.filtered else [()])
        return Call(self._work(arguments), targets, self.needs)

    def checked(self, given: Mapping[str, Any]) -> BaseModel:
        """The parameters of a request. InvalidInputError."""
        for name, each in self.request.model_fields.items():
            if isinstance(given.get(name), bool) and each.annotation is not bool:
                raise InvalidInputError(f"{name} can't be true or false")  # to pydantic, 1 or 0
        try:
            return self.request.model_validate(given)
        except ValidationError as error:
            raise InvalidInputError(wrong(error)) from error

    def _work(self, arguments: Mapping[str, Any]) -> Callable[[Desk], Any]:
        if self.is_method:
            return lambda desk: attrgetter(self.method_path)(desk.namespace)(**arguments)
        return lambda desk: self.function(desk, **arguments)

    def encode(self, result: Any) -> Any:
        return self.returned.dump_json(result, by_alias=True)

    @property
    def key(self) -> str:
        return f"tiltyard_{self.name}"

    @property
    def asks(self) -> Any:
        return self.request

    @property
    def tells(self) -> Any:
        return typing.get_type_hints(self.function)["return"]

    def query_parameters(self) -> list[dict[str, Any]]:
        if self.body is Body.JSON:
            return []
        properties = self.request.model_json_schema().get("properties", {})
        return [{"name": name, "in": "query", "schema": each} for name, each in properties.items()]


def _targets(arguments: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    for name in _ONE:
        if arguments.get(name) is not None:
            yield arguments[name]
    for name in _SEVERAL:
        yield from arguments.get(name) or ()
    if "plan" in arguments:
        yield from (each.id for each in arguments["plan"].tables)


def _last_of(query: Mapping[str, Sequence[str]]) -> dict[str, str]:
    return {name: values[-1] for name, values in query.items() if name != "delimiter"}


def _title(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


# -- operations that are a little different from the namespace's own


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token that stands for the key with which it was asked for."""

    token: str
    seconds: float


def issue_token(desk: Desk) -> Token:
    """A bearer token for a while, so that the key itself need not travel any more."""
    return Token(desk.sessions.issue(desk.principal), desk.sessions.seconds)


def drop_table(
    desk: Desk, id: Id, *, ttl: Duration | None = None, reason: str | None = None
) -> api.DropTableResponse:
    """Put a table into the trash, and say for how long and why."""
    request = api.DropTableRequest(id=list(id))
    return desk.namespace.drop_table(request, ttl=ttl, reason=reason)


def list_trash(desk: Desk, *, with_bytes: bool = False) -> list[DroppedTable]:
    """Every dropped table that you may see, oldest drop first."""
    found = desk.namespace.list_trash(with_bytes=with_bytes)
    return [each for each in found if desk.principal.sees(each.id)]


def apply_purge(desk: Desk, plan: PurgePlan) -> list[Receipt]:
    """Purge what was planned; whatever moved since is skipped, and its receipt says so."""
    return desk.namespace.apply_purge(plan)


def find_orphans(
    desk: Desk, *, ids: Sequence[Id] | None = None, older_than: Duration | None = None
) -> list[Orphan]:
    """What nothing refers to, of the whole catalog or of some tables."""
    return list(desk.namespace.health.find_orphans(ids, older_than=older_than))


def remove_orphans(
    desk: Desk,
    *,
    paths: Sequence[str],
    older_than: Duration | None = None,
    even_if_young: bool = False,
) -> list[Orphan]:
    """Delete what is still an orphan among these paths, and return what went."""
    wanted = set(paths)
    found = desk.namespace.health.find_orphans(older_than=older_than)
    return desk.namespace.health.remove_orphans(
        [each for each in found if each.path in wanted and each.kind.is_removable],
        older_than=older_than,
        even_if_young=even_if_young,
    )


def events(desk: Desk, *, limit: int = 100) -> list[Event]:
    """What was changed through this server since it started, newest first."""
    return desk.audit.recent(max(0, limit))


# -- the table


def _row(
    needs: Role,
    method: str,
    path: str,
    method_path: str,
    function: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    changes: bool | None = None,
    filtered: bool = False,
) -> OwnOperation:
    return OwnOperation(
        name=name or method_path.rpartition(".")[2],
        method=method,
        path=f"/tiltyard/v1/{path}",
        needs=needs,
        changes=needs is not Role.READER if changes is None else changes,
        body=Body.JSON if method == "POST" else Body.NOTHING,
        function=function or _method(method_path),
        method_path=method_path,
        is_method=function is None,
        filtered=filtered,
    )


def _method(path: str) -> Callable[..., Any]:
    """The function behind a method of the catalog, or of one of its groups."""
    group, _, name = path.rpartition(".")
    owner = typing.get_type_hints(DirectoryNamespace)[group] if group else DirectoryNamespace
    function: Callable[..., Any] = getattr(owner, name)
    return function


_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN

OPERATIONS: tuple[OwnOperation, ...] = (
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
