"""A page in a browser: going places, taking pictures if wanted, and what it complains of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Page, Response

# What the browser says of an answer that is a refusal on purpose.
_REFUSALS = "Failed to load resource: the server responded with a status of 4"


class Watched:
    """One page. Errors of scripts and of the policy are kept."""

    def __init__(self, page: Page, address: str, pictures: Path | None) -> None:
        self.page = page
        self.complaints: list[str] = []
        self._address = address
        self._pictures = pictures
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path: str = "") -> Response | None:
        return self.page.goto(self._address + path)

    def click(self, role: Any, name: str) -> None:
        """Click what a screen reader calls so; of several, the first."""
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

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_REFUSALS):
            self.complaints.append(message.text)
