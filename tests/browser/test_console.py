"""The console as people use it, in Chromium: by mouse, by keyboard, on a phone, without sight."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import tiltyard
from tests.browser.conftest import BrowserPage, open_page, serving
from tiltyard.access import Keyring, Role
from tiltyard.lifecycle.trash import TableState
from tiltyard.rest.server import ServerSettings

PAGES = (
    "",
    "tables",
    "table?id=shop.orders",
    "trash",
    "maintenance",
    "events",
    "doctor",
    "nowhere",
)


def test_from_a_drop_to_the_trash_and_back_under_another_name_and_to_a_purge(
    page: BrowserPage, catalog: tiltyard.DirectoryNamespace
) -> None:
    page.go()
    page.sees("Where the bytes are")
    page.picture("overview")
    page.click("link", "Tables")
    page.page.get_by_label("Search tables").fill("custom")
    page.page.keyboard.press("Enter")
    page.click("link", "shop.customers")
    page.click("button", "Drop…")
    page.fill("Why", "moved to the new shop")
    page.click("button", "Drop")

    page.sees("Table shop.customers is in the trash.")
    page.picture("trash")
    page.click("button", "Restore as… shop.customers")
    page.fill("New id", "shop.clients")
    page.picture("restore-as")
    page.click("button", "Restore")
    page.sees("Table shop.clients, which was shop.customers, is back.")
    assert catalog.open_table(["shop", "clients"]).count_rows() == 900

    page.click("button", "Drop…")
    page.click("button", "Drop")
    page.click("button", "Hold shop.clients")
    page.sees("is held until it is released")
    page.click("button", "Release shop.clients")
    page.click("button", "Purge… shop.clients")
    page.fill("Type its id", "shop.clients")
    page.picture("purge")
    page.click("button", "Purge")
    page.sees("Purged shop.clients:")
    assert catalog.table_status(["shop", "clients"]).state is TableState.NOT_FOUND

    page.click("link", "Events")
    page.sees("purge table")
    page.picture("events")


def test_maintenance_is_planned_and_then_applied(
    page: BrowserPage, catalog: tiltyard.DirectoryNamespace
) -> None:
    page.go("table?id=shop.orders")
    page.picture("table")
    page.click("link", "Maintenance")
    page.click("button", "Make a plan: Optimize tables")
    page.sees("1 table of 5 can be made faster.")
    expect(page.page.get_by_role("cell", name="shop.orders")).to_be_visible()
    page.picture("plan")
    page.click("button", "Apply the plan")
    page.sees("Optimized 1 table: 6 files became 1.")
    page.picture("receipts")
    assert len(catalog.open_table(["shop", "orders"]).get_fragments()) == 1

    page.click("link", "Maintenance")
    page.click("button", "Make a plan: Empty the trash")
    page.sees("1 dropped table")
    page.page.get_by_label("Type how many they are").fill("1")
    page.click("button", "Apply the plan")
    page.sees("Purged 1 table")
    assert catalog.table_status(["shop", "prices_old"]).state is TableState.NOT_FOUND
    page.click("link", "Maintenance")
    page.picture("maintenance", full=True)


def test_a_keyboard_is_enough(page: BrowserPage, catalog: tiltyard.DirectoryNamespace) -> None:
    page.go("trash")
    keyboard = page.page.keyboard
    keyboard.press("Tab")
    expect(page.page.get_by_text("Skip to the content")).to_be_focused()
    page.page.get_by_role("button", name="Purge… shop.clicks").focus()
    keyboard.press("Enter")
    typed = page.page.locator(":popover-open input[name=typed]")
    expect(typed).to_be_focused()
    keyboard.press("Escape")
    expect(typed).to_be_hidden()
    keyboard.press("Enter")
    keyboard.type("shop.clicks")
    keyboard.press("Enter")
    page.sees("Purged shop.clicks")
    assert catalog.table_status(["shop", "clicks"]).state is TableState.NOT_FOUND
    page.go("tables")
    keyboard.press("/")
    expect(page.page.get_by_label("Search tables")).to_be_focused()


def test_the_theme_is_the_systems_until_somebody_chooses(chromium: Browser, address: str) -> None:
    with open_page(chromium, address, scheme="dark") as page:
        page.go()
        page.picture("overview-dark")
        ground = "getComputedStyle(document.querySelector('.tiles')).backgroundColor"
        dark = page.page.evaluate(ground)
        page.click("button", "Light or dark")
        light = page.page.evaluate(ground)
        assert light != dark
        page.go("trash")
        assert page.page.locator("html").get_attribute("data-theme") == "light"


# What can differ from the wide page in light colours, where all rules are asked.
COLOURS, ROOM = ("color-contrast",), ("scrollable-region-focusable", "target-size")


@pytest.mark.parametrize(
    ("scheme", "width", "rules"),
    [("light", 1280, ()), ("dark", 1280, COLOURS), ("light", 390, ROOM)],
)
def test_every_page_can_be_used_by_everybody(
    chromium: Browser, address: str, axe: str, scheme: str, width: int, rules: tuple[str, ...]
) -> None:
    with open_page(chromium, address, width=width, scheme=scheme) as page:
        for path in PAGES:
            page.go(path)
            assert page.findings(axe, *rules) == []
            wider = page.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{path} has to be moved sideways"
            if width < 500 and path in ("", "trash"):
                page.picture(f"phone-{path or 'overview'}")
        page.go("trash")
        page.click("button", "Purge… shop.clicks")
        assert page.findings(axe, *rules) == []


def test_who_has_a_key_logs_in(
    chromium: Browser, catalog: tiltyard.DirectoryNamespace, axe: str, tmp_path: Path
) -> None:
    keys = str(tmp_path / "keys.json")
    key = Keyring(keys).add("ada", Role.READER).text
    with (
        serving(catalog, ServerSettings(keys=keys)) as address,
        open_page(chromium, address) as page,
    ):
        page.go("trash")
        page.picture("login")
        assert page.findings(axe) == []
        page.page.get_by_label("Your key").fill("wrong")
        page.page.keyboard.press("Enter")
        page.sees("That is not a key of this server.")
        page.page.get_by_label("Your key").fill(key)
        page.click("button", "Log in")
        page.sees("nobody reads it")
        expect(page.page.get_by_role("button", name="Restore")).to_have_count(0)
        page.click("button", "Log out")
        page.sees("Your key")
