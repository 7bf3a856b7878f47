"""The OpenAPI document of all operations, made from their table, and a plain page to read it."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from typing import Any

from lance_namespace_urllib3_client.models.error_response import ErrorResponse
from pydantic import TypeAdapter

import tiltyard
from tiltyard.rest import answers
from tiltyard.rest.operation import Body, Operation

ARROW_STREAM = "application/vnd.apache.arrow.stream"
_REFERENCE = "#/components/schemas/{model}"
_BINARY = {"type": "string", "format": "binary"}
_ERROR = "error"


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The whole document. Takes a while: the models of all operations become schemas."""
    rows = list(operations)
    schemas, shared = TypeAdapter.json_schemas(
        list(_inputs(rows)), by_alias=True, ref_template=_REFERENCE
    )
    paths: dict[str, Any] = {}
    for each in rows:
        described = _operation(each, schemas)
        paths.setdefault(each.path, {})[each.method.lower()] = described
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


def _inputs(rows: Iterable[Operation]) -> Iterator[tuple[str, Any, TypeAdapter[Any]]]:
    yield _ERROR, "serialization", TypeAdapter(ErrorResponse)
    for each in rows:
        if each.asks is not None:
            yield each.key, "validation", TypeAdapter(each.asks)
        if each.tells is not None:
            yield each.key, "serialization", TypeAdapter(each.tells)


def _operation(row: Operation, schemas: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": row.key,
        "summary": row.summary,
        "tags": [row.path.split("/")[1]],
        "x-role": row.needs.value,
        "parameters": [
            *_path_parameters(row),
            *row.query_parameters(),
        ],
        "responses": {
            str(row.status): _response(row, schemas),
            "default": _content("What went wrong.", answers.JSON, schemas[_ERROR, "serialization"]),
        },
    }
    if row.body is Body.JSON:
        schema = schemas[row.key, "validation"]
        described["requestBody"] = {"content": {answers.JSON: {"schema": schema}}}
    elif row.body is Body.ARROW:
        content = {ARROW_STREAM: {"schema": _BINARY}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _response(row: Operation, schemas: Any) -> dict[str, Any]:
    if row.media is None:
        return {"description": "It is so."}
    if row.media != answers.JSON:
        return _content("Rows.", row.media, _BINARY)
    return _content("Done.", row.media, schemas[row.key, "serialization"])


def _content(description: str, media: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {media: {"schema": schema}}}


def _path_parameters(row: Operation) -> Iterator[dict[str, Any]]:
    for segment in row.path.split("/"):
        if segment.startswith("{"):
            schema = {"type": "string", "minLength": 1}
            yield {"name": segment[1:-1], "in": "path", "required": True, "schema": schema}
    if "{id}" in row.path:
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
    cells = (
        (each.method, f"<code>{html.escape(each.path)}</code>", each.needs.value, each.summary)
        for each in operations
    )
    rows = "\n".join(
        f"<tr><td>{method}</td><td>{path}</td><td>{role}</td><td>{html.escape(what)}</td></tr>"
        for method, path, role, what in cells
    )
    return _PAGE.format(rows=rows)
