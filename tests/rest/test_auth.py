"""Authentication, limits and the audit log: who is let in, and what every response has."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
from lance_namespace.errors import ErrorCode
from starlette.testclient import TestClient

import tiltyard
from tests.rest.conftest import LOOPBACK, People
from tiltyard.access import Keyring
from tiltyard.errors import InvalidInputError, ThrottlingError
from tiltyard.rest.app import create_app
from tiltyard.rest.limits import FailedLogins, RateLimit, RateLimitedError
from tiltyard.rest.server import JsonLines, ServerSettings

TABLES = "/v1/table"


def test_a_key_is_taken_as_an_api_key_and_as_a_bearer_token(
    guarded: TestClient, people: People
) -> None:
    key = people.keys["reader"]

    for headers in (
        {"x-api-key": key},
        {"Authorization": f"Bearer {key}"},
        {"authorization": f"bearer   {key}"},
    ):
        assert guarded.get(TABLES, headers=headers).status_code == 200


def test_a_token_stands_for_the_key_until_that_is_revoked(
    guarded: TestClient, people: People
) -> None:
    issued = guarded.post("/tiltyard/v1/token", headers=people.headers("reader")).json()
    headers = {"Authorization": f"Bearer {issued['token']}"}
    assert guarded.get(TABLES, headers=headers).status_code == 200
    assert guarded.post("/v1/table/people/drop", headers=headers).status_code == 403

    Keyring(people.path).revoke("reader")

    assert guarded.get(TABLES, headers=headers).status_code == 401
    assert guarded.get(TABLES, headers=people.headers("reader")).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "ty_000000000000_" + "A" * 43},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic YTpi"},
        {"Authorization": "Bearer tys_a.b.c.d"},
        {"x-api-key": "\xff\xfe"},
        {"Cookie": "session=x"},
    ],
)
def test_a_client_without_a_valid_key_is_told_how_to_send_one(
    guarded: TestClient, headers: dict[str, str]
) -> None:
    raw = {name: value.encode("latin-1") for name, value in headers.items()}

    answer = guarded.get(TABLES, headers=raw)

    assert (answer.status_code, answer.json()["code"]) == (401, ErrorCode.UNAUTHENTICATED)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "authentication required" in answer.json()["error"]
    assert "x-api-key" in answer.json()["detail"]


def test_who_fails_too_often_is_told_to_wait_and_the_right_key_still_opens(
    namespace: tiltyard.DirectoryNamespace, people: People
) -> None:
    settings = ServerSettings(keys=people.path, failed_logins_per_minute=3)
    with TestClient(create_app(namespace, settings), base_url=LOOPBACK) as client:
        tries = [client.get(TABLES, headers={"x-api-key": "x"}).status_code for _ in range(4)]

        assert tries == [401, 401, 401, 429]
        assert 0 < int(client.get(TABLES).headers["retry-after"]) <= 20
        assert client.get(TABLES, headers=people.headers("reader")).status_code == 200


def test_wrong_keys_from_many_addresses_are_too_many_together() -> None:
    now = [0.0]
    failed = FailedLogins(per_minute=6, overall=12, clock=lambda: now[0])
    for number in range(12):
        failed.record(f"10.0.0.{number}")

    with pytest.raises(RateLimitedError) as refused:
        failed.record("10.0.0.99")
    assert refused.value.seconds == 5
    now[0] += refused.value.seconds
    failed.record("10.0.0.99")


def test_a_key_that_asks_too_often_is_told_to_slow_down(
    namespace: tiltyard.DirectoryNamespace, people: People
) -> None:
    settings = ServerSettings(keys=people.path, requests_per_second=0.5)
    with TestClient(create_app(namespace, settings), base_url=LOOPBACK) as client:
        first = client.get(TABLES, headers=people.headers("reader"))
        second = client.get(TABLES, headers=people.headers("reader"))
        other = client.get(TABLES, headers=people.headers("writer"))

    assert [response.status_code for response in (first, second, other)] == [200, 429, 200]
    assert second.json()["code"] == ErrorCode.THROTTLING
    assert second.headers["retry-after"] in ("1", "2")


def test_tokens_come_back_with_time() -> None:
    now = [0.0]
    rate = RateLimit(2, clock=lambda: now[0])

    for _ in range(4):
        rate.take("ann")
    with pytest.raises(ThrottlingError):
        rate.take("ann")
    now[0] += 0.5
    rate.take("ann")
    with pytest.raises(ThrottlingError):
        rate.take("ann")


# -- web pages of others


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
    ],
)
def test_a_web_page_of_others_can_not_use_the_server_of_this_machine(
    client: TestClient, headers: dict[str, str]
) -> None:
    answer = client.post("/v1/table/people/drop", headers=headers)

    assert answer.status_code == 403
    assert "people" in client.get(TABLES).json()["tables"]


def test_a_page_of_our_own_can(client: TestClient) -> None:
    headers = {"Origin": LOOPBACK, "Sec-Fetch-Site": "same-origin"}

    assert client.post("/v1/table/people/drop", headers=headers).status_code == 200


def test_every_answer_is_strict_and_has_an_id(client: TestClient) -> None:
    for path in (TABLES, "/healthz", "/nowhere", "/console"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "server" not in headers
        assert len(headers["x-request-id"]) == 16


@pytest.mark.parametrize(
    ("given", "kept"), [("job-7.a_b", True), ("a b", False), ("x" * 65, False), ("<b>", False)]
)
def test_a_request_keeps_its_id_if_it_is_one(client: TestClient, given: str, kept: bool) -> None:
    answer = client.get(TABLES, headers={"X-Request-Id": given})

    assert (answer.headers["x-request-id"] == given) is kept


def test_with_tls_browsers_are_told_to_keep_it(namespace: tiltyard.DirectoryNamespace) -> None:
    settings = ServerSettings(tls_certificate="c.pem", tls_key="k.pem")
    with TestClient(create_app(namespace, settings), base_url=LOOPBACK) as client:
        assert "strict-transport-security" in client.get("/healthz").headers


# -- settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "example.org", ""])
def test_beyond_this_machine_keys_are_demanded(host: str, people: People) -> None:
    with pytest.raises(InvalidInputError, match="needs keys"):
        ServerSettings(host=host)

    assert replace(ServerSettings(keys=people.path), host=host).host == host


@pytest.mark.parametrize("port", [-1, 65536, 99999])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(InvalidInputError, match=r"port: Input should be .* or equal to (0|65535)"):
        ServerSettings(port=port)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_on_this_machine_they_are_not(host: str) -> None:
    assert ServerSettings(host=host).is_loopback


@pytest.mark.parametrize("name", ["threads", "waiting", "connections", "max_json_bytes"])
def test_a_limit_of_zero_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}: Input should be greater"):
        ServerSettings(**{name: 0})


def test_half_a_certificate_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="both"):
        ServerSettings(tls_certificate="c.pem")


# -- audit and logs


def test_a_change_leaves_a_line_with_who_what_and_how_it_ended(
    namespace: tiltyard.DirectoryNamespace, people: People, tmp_path: Path
) -> None:
    path = tmp_path / "audit.jsonl"
    settings = ServerSettings(keys=people.path, audit=str(path))
    with TestClient(create_app(namespace, settings), base_url=LOOPBACK) as client:
        client.post("/v1/table/people/drop", headers=people.headers("writer"))
        client.post("/v1/table/people/drop", headers=people.headers("writer"))
        client.post("/v1/table/prod$people/drop", headers=people.headers("reader"))
        client.post(
            "/tiltyard/v1/optimize",
            json={"tables": [["prod", "people"], ["test", "people"]]},
            headers=people.headers("admin"),
        )
        client.get(TABLES, headers=people.headers("reader"))
        events = client.get("/tiltyard/v1/events", headers=people.headers("admin")).json()

    lines = [json.loads(line) for line in path.read_text().splitlines()]
    recorded = [(line["who"], line["what"], line["target"], line["status"]) for line in lines]
    assert recorded == [
        ("writer", "drop_table", "people", 200),
        ("writer", "drop_table", "people", 404),
        ("reader", "drop_table", "prod$people", 403),
        ("admin", "optimize_all_tables", "prod.people, test.people", 200),
    ]
    assert [line["outcome"] == "done" for line in lines] == [True, False, False, True]
    assert [event["request_id"] for event in events] == [
        line["request_id"] for line in reversed(lines)
    ]


def test_the_trash_tells_who_dropped_a_table(guarded: TestClient, people: People) -> None:
    guarded.post("/v1/table/people/drop", headers=people.headers("writer"))

    [dropped] = guarded.get("/tiltyard/v1/trash", headers=people.headers("reader")).json()

    assert dropped["dropped_by"] == "writer"


def test_a_line_of_the_log_is_json_with_all_its_fields(
    guarded: TestClient, people: People, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "tiltyard.requests"):
        guarded.get(TABLES, headers={**people.headers("reader"), "X-Request-Id": "r1"})

    [record] = caplog.records
    line = json.loads(JsonLines().format(record))
    assert (line["request_id"], line["who"], line["status"]) == ("r1", "reader", 200)
    assert people.keys["reader"] not in json.dumps(line)


# -- storage credentials


def test_credentials_of_the_store_are_vended_to_who_may_write_everywhere(
    root: str, namespace: tiltyard.DirectoryNamespace, people: People
) -> None:
    vending = tiltyard.connect(
        root, vend_input_storage_options=True, **{"storage.secret_access_key": "s3cret"}
    )
    for catalog, expected in ((vending, ["writer"]), (namespace, [])):
        settings = ServerSettings(keys=people.path)
        with TestClient(create_app(catalog, settings), base_url=LOOPBACK) as client:
            given = [
                name
                for name in ("reader", "writer", "prod admin")
                if "s3cret"
                in client.post(
                    "/v1/table/prod$people/describe", json={}, headers=people.headers(name)
                ).text
            ]
        assert given == expected
