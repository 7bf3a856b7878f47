"""Sets up a check-out: `python -m tools.setup core|spark|dev|docs|servers ...`, called by make.
A step that is already done costs a file read; steps that do not need each other run side by side.
What a step installs is written in pyproject.toml, constraints.txt and tools/versions.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tools.browser import install_axe, install_chromium
from tools.java import has_java
from tools.servers import install_azurite, install_s3_servers
from tools.step import (
    ROOT,
    VENV,
    SetupError,
    fingerprint,
    is_done,
    make_venv,
    pip_install,
    say,
    set_done,
)

# Each profile with the extras it installs and the smaller profiles it covers.
PROFILES: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "core": (("server",), ()),
    "spark": (("server", "spark"), ("core",)),
    "dev": (("dev",), ("core", "spark")),
    "docs": (("docs",), ()),
}
WITH_SPARK = ("spark", "dev")


def install_project(profile: str) -> None:
    """Put the project, editable, and its libraries into .venv."""
    wanted, covered = PROFILES[profile]
    mark = _project_mark()
    if is_done(VENV / f".tiltyard-{profile}", mark):
        return
    if profile in WITH_SPARK and not has_java():
        wanted = [*wanted, "java"]
    extras = f"[{','.join(wanted)}]"
    python = make_venv(VENV)
    say(f"installing tiltyard{extras} into .venv (the first time takes a minute or two)")
    pip_install(
        python,
        *("-c", "constraints.txt", "-e", f".{extras}"),
        log=VENV / "setup.log",
        doing=f"installing tiltyard{extras}",
    )
    for name in (profile, *covered):
        set_done(VENV / f".tiltyard-{name}", mark)


def _project_mark() -> str:
    # Only what decides the installed set: a new lint rule in pyproject.toml reinstalls nothing.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    constraints = (ROOT / "constraints.txt").read_text()
    return fingerprint(project["build-system"], project["project"], constraints)


def install_from_npm() -> None:
    """One after the other: both may have to install Node.js first."""
    install_azurite()
    install_axe()


STEPS: dict[str, Sequence[Callable[[], None]]] = {
    **{profile: [partial(install_project, profile)] for profile in PROFILES},
    "servers": [install_s3_servers, install_from_npm, install_chromium],
}


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in STEPS]
    if unknown or not names:
        say(f"usage: python -m tools.setup {'|'.join(STEPS)} ...")
        return 2
    with ThreadPoolExecutor() as pool:
        running = [pool.submit(step) for name in names for step in STEPS[name]]
    try:
        for step in running:
            step.result()
    except SetupError as reason:
        say(str(reason))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
