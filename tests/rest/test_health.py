"""Health, readiness and metrics."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

import tiltyard
from tests.rest.conftest import LOOPBACK, People
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings


def test_a_server_tells_that_it_is_there_and_can_work(guarded: TestClient) -> None:
    assert guarded.get("/healthz").text == "ok\n"
    assert guarded.get("/readyz").text == "ok\n"


def test_a_server_that_stops_is_not_ready(client: TestClient) -> None:
    client.app.state.ready = False

    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200


def test_a_server_whose_catalog_is_broken_is_not_ready(
    namespace: tiltyard.DirectoryNamespace, root: str
) -> None:
    for version in Path(root, "__manifest", "_versions").glob("*.manifest"):
        version.write_bytes(b"no manifest")
    app = create_app(tiltyard.connect(root), ServerSettings())

    with TestClient(app, base_url=LOOPBACK) as client:
        assert client.get("/readyz").status_code == 503


def test_metrics_count_requests(guarded: TestClient, people: People) -> None:
    def count() -> int:
        text = guarded.get("/metrics", headers=people.headers("reader")).text
        [line] = [line for line in text.splitlines() if "request_seconds_count" in line]
        return int(line.split()[1])

    before = count()
    guarded.get("/healthz")

    assert count() == before + 2  # and the metrics themselves
