"""The console as people use it, in Chromium: by mouse, by keyboard, on a phone, without sight."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

import tiltyard
from tests.browser.conftest import serving, watching
from tests.browser.watched import Watched
from tests.kit.process import free_port
from tiltyard.access import Keyring, Role
from tiltyard.lifecycle.trash import TableState
from tiltyard.rest.settings import ServerSettings

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
    visit: Watched, catalog: tiltyard.DirectoryNamespace
) -> None:
    visit.go()
    visit.sees("Where the bytes are")
    visit.picture("overview")
    visit.click("link", "Tables")
    visit.page.get_by_label("Search tables").fill("custom")
    visit.page.keyboard.press("Enter")
    visit.click("link", "shop.customers")
    visit.click("button", "Drop…")
    visit.fill("Why", "moved to the new shop")
    visit.click("button", "Drop")

    visit.sees("Table shop.customers is in the trash.")
    visit.picture("trash")
    visit.click("button", "Restore as… shop.customers")
    visit.fill("New id", "shop.clients")
    visit.picture("restore-as")
    visit.click("button", "Restore")
    visit.sees("Table shop.clients, which was shop.customers, is back.")
    assert catalog.open_table(["shop", "clients"]).count_rows() == 900

    visit.click("button", "Drop…")
    visit.click("button", "Drop")
    visit.click("button", "Hold shop.clients")
    visit.sees("is held until it is released")
    visit.click("button", "Release shop.clients")
    visit.click("button", "Purge… shop.clients")
    visit.fill("Type its id", "shop.clients")
    visit.picture("purge")
    visit.click("button", "Purge")
    visit.sees("Purged shop.clients:")
    assert catalog.table_status(["shop", "clients"]).state is TableState.NOT_FOUND

    visit.click("link", "Events")
    visit.sees("purge table")
    visit.picture("events")


def test_maintenance_is_planned_and_then_applied(
    visit: Watched, catalog: tiltyard.DirectoryNamespace
) -> None:
    visit.go("table?id=shop.orders")
    visit.picture("table")
    visit.click("link", "Maintenance")
    visit.click("button", "Make a plan: Optimize tables")
    visit.sees("1 table of 5 can be made faster.")
    expect(visit.page.get_by_role("cell", name="shop.orders")).to_be_visible()
    visit.picture("plan")
    visit.click("button", "Apply the plan")
    visit.sees("Optimized 1 table: 6 files became 1.")
    visit.picture("receipts")
    assert len(catalog.open_table(["shop", "orders"]).get_fragments()) == 1

    visit.click("link", "Maintenance")
    visit.click("button", "Make a plan: Empty the trash")
    visit.sees("1 dropped table")
    visit.page.get_by_label("Type how many they are").fill("1")
    visit.click("button", "Apply the plan")
    visit.sees("Purged 1 table")
    assert catalog.table_status(["shop", "prices_old"]).state is TableState.NOT_FOUND
    visit.click("link", "Maintenance")
    visit.picture("maintenance", full=True)


def test_a_keyboard_is_enough(visit: Watched, catalog: tiltyard.DirectoryNamespace) -> None:
    visit.go("trash")
    keyboard = visit.page.keyboard
    keyboard.press("Tab")
    expect(visit.page.get_by_text("Skip to the content")).to_be_focused()
    visit.page.get_by_role("button", name="Purge… shop.clicks").focus()
    keyboard.press("Enter")
    typed = visit.page.locator(":popover-open input[name=typed]")
    expect(typed).to_be_focused()
    keyboard.press("Escape")
    expect(typed).to_be_hidden()
    keyboard.press("Enter")
    keyboard.type("shop.clicks")
    keyboard.press("Enter")
    visit.sees("Purged shop.clicks")
    assert catalog.table_status(["shop", "clicks"]).state is TableState.NOT_FOUND
    visit.go("tables")
    keyboard.press("/")
    expect(visit.page.get_by_label("Search tables")).to_be_focused()


def test_the_theme_is_the_systems_until_somebody_chooses(chromium: Browser, address: str) -> None:
    with watching(chromium, address, scheme="dark") as visit:
        visit.go()
        visit.picture("overview-dark")
        ground = "getComputedStyle(document.querySelector('.tiles')).backgroundColor"
        dark = visit.page.evaluate(ground)
        visit.click("button", "Light or dark")
        light = visit.page.evaluate(ground)
        assert light != dark
        visit.go("trash")
        assert visit.page.locator("html").get_attribute("data-theme") == "light"


# What can differ from the wide page in light colours, where all rules are asked.
COLOURS, ROOM = ("color-contrast",), ("scrollable-region-focusable", "target-size")


@pytest.mark.parametrize(
    ("scheme", "width", "rules"),
    [("light", 1280, ()), ("dark", 1280, COLOURS), ("light", 390, ROOM)],
)
def test_every_page_can_be_used_by_everybody(
    chromium: Browser, address: str, axe: str, scheme: str, width: int, rules: tuple[str, ...]
) -> None:
    with watching(chromium, address, width=width, scheme=scheme) as visit:
        for path in PAGES:
            visit.go(path)
            assert visit.findings(axe, *rules) == []
            wider = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, f"{path} has to be moved sideways"
            if width < 500 and path in ("", "trash"):
                visit.picture(f"phone-{path or 'overview'}")
        visit.go("trash")
        visit.click("button", "Purge… shop.clicks")
        assert visit.findings(axe, *rules) == []


def test_who_has_a_key_logs_in(
    chromium: Browser, catalog: tiltyard.DirectoryNamespace, axe: str, tmp_path: Path
) -> None:
    keys = str(tmp_path / "keys.json")
    key = Keyring(keys).add("ada", Role.READER).text
    with (
        serving(catalog, ServerSettings(port=free_port(), keys=keys)) as address,
        watching(chromium, address) as visit,
    ):
        visit.go("trash")
        visit.picture("login")
        assert visit.findings(axe) == []
        visit.page.get_by_label("Your key").fill("wrong")
        visit.page.keyboard.press("Enter")
        visit.sees("That is not a key of this server.")
        visit.page.get_by_label("Your key").fill(key)
        visit.click("button", "Log in")
        visit.sees("nobody reads it")
        expect(visit.page.get_by_role("button", name="Restore")).to_have_count(0)
        visit.click("button", "Log out")
        visit.sees("Your key")
