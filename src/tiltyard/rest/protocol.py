"""The operations of the Lance REST namespace protocol: one row for each of the 54.

Their request and answer models are those of the interface `LanceNamespace`; a row adds the route,
the role, and what stands in the query instead of the body.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import lance_namespace as api
from pydantic import BaseModel, ValidationError

from tiltyard.access import Role
from tiltyard.errors import InvalidInputError
from tiltyard.rest import answers, query
from tiltyard.rest.operation import DELIMITER, Asked, Body, Call, Desk, Operation
from tiltyard.rest.spool import Outgoing


@dataclass(frozen=True)
class ProtocolOperation(Operation):
    """An operation that takes one request model."""

    query: tuple[str, ...] = ()

    @cached_property
    def hints(self) -> dict[str, Any]:
        return typing.get_type_hints(getattr(api.LanceNamespace, self.name))

    @cached_property
    def request(self) -> type[BaseModel]:
        kind: type[BaseModel] = self.hints["request"]
        return kind

    @property
    def summary(self) -> str:
        return self.name.replace("_", " ").capitalize()

    def understand(self, asked: Asked) -> Call:
        request = self.checked(self._given(asked))
        targets = list(_targets(request)) or [()]
        work = self._work(request, asked.body)
        if self.name == "list_all_tables" and asked.delimiter != DELIMITER:
            work = _joined_by(asked.delimiter, work)
        return Call(work, targets, self._needed(request))

    def checked(self, given: Mapping[str, Any]) -> BaseModel:
        """The fields of a request as its model. InvalidInputError."""
        try:
            return self.request.model_validate(given)
        except ValidationError as error:
            raise InvalidInputError(wrong(error)) from error

    def _given(self, asked: Asked) -> dict[str, Any]:
        """The fields of the request model: of the query, of the body, and of the route."""
        given: dict[str, Any] = {}
        for name in self.query:
            if name in asked.query:
                given[name] = query.read(name, asked.query[name])
        if self.name == "update_table_schema_metadata":
            given["metadata"] = asked.body
        elif self.body is Body.JSON:
            if not isinstance(asked.body, dict):
                raise InvalidInputError("the body must be a JSON object")
            for name, value in asked.body.items():
                if value is not None and given.setdefault(name, value) != value:
                    raise InvalidInputError(f"{name} in the query and in the body differ")
        route = {"id": asked.id, "index_name": asked.path.get("index_name")}
        for name, value in route.items():
            if value is not None and given.setdefault(name, value) != value:
                raise InvalidInputError(f"{name} in the route and in the body differ")
        return given

    def _work(self, request: BaseModel, body: Any) -> Callable[[Desk], Any]:
        if self.body is Body.ARROW:
            return lambda desk: getattr(desk.namespace, self.name)(request, body)
        if self.name == "query_table":
            return lambda desk: _query(desk, request)
        return lambda desk: getattr(desk.namespace, self.name)(request)

    def _needed(self, request: BaseModel) -> Role:
        """Most operations always need the same role. These destroy only in one of their forms."""
        cascades = (getattr(request, "behavior", None) or "").lower() == "cascade"
        operations = getattr(request, "operations", None) or ()
        deletes = any(each.delete_table_versions is not None for each in operations)
        return Role.ADMIN if cascades or deletes else self.needs

    def encode(self, result: Any) -> Any:
        if self.name in _PLAIN:
            return json.dumps(_PLAIN[self.name][1](result)).encode()
        if self.media == answers.ARROW_FILE:
            return result
        if self.media is None:
            return b""
        return result.model_dump_json(by_alias=True, exclude_none=True).encode()

    @property
    def status(self) -> int:  # type: ignore[override]
        return _STATUS.get(self.name, 200)

    @property
    def media(self) -> str | None:
        return _MEDIA.get(self.name, answers.JSON)

    @property
    def asks(self) -> Any:
        if self.body is not Body.JSON:
            return None
        return dict[str, str] if self.name == "update_table_schema_metadata" else self.request

    @property
    def tells(self) -> Any:
        if self.media != answers.JSON:
            return None
        return _PLAIN[self.name][0] if self.name in _PLAIN else self.hints["return"]

    def query_parameters(self) -> list[dict[str, Any]]:
        return [
            {"name": each, "in": "query", "schema": query.schema_of(each)} for each in self.query
        ]


_STATUS = {
    "create_materialized_view": 201,
    "refresh_materialized_view": 202,
    "alter_table_backfill_columns": 202,
}
_MEDIA = {
    "query_table": answers.ARROW_FILE,
    "table_exists": None,
    "namespace_exists": None,
}
# What is answered bare, instead of inside a model.
_PLAIN: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "count_table_rows": (int, lambda result: result.count),
    "explain_table_query_plan": (str, str),
    "analyze_table_query_plan": (str, str),
    "update_table_schema_metadata": (dict[str, str], lambda result: result.metadata or {}),
}


def _query(desk: Desk, request: Any) -> Outgoing:
    return Outgoing.write(desk.settings, lambda sink: desk.namespace.query_table_to(request, sink))


def _joined_by(delimiter: str, work: Callable[[Desk], Any]) -> Callable[[Desk], Any]:
    """Ids in an answer, joined as the client joins them. No name contains our own delimiter."""

    def joined(desk: Desk) -> Any:
        answer = work(desk)
        answer.tables = [each.replace(DELIMITER, delimiter) for each in answer.tables]
        return answer

    return joined


def wrong(error: ValidationError) -> str:
    """The first thing that pydantic did not like, in one line."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def _targets(request: Any) -> Iterator[Sequence[str]]:
    """Every table and namespace that a request names."""
    if (id := getattr(request, "id", None)) is not None:
        yield id
    if getattr(request, "new_namespace_id", None) is not None:
        yield request.new_namespace_id
    if getattr(request, "location", None) is not None:
        yield ()  # a location has no namespace: who names one must see all of them
    for entry in getattr(request, "entries", None) or ():
        yield entry.id
    for operation in getattr(request, "operations", None) or ():
        for _, part in operation:
            if part is not None:
                yield part.id or ()


_PAGE = ("page_token", "limit")


def _row(
    needs: Role, name: str, path: str, *query: str, body: Body = Body.JSON, method: str = "POST"
) -> ProtocolOperation:
    changes = needs is not Role.READER
    return ProtocolOperation(name, method, f"/v1/{path}", needs, changes, body, query)


def _look(name: str, path: str, *query: str, method: str = "POST") -> ProtocolOperation:
    """A reader's row whose request is in the query alone."""
    return _row(Role.READER, name, path, *query, body=Body.NOTHING, method=method)


_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN

OPERATIONS: tuple[ProtocolOperation, ...] = (
    # namespaces
    _look("list_namespaces", "namespace/{id}/list", *_PAGE, method="GET"),
    _row(_READER, "describe_namespace", "namespace/{id}/describe"),
    _row(_READER, "namespace_exists", "namespace/{id}/exists"),
    _row(_WRITER, "create_namespace", "namespace/{id}/create"),
    _row(_WRITER, "drop_namespace", "namespace/{id}/drop"),
    # tables
    _look("list_tables", "namespace/{id}/table/list", *_PAGE, "include_declared", method="GET"),
    _look("list_all_tables", "table", *_PAGE, "include_declared", method="GET"),
    _row(
        _READER,
        "describe_table",
        "table/{id}/describe",
        "with_table_uri",
        "load_detailed_metadata",
        "check_declared",
    ),
    _row(_READER, "table_exists", "table/{id}/exists"),
    _row(_READER, "get_table_stats", "table/{id}/stats"),
    _row(_WRITER, "declare_table", "table/{id}/declare"),
    _row(
        _WRITER,
        "create_table",
        "table/{id}/create",
        "mode",
        "properties",
        "storage_options",
        body=Body.ARROW,
    ),
    _row(_WRITER, "register_table", "table/{id}/register"),
    _row(_WRITER, "deregister_table", "table/{id}/deregister"),
    _row(_WRITER, "rename_table", "table/{id}/rename"),
    _row(_WRITER, "drop_table", "table/{id}/drop", body=Body.NOTHING),
    _row(_WRITER, "restore_table", "table/{id}/restore"),
    # rows
    _row(_READER, "count_table_rows", "table/{id}/count_rows"),
    _row(_READER, "query_table", "table/{id}/query"),
    _row(_READER, "explain_table_query_plan", "table/{id}/explain_plan"),
    _row(_READER, "analyze_table_query_plan", "table/{id}/analyze_plan"),
    _row(_WRITER, "insert_into_table", "table/{id}/insert", "branch", "mode", body=Body.ARROW),
    _row(
        _WRITER,
        "merge_insert_into_table",
        "table/{id}/merge_insert",
        "branch",
        "on",
        "when_matched_update_all",
        "when_matched_update_all_filt",
        "when_not_matched_insert_all",
        "when_not_matched_by_source_delete",
        "when_not_matched_by_source_delete_filt",
        "timeout",
        "use_index",
        body=Body.ARROW,
    ),
    _row(_WRITER, "update_table", "table/{id}/update"),
    _row(_WRITER, "delete_from_table", "table/{id}/delete"),
    # columns
    _row(_WRITER, "alter_table_add_columns", "table/{id}/add_columns"),
    _row(_WRITER, "alter_table_alter_columns", "table/{id}/alter_columns"),
    _row(_WRITER, "alter_table_drop_columns", "table/{id}/drop_columns"),
    _row(_WRITER, "alter_table_backfill_columns", "table/{id}/backfill_column"),
    _row(_WRITER, "update_table_schema_metadata", "table/{id}/schema_metadata/update", "branch"),
    _row(_WRITER, "update_field_metadata", "table/{id}/update_field_metadata"),
    # indexes
    _row(_READER, "list_table_indices", "table/{id}/index/list"),
    _row(_READER, "describe_table_index_stats", "table/{id}/index/{index_name}/stats"),
    _row(_WRITER, "create_table_index", "table/{id}/create_index"),
    _row(_WRITER, "create_table_scalar_index", "table/{id}/create_scalar_index"),
    _row(
        _WRITER,
        "drop_table_index",
        "table/{id}/index/{index_name}/drop",
        "branch",
        body=Body.NOTHING,
    ),
    # tags and branches
    _look("list_table_tags", "table/{id}/tags/list", *_PAGE),
    _row(_READER, "get_table_tag_version", "table/{id}/tags/version"),
    _row(_WRITER, "create_table_tag", "table/{id}/tags/create"),
    _row(_WRITER, "update_table_tag", "table/{id}/tags/update"),
    _row(_WRITER, "delete_table_tag", "table/{id}/tags/delete"),
    _look("list_table_branches", "table/{id}/branches/list", *_PAGE),
    _row(_WRITER, "create_table_branch", "table/{id}/branches/create"),
    _row(_ADMIN, "delete_table_branch", "table/{id}/branches/delete"),
    # versions
    _look("list_table_versions", "table/{id}/version/list", "branch", *_PAGE, "descending"),
    _row(_READER, "describe_table_version", "table/{id}/version/describe"),
    _row(_WRITER, "create_table_version", "table/{id}/version/create"),
    _row(_WRITER, "batch_create_table_versions", "table/version/batch-create"),
    _row(_ADMIN, "batch_delete_table_versions", "table/{id}/version/delete"),
    # transactions and views
    _row(_WRITER, "batch_commit_tables", "table/batch-commit"),
    _row(_READER, "describe_transaction", "transaction/{id}/describe"),
    _row(_WRITER, "alter_transaction", "transaction/{id}/alter"),
    _row(_WRITER, "create_materialized_view", "materialized_view/{id}/create"),
    _row(_WRITER, "refresh_materialized_view", "materialized_view/{id}/refresh"),
)
