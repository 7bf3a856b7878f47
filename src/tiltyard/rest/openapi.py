"""The OpenAPI document of all operations, made from their table, and the same as a page."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import Any

from lance_namespace_urllib3_client.models.error_response import ErrorResponse
from pydantic import TypeAdapter

import tiltyard
from tiltyard.rest.responses import JSON
from tiltyard.rest.routing import Body, Operation

ARROW_STREAM = "application/vnd.apache.arrow.stream"
_REFERENCE = "#/components/schemas/{model}"
_BINARY = {"type": "string", "format": "binary"}
_ERROR = "error"


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document. Slow, because the models of all operations become schemas."""
    operations = list(operations)
    schemas, shared = TypeAdapter.json_schemas(
        list(_types(operations)), by_alias=True, ref_template=_REFERENCE
    )
    paths: dict[str, Any] = {}
    for operation in operations:
        description = _describe(operation, schemas)
        paths.setdefault(operation.path, {})[operation.method.lower()] = description
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tiltyard",
            "version": tiltyard.__version__,
            "description": "The Lance REST namespace protocol, and what tiltyard adds to it.",
        },
        "paths": paths,
        "components": {
            "schemas": shared.get("$defs", {}),
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"key": []}, {"bearer": []}],
    }


def _types(operations: Iterable[Operation]) -> Iterator[tuple[str, Any, TypeAdapter[Any]]]:
    yield _ERROR, "serialization", TypeAdapter(ErrorResponse)
    for operation in operations:
        if operation.body_type is not None:
            yield operation.operation_id, "validation", TypeAdapter(operation.body_type)
        if operation.response_type is not None:
            yield operation.operation_id, "serialization", TypeAdapter(operation.response_type)


def _describe(operation: Operation, schemas: Any) -> dict[str, Any]:
    description: dict[str, Any] = {
        "operationId": operation.operation_id,
        "summary": operation.summary,
        "tags": [operation.path.split("/")[1]],
        "x-role": operation.role.value,
        "parameters": [*_path_parameters(operation), *operation.query_parameters()],
        "responses": {
            str(operation.status): _response(operation, schemas),
            "default": _content("An error.", JSON, schemas[_ERROR, "serialization"]),
        },
    }
    if operation.body is Body.JSON:
        schema = schemas[operation.operation_id, "validation"]
        description["requestBody"] = {"content": {JSON: {"schema": schema}}}
    elif operation.body is Body.ARROW:
        content = {ARROW_STREAM: {"schema": _BINARY}}
        description["requestBody"] = {"required": True, "content": content}
    return description


def _response(operation: Operation, schemas: Any) -> dict[str, Any]:
    if operation.media_type is None:
        return {"description": "It exists."}
    if operation.media_type != JSON:
        return _content("Rows.", operation.media_type, _BINARY)
    return _content("Done.", operation.media_type, schemas[operation.operation_id, "serialization"])


def _content(description: str, media: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}


def _path_parameters(operation: Operation) -> Iterator[dict[str, Any]]:
    for segment in operation.path.split("/"):
        if segment.startswith("{"):
            schema = {"type": "string", "minLength": 1}
            yield {"name": segment[1:-1], "in": "path", "required": True, "schema": schema}
    if "{id}" in operation.path:
        schema = {"type": "string", "minLength": 1, "default": "$"}
        yield {"name": "delimiter", "in": "query", "schema": schema}


# -- the page

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>tiltyard: operations</title></head>
<body><h1>Operations</h1>
<p>The same as <a href="openapi.json">openapi.json</a>, to read.</p>
<table><thead><tr><th>Method</th><th>Path</th><th>Role</th><th>What it does</th></tr></thead>
<tbody>
{rows}
</tbody></table></body></html>
"""


def page(operations: Iterable[Operation]) -> str:
    """Every operation with its role, as a table."""
    rows = (
        f"<tr><td>{operation.method}</td><td><code>{html.escape(operation.path)}</code></td>"
        f"<td>{operation.role.value}</td><td>{html.escape(operation.summary)}</td></tr>"
        for operation in operations
    )
    return _PAGE.format(rows="\n".join(rows))
