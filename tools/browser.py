"""Installs what the tests look at the console with: Chromium from the system's packages, where we
may, and axe from npm, which checks that everybody can use a page."""

from __future__ import annotations

import os
import shutil

from tools.servers import node_and_npm, npm_install
from tools.step import SERVERS, SetupError, fingerprint, is_done, pins, run, say, set_done

AXE = SERVERS / "axe"
AXE_SCRIPT = AXE / "node_modules/axe-core/axe.min.js"
LEFT_OUT = "*** TESTS WITH A BROWSER ARE LEFT OUT"

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Chromium, or a browser that is one by another name."""
    return next((found for found in map(shutil.which, _NAMES) if found), None)


def install_chromium() -> None:
    if find_chromium() is not None:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        say(f"{LEFT_OUT}: no Chromium here (Debian: apt-get install chromium) ***")
        return
    say("installing Chromium from the system's packages")
    try:
        run(
            ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"],
            log=SERVERS / "chromium.log",
            doing="installing Chromium",
            env={"DEBIAN_FRONTEND": "noninteractive"},
        )
    except SetupError as reason:
        say(f"{LEFT_OUT}: {reason} ***")


def install_axe() -> None:
    wanted = pins("axe", joint="@")
    stamp, mark = AXE / ".done", fingerprint(wanted)
    if is_done(stamp, mark):
        return
    try:
        node, npm = node_and_npm()
    except SetupError as reason:
        say(f"*** THE CHECK OF ACCESSIBILITY IS LEFT OUT: {reason} ***")
        return
    say("installing axe into .servers")
    npm_install(node, npm, AXE, wanted, doing="installing axe")
    set_done(stamp, mark)
