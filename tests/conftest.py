"""Fixtures for the whole suite: the object stores, each started when a test first asks for it and
stopped with the session (one per worker, when tests run in parallel)."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TypeVar

import pytest

from tests.kit import servers
from tests.kit.buckets import AzureServer, S3Server
from tests.kit.process import tail
from tools.servers import usable_node

S = TypeVar("S", S3Server, AzureServer)

_SERVER_FIXTURES = {"ministack", "seaweedfs", "azurite", "rclone_s3"}


@pytest.fixture(scope="session")
def ministack() -> Iterator[S3Server]:
    with _started(servers.ministack) as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[S3Server]:
    with _started(servers.seaweedfs) as server:
        yield server


@pytest.fixture(scope="session")
def rclone_s3() -> Iterator[S3Server]:
    with _started(servers.rclone_s3) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[AzureServer]:
    # Without Node.js Azurite may be missing: then its tests are skipped, and say so.
    with _started(servers.azurite, required=usable_node() is not None) as server:
        yield server


@pytest.fixture
def transport() -> str:
    """How a client reaches its catalog: by itself. The behaviours try the server, too."""
    return "direct"


@contextmanager
def _started(
    start: Callable[[], AbstractContextManager[S]], *, required: bool = True
) -> Iterator[S]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(start())
        except servers.NotInstalled as missing:
            if required and os.environ.get("TILTYARD_REQUIRE_SERVERS"):
                pytest.fail(str(missing))
            pytest.skip(f"LEFT OUT: {missing}")
        yield server


# Many processes in a bucket mostly wait for its one server.
_CROWDS = {
    "test_every_acknowledged_row_is_there",
    "test_what_was_acknowledged_outlives_whoever_is_killed",
}


def pytest_configure() -> None:
    # A client that finds keys or a proxy in the environment could leave the loopback interface,
    # and one that finds no keys would ask the cloud's metadata service for some.
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _SERVER_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("servers")
        chosen = getattr(item, "callspec", None)
        in_a_bucket = chosen is not None and chosen.params.get("place") == "s3"
        if in_a_bucket and getattr(item, "originalname", None) in _CROWDS:
            item.add_marker("slow")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {}).values()
        logs = {each.name: each.log for each in used if isinstance(each, S3Server | AzureServer)}
        for name, log in logs.items():
            report.sections.append((f"log of {name}", tail(log, lines=20)))
    return report
