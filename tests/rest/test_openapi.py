"""The OpenAPI document: complete, and true. schemathesis asks whatever it allows."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance_namespace as api
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

import tiltyard
from tests.behaviours.calls import PEOPLE, ipc
from tests.kit.rest import SharedServer, shared_server
from tiltyard.rest import openapi
from tiltyard.rest.app import OPERATIONS, roles
from tiltyard.rest.openapi import ARROW_STREAM
from tiltyard.rest.routing import Operation

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ALIVE = ("people", "prod$people")


def test_every_operation_is_described_with_its_role(client: TestClient) -> None:
    document = client.get("/tiltyard/v1/openapi.json").json()

    described = {
        (method.upper(), path): operation["x-role"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {
        (row.method, row.path): roles()[row.method, row.path] for row in OPERATIONS
    }


def test_no_two_operations_have_one_name() -> None:
    ids = [row.operation_id for row in OPERATIONS]

    assert len(set(ids)) == len(ids)


def test_every_reference_leads_somewhere() -> None:
    whole = openapi.document(OPERATIONS)
    schemas = whole["components"]["schemas"]

    def references(part: Any) -> Any:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    assert {reference.rpartition("/")[2] for reference in references(whole)} <= set(schemas)


def test_there_is_a_page_to_read(client: TestClient) -> None:
    page = client.get("/tiltyard/v1/")

    assert page.headers["content-type"].startswith("text/html")
    assert all(row.path in page.text for row in OPERATIONS)


# -- whatever the document allows


@pytest.fixture(scope="module")
def server() -> Iterator[SharedServer]:
    with shared_server() as server:
        yield server


@pytest.fixture
def stocked(server: SharedServer, tmp_path: Path) -> Iterator[str]:
    """A catalog with tables for each operation: what one request destroys, others may need."""
    catalog = tiltyard.connect(str(tmp_path / "root"))
    catalog.create_namespace(api.CreateNamespaceRequest(id=["prod"]))
    for table in ALIVE:
        catalog.create_table(api.CreateTableRequest(id=table.split("$")), ipc(PEOPLE))
    with server.serving(catalog) as address:
        yield address


@schemathesis.serializer(ARROW_STREAM)
def _as_it_is(_: Any, value: bytes) -> bytes:
    return value


schemathesis.openapi.media_type(ARROW_STREAM, st.just(ipc(PEOPLE)) | st.binary(max_size=50))


@functools.cache
def _schema() -> Any:
    return schemathesis.openapi.from_dict(openapi.document(OPERATIONS))


def _ask_anything(row: Operation, address: str, examples: int, mode: GenerationMode) -> None:
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_schema()[row.path][row.method].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if "id" in case.path_parameters and len(str(case.path_parameters["id"])) % 2:
            case.path_parameters["id"] = ALIVE[len(str(case.body)) % 2]  # else none would exist
        case.call_and_validate(base_url=address, checks=CHECKS)

    ask()


@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.operation_id)
def test_no_request_that_the_document_allows_breaks_the_server(
    row: Operation, stocked: str
) -> None:
    _ask_anything(row, stocked, 3, GenerationMode.POSITIVE)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.operation_id)
def test_nor_do_many_nor_wrong_ones(row: Operation, mode: GenerationMode, stocked: str) -> None:
    _ask_anything(row, stocked, 50, mode)
