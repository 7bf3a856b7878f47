"""The OpenAPI document: complete, and true. schemathesis asks whatever it allows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance_namespace as api
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient

import tiltyard
from tests.behaviours.calls import PEOPLE, ipc
from tests.kit.rest import Street, street
from tiltyard.rest.app import OPERATIONS, roles
from tiltyard.rest.openapi import ARROW_STREAM, document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
ALIVE = ("people", "prod$people")


def test_every_operation_is_described_with_its_role(client: TestClient) -> None:
    told = client.get("/tiltyard/v1/openapi.json").json()

    described = {
        (method.upper(), path): operation["x-role"]
        for path, methods in told["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {
        (each.method, each.path): roles()[each.method, each.path] for each in OPERATIONS
    }


def test_no_two_operations_have_one_name() -> None:
    keys = [each.key for each in OPERATIONS]

    assert len(set(keys)) == len(keys)


def test_every_reference_leads_somewhere() -> None:
    whole = document(OPERATIONS)
    schemas = whole["components"]["schemas"]

    def references(part: Any) -> Any:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                yield part["$ref"]
            for each in part.values():
                yield from references(each)
        elif isinstance(part, list):
            for each in part:
                yield from references(each)

    assert {each.rpartition("/")[2] for each in references(whole)} <= set(schemas)


def test_there_is_a_page_to_read(client: TestClient) -> None:
    page = client.get("/tiltyard/v1/")

    assert page.headers["content-type"].startswith("text/html")
    assert all(each.path in page.text for each in OPERATIONS)


# -- whatever the document allows


@pytest.fixture(scope="module")
def served() -> Iterator[Street]:
    with street() as made:
        yield made


@pytest.fixture
def stocked(served: Street, tmp_path: Path) -> Iterator[str]:
    """A catalog with tables for each operation: what questions destroy, others may need."""
    catalog = tiltyard.connect(str(tmp_path / "root"))
    catalog.create_namespace(api.CreateNamespaceRequest(id=["prod"]))
    for table in ALIVE:
        catalog.create_table(api.CreateTableRequest(id=table.split("$")), ipc(PEOPLE))
    with served.serving(catalog) as address:
        yield address


def _try(case: Any, address: str) -> None:
    if "id" in case.path_parameters and len(case.path_parameters["id"]) % 2:
        case.path_parameters["id"] = ALIVE[len(str(case.body)) % 2]  # else none would ever exist
    case.call_and_validate(base_url=address, checks=CHECKS)


@schemathesis.serializer(ARROW_STREAM)
def _as_it_is(_: Any, value: bytes) -> bytes:
    return value


schemathesis.openapi.media_type(ARROW_STREAM, st.just(ipc(PEOPLE)) | st.binary(max_size=50))
QUICK = schemathesis.openapi.from_dict(document(OPERATIONS))
QUICK.config.phases.coverage.enabled = False
THOROUGH = schemathesis.openapi.from_dict(document(OPERATIONS))


@QUICK.parametrize()
@settings(max_examples=4, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_that_the_document_allows_breaks_the_server(case: Any, stocked: str) -> None:
    _try(case, stocked)


@pytest.mark.slow
@THOROUGH.parametrize()
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
def test_nor_do_many_more_and_wrong_ones(case: Any, stocked: str) -> None:
    _try(case, stocked)
