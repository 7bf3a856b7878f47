"""The console over a small shop: a browser without a screen for each role, and its keys."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import pytest
from httpx2 import Response
from starlette.applications import Starlette
from starlette.testclient import TestClient

import tiltyard
from tests.console import sample
from tiltyard.access import Keyring, Role
from tiltyard.console import pages
from tiltyard.rest.app import create_app
from tiltyard.rest.settings import ServerSettings

TOKEN = re.compile(r'name="token" value="([^"]+)"')


@dataclass
class Visitor:
    """Somebody at a browser: goes to pages, and sends the forms that are on them."""

    client: TestClient

    def get(self, path: str = "") -> Response:
        return self.client.get(f"/console/{path}")

    def see(self, path: str = "") -> str:
        """A page that is there."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, seen: str = "login", **fields: str) -> Response:
        """Send a form with the token of a page that was seen."""
        return self.client.post(
            f"/console/{path}", data={"token": self.token(seen), **fields}, follow_redirects=True
        )

    def token(self, seen: str = "login") -> str:
        match = TOKEN.search(self.get(seen).text) or TOKEN.search(self.get("").text)
        assert match, "no form is on the page"
        return unescape(match[1])


Enter = Callable[..., Visitor]


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop, to be copied: making it takes longer."""
    root = tmp_path_factory.mktemp("shop") / "lake"
    sample.fill(root)
    sample.throw_away(root)
    return root


@pytest.fixture
def catalog(shop: Path, tmp_path: Path) -> tiltyard.DirectoryNamespace:
    root = tmp_path / "lake"
    shutil.copytree(shop, root)
    return tiltyard.connect(root, dir_listing_enabled=False, actor="ada")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


@pytest.fixture
def app(catalog: tiltyard.DirectoryNamespace) -> Starlette:
    """A server on the loopback interface, without keys."""
    return create_app(catalog, ServerSettings(), pages=pages())


@pytest.fixture
def guarded(catalog: tiltyard.DirectoryNamespace, keys: Path) -> Starlette:
    """A server with keys."""
    return create_app(catalog, ServerSettings(keys=str(keys)), pages=pages())


@pytest.fixture
def visitor(app: Starlette) -> Iterator[Visitor]:
    """Whoever is on the machine of a server without keys."""
    with TestClient(app, base_url="http://127.0.0.1:2333") as client:
        yield Visitor(client)


@pytest.fixture
def enter(guarded: Starlette, keys: Path) -> Iterator[Enter]:
    """`enter(role)` comes in with a new key; `enter(None)` stays outside."""
    with ExitStack() as stack:
        # One lifespan for all of them: the first to leave would close the server.
        stack.enter_context(TestClient(guarded, base_url="http://127.0.0.1:2333"))

        def enter(role: Role | None, prefix: tuple[str, ...] = ()) -> Visitor:
            came = Visitor(TestClient(guarded, base_url="http://127.0.0.1:2333"))
            if role is not None:
                name = f"{role.value} {len(Keyring(str(keys)).listed())}"
                made = Keyring(str(keys)).add(name, role, prefix)
                assert came.send("login", key=made.text).status_code == 200
            return came

        yield enter
