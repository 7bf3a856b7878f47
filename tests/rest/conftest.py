"""A catalog with something in it, an application over it, and people with keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lance_namespace as api
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

import tiltyard
from tests.behaviours.calls import PEOPLE, ipc
from tiltyard.access import Keyring, Role
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings

LOOPBACK = "http://127.0.0.1"


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def namespace(root: str) -> tiltyard.DirectoryNamespace:
    catalog = tiltyard.connect(root)
    catalog.create_namespace(api.CreateNamespaceRequest(id=["prod"]))
    catalog.create_namespace(api.CreateNamespaceRequest(id=["test"]))
    for table in (["people"], ["prod", "people"], ["test", "people"]):
        catalog.create_table(api.CreateTableRequest(id=table), ipc(PEOPLE))
    return catalog


@dataclass
class People:
    """Keys by who has them: one per role, and some that are limited to a namespace."""

    path: str
    keys: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, role: Role, *prefix: str) -> None:
        self.keys[name] = Keyring(self.path).add(name, role, prefix).text

    def headers(self, name: str) -> dict[str, str]:
        return {"x-api-key": self.keys[name]}


@pytest.fixture
def people(tmp_path: Path) -> People:
    made = People(str(tmp_path / "keys.json"))
    for role in Role:
        made.add(role.value, role)
    made.add("prod reader", Role.READER, "prod")
    made.add("prod admin", Role.ADMIN, "prod")
    return made


@pytest.fixture
def guarded(namespace: tiltyard.DirectoryNamespace, people: People) -> Iterator[TestClient]:
    """A server that asks for keys."""
    yield from _client(create_app(namespace, ServerSettings(keys=people.path)))


@pytest.fixture
def client(namespace: tiltyard.DirectoryNamespace) -> Iterator[TestClient]:
    """A server for this machine alone."""
    yield from _client(create_app(namespace, ServerSettings()))


def _client(app: Starlette) -> Iterator[TestClient]:
    with TestClient(app, base_url=LOOPBACK) as made:
        yield made
