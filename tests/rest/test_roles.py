"""No route works without its role: every role is tried on every route there is."""

from __future__ import annotations

import pytest
from lance_namespace.errors import ErrorCode
from starlette.testclient import TestClient

from tests.behaviours.places import Disk
from tests.rest.conftest import People
from tiltyard.access import Role
from tiltyard.rest.app import roles

ROUTES = [(method, path, needed) for (method, path), needed in roles().items()]
GUARDED = [(method, path, role) for method, path, role in ROUTES if role is not None]


def _ask(client: TestClient, method: str, path: str, headers: dict[str, str]) -> int:
    filled = path.replace("{id}", "people").replace("{index_name}", "by_name")
    return client.request(method, filled, headers=headers).status_code


def test_without_a_key_only_health_checks_are_answered(guarded: TestClient, root: str) -> None:
    before = Disk(root).files()

    answers = {
        (method, path): _ask(guarded, method, path, {"x-api-key": "ty_x"})
        for method, path, needed in ROUTES
    }

    # After too many wrong keys the status is 429.
    assert {status for (_, path), status in answers.items() if path.endswith("z")} == {200}
    assert {status for (_, path), status in answers.items() if not path.endswith("z")} == {401, 429}
    assert Disk(root).files() == before


@pytest.mark.parametrize("role", list(Role))
def test_a_route_is_open_from_its_role_on(
    guarded: TestClient, people: People, root: str, role: Role
) -> None:
    headers = people.headers(role.value)
    closed = [route for route in GUARDED if not role.allows(route[2])]
    before = Disk(root).files()

    for method, path, _ in closed:
        assert _ask(guarded, method, path, headers) == 403, f"{role} may {method} {path}"
    assert Disk(root).files() == before

    for method, path, _ in (route for route in GUARDED if route not in closed):
        assert _ask(guarded, method, path, headers) not in (401, 403, 500), (
            f"{role} may not {method} {path}"
        )


def test_destructive_operations_need_an_admin() -> None:
    needed = {path.rsplit("/", 1)[1]: role for _, path, role in ROUTES if "/v1/" in path}

    for destroys in ("purge", "apply", "cleanup", "remove", "repair", "scrub_versions", "release"):
        assert needed[destroys] is Role.ADMIN, destroys


def test_what_destroys_only_in_one_form_needs_an_admin_for_that(
    guarded: TestClient, people: People
) -> None:
    writer = people.headers("writer")
    deletes = {"operations": [{"delete_table_versions": {"id": ["people"], "ranges": []}}]}

    cascade = guarded.post("/v1/namespace/prod/drop", json={"behavior": "Cascade"}, headers=writer)
    versions = guarded.post("/v1/table/batch-commit", json=deletes, headers=writer)

    assert (cascade.status_code, versions.status_code) == (403, 403)
    assert guarded.get("/v1/table", headers=writer).json()["tables"] == [
        "people",
        "prod$people",
        "test$people",
    ]


# -- a key for one namespace

INSIDE = [
    ("GET", "/v1/namespace/prod/table/list", None),
    ("POST", "/v1/table/prod$people/describe", {}),
    ("POST", "/v1/table/prod$people/count_rows", {}),
    ("GET", "/tiltyard/v1/trash", None),
    ("GET", "/tiltyard/v1/table/prod$people/status", None),
    ("POST", "/tiltyard/v1/inventory", {"namespace": ["prod"]}),
    ("GET", "/tiltyard/v1/table/prod$people/inventory/versions", None),
    ("POST", "/tiltyard/v1/table/prod$people/optimize", {}),
    ("POST", "/tiltyard/v1/token", {}),
]
OUTSIDE = [
    ("GET", "/v1/table", None),
    ("GET", "/v1/namespace/$/list", None),
    ("GET", "/v1/namespace/test/table/list", None),
    ("POST", "/v1/table/people/describe", {}),
    ("POST", "/v1/table/test$people/describe", {}),
    ("POST", "/v1/table/test$people/drop", None),
    ("POST", "/v1/table/prod$people/rename", {"new_table_name": "x", "new_namespace_id": []}),
    ("POST", "/v1/table/prod$stolen/register", {"location": "people.lance"}),
    ("POST", "/v1/table/batch-commit", {"operations": [{"declare_table": {"id": ["test", "x"]}}]}),
    ("GET", "/metrics", None),
    ("GET", "/tiltyard/v1/doctor", None),
    ("GET", "/tiltyard/v1/events", None),
    ("POST", "/tiltyard/v1/inventory", {}),
    ("GET", "/tiltyard/v1/table/test$people/inventory", None),
    ("POST", "/tiltyard/v1/optimize", {}),
    ("POST", "/tiltyard/v1/optimize", {"tables": [["test", "people"]]}),
    ("POST", "/tiltyard/v1/table/prod$people/undrop", {"as_id": ["test", "x"]}),
    ("POST", "/tiltyard/v1/orphans/find", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), INSIDE)
def test_a_key_for_a_namespace_opens_what_is_inside(
    guarded: TestClient, people: People, method: str, path: str, body: object
) -> None:
    answer = guarded.request(method, path, json=body, headers=people.headers("prod admin"))

    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(("method", "path", "body"), OUTSIDE)
def test_a_key_for_a_namespace_opens_nothing_outside(
    guarded: TestClient, people: People, root: str, method: str, path: str, body: object
) -> None:
    before = Disk(root).files()

    answer = guarded.request(method, path, json=body, headers=people.headers("prod admin"))

    assert (answer.status_code, answer.json()["code"]) == (403, ErrorCode.PERMISSION_DENIED)
    assert Disk(root).files() == before


def test_the_trash_shows_what_one_may_see(guarded: TestClient, people: People) -> None:
    admin = people.headers("admin")
    for table in ("people", "prod$people", "test$people"):
        guarded.post(f"/v1/table/{table}/drop", headers=admin)

    seen = guarded.get("/tiltyard/v1/trash", headers=people.headers("prod reader")).json()

    assert [dropped["id"] for dropped in seen] == [["prod", "people"]]
    assert len(guarded.get("/tiltyard/v1/trash", headers=admin).json()) == 3
