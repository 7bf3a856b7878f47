"""The operations of the Lance REST namespace protocol: one row for each of the 54.

Their request and response models are those of the interface `LanceNamespace`; a row adds the route,
the role, and which fields of the request are in the query instead of the body.
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
from tiltyard.errors import InvalidInputError, first_problem
from tiltyard.rest.responses import ARROW_FILE, JSON, SpooledBody
from tiltyard.rest.routing import (
    DELIMITER,
    Body,
    Operation,
    ParsedRequest,
    PreparedCall,
    RequestContext,
)


@dataclass(frozen=True, kw_only=True)
class ProtocolOperation(Operation):
    """An operation that takes one request model."""

    query: tuple[str, ...] = ()

    @cached_property
    def _types(self) -> dict[str, Any]:
        return typing.get_type_hints(getattr(api.LanceNamespace, self.name))

    @cached_property
    def request(self) -> type[BaseModel]:
        model: type[BaseModel] = self._types["request"]
        return model

    @property
    def summary(self) -> str:
        return self.name.replace("_", " ").capitalize()

    def prepare(self, request: ParsedRequest) -> PreparedCall:
        model = self.validate(self._fields(request))
        targets = list(_targets(model)) or [()]
        return PreparedCall(self._function(model, request), targets, self._role_for(model))

    def validate(self, fields: Mapping[str, Any]) -> BaseModel:
        """The fields of a request as its model. InvalidInputError."""
        try:
            return self.request.model_validate(fields)
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from error

    def _fields(self, request: ParsedRequest) -> dict[str, Any]:
        """The fields of the model, from the query, the body and the path."""
        fields: dict[str, Any] = {}
        for name in self.query:
            if name in request.query:
                fields[name] = _query_value(name, request.query[name])
        if self.name == "update_table_schema_metadata":
            fields["metadata"] = request.body
        elif self.body is Body.JSON:
            if not isinstance(request.body, dict):
                raise InvalidInputError("the body must be a JSON object")
            for name, value in request.body.items():
                if value is not None and fields.setdefault(name, value) != value:
                    raise InvalidInputError(f"{name} in the query and in the body differ")
        in_path = {"id": request.id, "index_name": request.path.get("index_name")}
        for name, value in in_path.items():
            if value is not None and fields.setdefault(name, value) != value:
                raise InvalidInputError(f"{name} in the route and in the body differ")
        return fields

    def _function(self, model: Any, request: ParsedRequest) -> Callable[[RequestContext], Any]:
        if self.body is Body.ARROW:
            return lambda context: getattr(context.namespace, self.name)(model, request.body)
        if self.name == "query_table":
            return lambda context: _query_table(context, model)
        if self.name == "list_all_tables" and request.delimiter != DELIMITER:
            return lambda context: _list_all_tables(context, model, request.delimiter)
        return lambda context: getattr(context.namespace, self.name)(model)

    def _role_for(self, model: BaseModel) -> Role:
        """The role that a request needs: some operations destroy data in one of their forms."""
        cascades = (getattr(model, "behavior", None) or "").lower() == "cascade"
        operations = getattr(model, "operations", None) or ()
        deletes = any(part.delete_table_versions is not None for part in operations)
        return Role.ADMIN if cascades or deletes else self.role

    def encode(self, result: Any) -> Any:
        if self.name in _BARE:
            return json.dumps(_BARE[self.name][1](result)).encode()
        if self.media_type == ARROW_FILE:
            return result
        if self.media_type is None:
            return b""
        return result.model_dump_json(by_alias=True, exclude_none=True).encode()

    @property
    def body_type(self) -> Any:
        if self.body is not Body.JSON:
            return None
        return dict[str, str] if self.name == "update_table_schema_metadata" else self.request

    @property
    def response_type(self) -> Any:
        if self.media_type != JSON:
            return None
        return _BARE[self.name][0] if self.name in _BARE else self._types["return"]

    def query_parameters(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "in": "query", "schema": _QUERY_SCHEMAS[_QUERY_KINDS.get(name, "text")]}
            for name in self.query
        ]


# Responses that are a value instead of a model.
_BARE: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "count_table_rows": (int, lambda result: result.count),
    "explain_table_query_plan": (str, str),
    "analyze_table_query_plan": (str, str),
    "update_table_schema_metadata": (dict[str, str], lambda result: result.metadata or {}),
}


def _query_table(context: RequestContext, request: Any) -> SpooledBody:
    return SpooledBody.write(
        context.settings, lambda sink: context.namespace.query_table_to(request, sink)
    )


def _list_all_tables(context: RequestContext, request: Any, delimiter: str) -> Any:
    """Ids joined by the client's delimiter. No name contains the default one."""
    response = context.namespace.list_all_tables(request)
    response.tables = [table.replace(DELIMITER, delimiter) for table in response.tables]
    return response


def _targets(request: Any) -> Iterator[Sequence[str]]:
    """Every table and namespace that a request names."""
    if (id := getattr(request, "id", None)) is not None:
        yield id
    if getattr(request, "new_namespace_id", None) is not None:
        yield request.new_namespace_id
    if getattr(request, "location", None) is not None:
        yield ()  # a location belongs to no namespace, so it needs the whole catalog
    for entry in getattr(request, "entries", None) or ():
        yield entry.id
    for operation in getattr(request, "operations", None) or ():
        for _, part in operation:
            if part is not None:
                yield part.id or ()


# -- values in the query

# The parameters that are not text.
_QUERY_KINDS = {
    "limit": "number",
    "on": "list",
    "properties": "json",
    "storage_options": "json",
    "check_declared": "flag",
    "descending": "flag",
    "include_declared": "flag",
    "load_detailed_metadata": "flag",
    "use_index": "flag",
    "when_matched_update_all": "flag",
    "when_not_matched_by_source_delete": "flag",
    "when_not_matched_insert_all": "flag",
    "with_table_uri": "flag",
}
_TEXT = {"type": "string"}
_QUERY_SCHEMAS: dict[str, dict[str, Any]] = {
    "flag": {"type": "boolean"},
    "json": _TEXT,
    "list": {"type": "array", "items": _TEXT},
    "number": {"type": "integer"},
    "text": _TEXT,
}


def _query_value(name: str, values: Sequence[str]) -> Any:
    """The value of a parameter, of which the last one counts. InvalidInputError."""
    kind, text = _QUERY_KINDS.get(name), values[-1]
    if kind == "list":
        return list(values)
    if kind == "flag":
        if text.lower() not in ("true", "false"):
            raise InvalidInputError(f"{name} is true or false, not {text!r}")
        return text.lower() == "true"
    if kind == "number":
        try:
            return int(text)
        except ValueError:
            raise InvalidInputError(f"{name} is a whole number, not {text!r}") from None
    if kind == "json":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidInputError(f"{name} is a JSON object") from None
    return text


# -- the table

_STATUS = {
    "create_materialized_view": 201,
    "refresh_materialized_view": 202,
    "alter_table_backfill_columns": 202,
}
_MEDIA_TYPES = {"query_table": ARROW_FILE, "table_exists": None, "namespace_exists": None}
_PAGE = ("page_token", "limit")


def _row(
    role: Role, name: str, path: str, *query: str, body: Body = Body.JSON, method: str = "POST"
) -> ProtocolOperation:
    return ProtocolOperation(
        name=name,
        method=method,
        path=f"/v1/{path}",
        role=role,
        changes=role is not Role.READER,
        body=body,
        status=_STATUS.get(name, 200),
        media_type=_MEDIA_TYPES.get(name, JSON),
        query=query,
    )


def _list(name: str, path: str, *query: str, method: str = "POST") -> ProtocolOperation:
    """A row for readers whose request is in the query alone."""
    return _row(Role.READER, name, path, *query, body=Body.NONE, method=method)


_READER, _WRITER, _ADMIN = Role.READER, Role.WRITER, Role.ADMIN

OPERATIONS: tuple[ProtocolOperation, ...] = (
    # namespaces
    _list("list_namespaces", "namespace/{id}/list", *_PAGE, method="GET"),
    _row(_READER, "describe_namespace", "namespace/{id}/describe"),
    _row(_READER, "namespace_exists", "namespace/{id}/exists"),
    _row(_WRITER, "create_namespace", "namespace/{id}/create"),
    _row(_WRITER, "drop_namespace", "namespace/{id}/drop"),
    # tables
    _list("list_tables", "namespace/{id}/table/list", *_PAGE, "include_declared", method="GET"),
    _list("list_all_tables", "table", *_PAGE, "include_declared", method="GET"),
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
    _row(_WRITER, "drop_table", "table/{id}/drop", body=Body.NONE),
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
        body=Body.NONE,
    ),
    # tags and branches
    _list("list_table_tags", "table/{id}/tags/list", *_PAGE),
    _row(_READER, "get_table_tag_version", "table/{id}/tags/version"),
    _row(_WRITER, "create_table_tag", "table/{id}/tags/create"),
    _row(_WRITER, "update_table_tag", "table/{id}/tags/update"),
    _row(_WRITER, "delete_table_tag", "table/{id}/tags/delete"),
    _list("list_table_branches", "table/{id}/branches/list", *_PAGE),
    _row(_WRITER, "create_table_branch", "table/{id}/branches/create"),
    _row(_ADMIN, "delete_table_branch", "table/{id}/branches/delete"),
    # versions
    _list("list_table_versions", "table/{id}/version/list", "branch", *_PAGE, "descending"),
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
