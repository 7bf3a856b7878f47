"""A real browser and a real server. What the browser complains about fails the test."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Response,
    sync_playwright,
)

import tiltyard
from tests.console import sample
from tests.kit.rest import running
from tiltyard.console import pages
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings
from tools.browser import AXE_SCRIPT, find_chromium

# What the browser says of a response that is an error on purpose.
_REFUSED = "Failed to load resource: the server responded with a status of 4"


class BrowserPage:
    """One page in a browser. Errors of scripts and of the content policy are kept."""

    def __init__(self, page: Page, address: str, pictures: Path | None) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._address = address
        self._pictures = pictures
        page.on("console", self._on_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path: str = "") -> Response | None:
        return self.page.goto(self._address + path)

    def click(self, role: Any, name: str) -> None:
        """Click the element with this accessible name; of several, the first."""
        self.page.get_by_role(role, name=name, exact=True).first.click()

    def fill(self, label: str, text: str) -> None:
        self.page.locator("[popover]:popover-open, main").last.get_by_label(label).fill(text)

    def sees(self, text: str) -> None:
        """Wait until a text is there."""
        self.page.get_by_text(text).first.wait_for()

    def picture(self, name: str, *, full: bool = False) -> None:
        if self._pictures is not None:
            path = self._pictures / f"console-{name}.png"
            self.page.screenshot(path=path, full_page=full)

    def findings(self, axe: str, *rules: str) -> list[str]:
        """What axe finds serious or critical on the page as it is now, by all rules or some."""
        self.page.evaluate(axe)
        options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
        report: Mapping[str, Any] = self.page.evaluate("options => axe.run(options)", options)
        return [
            f"{self.page.url}: {violation['id']}: {node['html']}"
            for violation in report["violations"]
            if violation["impact"] in ("serious", "critical")
            for node in violation["nodes"]
        ]

    def _on_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSED):
            self.complaints.append(message.text)


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
    with serving(catalog, ServerSettings()) as address:
        yield address


@contextmanager
def serving(catalog: tiltyard.DirectoryNamespace, settings: ServerSettings) -> Iterator[str]:
    """A server with the console, and the address of its pages."""
    with running(create_app(catalog, settings, pages=pages()), settings) as address:
        yield f"{address}/console/"


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[BrowserPage]:
    """A page of the console on a wide screen, in light colours."""
    with open_page(chromium, address) as page:
        yield page


@contextmanager
def open_page(
    chromium: Browser, address: str, *, width: int = 1280, height: int = 800, scheme: str = "light"
) -> Iterator[BrowserPage]:
    context: BrowserContext = chromium.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page = BrowserPage(context.new_page(), address, _pictures())
    yield page
    context.close()
    assert page.complaints == []


def _pictures() -> Path | None:
    """Where pictures go, if somebody asks for some: `make pictures`."""
    directory = os.environ.get("TILTYARD_PICTURES")
    return Path(directory) if directory else None
