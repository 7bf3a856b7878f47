"""A real browser before a real server. What the browser complains about fails the test."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

import tiltyard
from tests.browser.watched import Watched
from tests.console import sample
from tests.kit.process import free_port
from tiltyard.console import pages
from tiltyard.rest.app import create_app
from tiltyard.rest.server import configure
from tiltyard.rest.settings import ServerSettings
from tools.browser import AXE_SCRIPT, find_chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Ends with the module: as long as it runs, nothing else here can use asyncio."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("LEFT OUT: no Chromium here: run `make setup` as root, or install it")
    with sync_playwright() as playwright:
        # A sandbox needs rights that a container rarely has; the pages are our own.
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE_SCRIPT.exists():
        pytest.skip("LEFT OUT: axe is not under .servers: run `make setup`")
    return AXE_SCRIPT.read_text()


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop to copy."""
    root = tmp_path_factory.mktemp("stocked") / "lake"
    sample.fill(root)
    sample.throw_away(root)
    return root


@pytest.fixture
def catalog(stocked: Path, tmp_path: Path) -> tiltyard.DirectoryNamespace:
    shutil.copytree(stocked, tmp_path / "lake")
    return tiltyard.connect(tmp_path / "lake", dir_listing_enabled=False, actor="ada")


@pytest.fixture
def address(catalog: tiltyard.DirectoryNamespace) -> Iterator[str]:
    with serving(catalog, ServerSettings(port=free_port())) as address:
        yield address


@contextmanager
def serving(catalog: tiltyard.DirectoryNamespace, settings: ServerSettings) -> Iterator[str]:
    """The server on a real socket, in a thread."""
    server = uvicorn.Server(configure(create_app(catalog, settings, pages=pages()), settings))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server has ended"
            thread.join(0.02)
        yield f"http://{settings.host}:{settings.port}/console/"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def visit(chromium: Browser, address: str) -> Iterator[Watched]:
    """A page of the console on a wide screen, in light colours."""
    with watching(chromium, address) as watched:
        yield watched


@contextmanager
def watching(
    chromium: Browser, address: str, *, width: int = 1280, height: int = 800, scheme: str = "light"
) -> Iterator[Watched]:
    context: BrowserContext = chromium.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page: Page = context.new_page()
    watched = Watched(page, address, _pictures())
    yield watched
    context.close()
    assert watched.complaints == []


def _pictures() -> Path | None:
    """Where pictures go, if somebody asks for some: `make pictures`."""
    asked = os.environ.get("TILTYARD_PICTURES")
    return Path(asked) if asked else None
