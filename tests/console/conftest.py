"""The console over a small shop, and users of each role."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
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
from tiltyard.rest.server import ServerSettings

ADDRESS = "http://127.0.0.1:2333"
TOKEN = re.compile(r'name="token" value="([^"]+)"')


@dataclass
class User:
    """A user without a browser: opens pages, and sends the forms that are on them."""

    client: TestClient

    def get(self, path: str = "") -> Response:
        return self.client.get(f"/console/{path}")

    def page(self, path: str = "") -> str:
        """The text of a page that exists."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def send(self, path: str, page: str = "login", **fields: str) -> Response:
        """Send a form with the token of a page."""
        return self.client.post(
            f"/console/{path}", data={"token": self.token(page), **fields}, follow_redirects=True
        )

    def token(self, page: str = "login") -> str:
        match = TOKEN.search(self.get(page).text) or TOKEN.search(self.get("").text)
        assert match, "no form is on the page"
        return unescape(match[1])


LogIn = Callable[..., User]


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
def user(app: Starlette) -> Iterator[User]:
    """The user of a server without keys."""
    with TestClient(app, base_url=ADDRESS) as client:
        yield User(client)


@pytest.fixture
def log_in(guarded: Starlette, keys: Path) -> Iterator[LogIn]:
    """`log_in(role)` logs in with a new key; `log_in(None)` does not log in."""

    def log_in(role: Role | None, prefix: tuple[str, ...] = ()) -> User:
        user = User(TestClient(guarded, base_url=ADDRESS))
        if role is not None:
            name = f"{role.value} {len(Keyring(str(keys)).listed())}"
            made = Keyring(str(keys)).add(name, role, prefix)
            assert user.send("login", key=made.text).status_code == 200
        return user

    with TestClient(guarded, base_url=ADDRESS):  # one lifespan for all of them
        yield log_in
