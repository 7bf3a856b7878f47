"""The protocol: all of its operations, ids as clients write them, and errors as they read them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import lance_namespace as api
import lance_namespace_urllib3_client.api as client_api
import pytest
from lance_namespace.errors import ErrorCode
from starlette.testclient import TestClient

from tests.behaviours.calls import PEOPLE, ipc
from tiltyard.access import Principal, Role
from tiltyard.rest import protocol
from tiltyard.rest.responses import STATUS
from tiltyard.rest.routing import Body, Router

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


def _as_the_client_has_them() -> dict[str, tuple[str, str, tuple[str, ...]]]:
    """Method, path and query of every operation of Lance's own client."""
    operations = {}
    for _, kind in inspect.getmembers(client_api, inspect.isclass):
        for name, function in inspect.getmembers(kind, inspect.isfunction):
            if not re.fullmatch(r"_\w+_serialize", name):
                continue
            source = inspect.getsource(function)
            [method] = re.findall(r"method='(\w+)'", source)
            [path] = re.findall(r"resource_path='([^']+)'", source)
            _, *query = re.findall(r"_query_params.append\(\('(\w+)'", source)
            operations[name[1:-10]] = (method, path, tuple(query))
    return operations


def test_every_operation_of_the_protocol_is_there_as_lances_client_asks_for_it() -> None:
    wanted = _as_the_client_has_them()

    assert len(wanted) == 54
    assert {row.name: (row.method, row.path, row.query) for row in protocol.OPERATIONS} == wanted


def test_every_error_code_has_a_status() -> None:
    assert set(STATUS) == set(ErrorCode)


# -- ids


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("prod$people", {}),
        ("prod%24people", {"id": ["prod", "people"]}),
        ("prod.people?delimiter=.", {"id": ["prod", "people"]}),
        ("prod%3A%3Apeople?delimiter=::", {}),
    ],
)
def test_an_id_is_split_at_the_delimiter(
    client: TestClient, path: str, body: dict[str, Any]
) -> None:
    name, _, query = path.partition("?")

    answer = client.post(f"/v1/table/{name}/describe?{query}", json=body)

    assert (answer.json()["namespace"], answer.json()["table"]) == (["prod"], "people")


def test_the_root_is_a_lone_delimiter(client: TestClient) -> None:
    for path in ("$/list", "%24/list", "%7C/list?delimiter=%7C"):
        assert client.get(f"/v1/namespace/{path}").json() == {"namespaces": ["prod", "test"]}


def test_all_tables_are_told_with_the_delimiter_of_the_client(client: TestClient) -> None:
    assert client.get("/v1/table").json()["tables"][1] == "prod$people"
    assert client.get("/v1/table?delimiter=.").json()["tables"][1] == "prod.people"


def test_a_space_may_come_as_a_plus(client: TestClient) -> None:
    client.post("/v1/table/old%20people/declare", json={})

    assert client.post("/v1/table/old+people/exists", json={}).status_code == 200
    assert client.post("/v1/table/old%2Bpeople/exists", json={}).status_code == 404


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("people/describe", {"id": ["plants"]}, "differ"),
        ("people/describe?check_declared=true", {"check_declared": False}, "differ"),
        ("people/index/a/stats", {"index_name": "b"}, "differ"),
        ("people/describe?delimiter=", {}, "delimiter"),
        ("people/describe?check_declared=maybe", {}, "true or false"),
        ("people/describe", [], "JSON object"),
        ("people/describe", {"version": "1"}, "version"),
        ("a%FFb/describe", {}, "UTF-8"),
        ("people/describe?x=%FF", {}, "query"),
        ("$".join("x" * 65) + "/describe", {}, "64 parts"),
        ("people%2F..%2Fplants/describe", {}, "'people/../plants'"),
        ("../etc/describe", {}, "no such operation"),
        ("people/levitate", {}, "no such operation"),
    ],
)
def test_a_request_that_contradicts_itself_is_told_so(
    client: TestClient, path: str, body: Any, message: str
) -> None:
    answer = client.post(f"/v1/table/{path}", json=body)

    assert answer.status_code in (400, 404)
    assert answer.json()["code"] == ErrorCode.INVALID_INPUT
    assert message in answer.json()["error"]


def test_another_method_is_told_which_one_there_is(client: TestClient) -> None:
    answer = client.get("/v1/table/people/describe")

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert client.post("/metrics").json()["code"] == ErrorCode.INVALID_INPUT


# -- answers


def test_errors_have_the_code_the_message_and_the_hint(client: TestClient) -> None:
    client.post("/v1/table/people/drop")

    answer = client.post("/v1/table/people/describe", json={})

    error = answer.json()
    assert (answer.status_code, error["code"]) == (404, ErrorCode.TABLE_NOT_FOUND)
    assert error["instance"] == "/v1/table/people/describe"
    assert "undrop" in error["detail"]
    assert error["detail"] in error["error"]


def test_a_bug_is_told_without_its_inside(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("s3cret")

    monkeypatch.setattr(type(client.app.state.namespace), "describe_table", broken)

    answer = client.post("/v1/table/people/describe", json={})

    assert (answer.status_code, answer.json()["code"]) == (500, ErrorCode.INTERNAL)
    assert "s3cret" not in answer.text


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("count_rows", {"predicate": "id > 1"}, 2),
        ("exists", {}, None),
        ("schema_metadata/update", {"about": "people"}, {"about": "people"}),
    ],
)
def test_some_answers_are_bare(
    client: TestClient, path: str, body: dict[str, str], expected: object
) -> None:
    answer = client.post(f"/v1/table/people/{path}", json=body)

    assert answer.status_code == 200
    assert (answer.json() if answer.content else None) == expected


def test_a_query_is_answered_with_an_arrow_file(client: TestClient) -> None:
    answer = client.post("/v1/table/people/query", json={"k": 10, "vector": {}})

    assert answer.headers["content-type"] == "application/vnd.apache.arrow.file"
    assert answer.content[:6] == b"ARROW1"


def test_rows_come_as_an_arrow_stream(client: TestClient) -> None:
    made = client.post("/v1/table/plants/create", content=ipc(PEOPLE), headers=ARROW)
    more = client.post("/v1/table/plants/insert?mode=append", content=ipc(PEOPLE), headers=ARROW)

    assert made.json()["version"] == 1
    assert more.json()["num_inserted_rows"] == 3


def test_a_location_outside_the_root_is_refused(client: TestClient) -> None:
    for location in ("/etc", "../elsewhere", "s3://other/bucket", "file:///etc"):
        for operation in ("register", "declare"):
            answer = client.post(f"/v1/table/x/{operation}", json={"location": location})
            assert answer.status_code == 400, f"{operation} at {location}"
    assert "x" not in client.get("/v1/table").json()["tables"]


def test_all_requests_share_one_catalog(client: TestClient) -> None:
    router = client.app.router.default
    assert isinstance(router, Router)
    views = [router.context(Principal(name, Role.ADMIN)).namespace for name in ("ann", "bob")]

    assert views[0] is not views[1]
    shared = client.app.state.namespace.context.catalog
    assert views[0].context.catalog is views[1].context.catalog is shared


def test_rows_with_json_bodies_match_the_models() -> None:
    for row in protocol.OPERATIONS:
        assert set(row.query) <= set(row.request.model_fields), row.name
        assert row.body is Body.JSON or row.body_type is None
    assert issubclass(protocol.OPERATIONS[0].request, api.ListNamespacesRequest)
