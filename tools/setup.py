"""Sets up a check-out: `python -m tools.setup core|dev|spark|servers|java ...`, called by make.
A step that is already done costs a file read; steps that do not need each other run side by side.
What a step installs is written in pyproject.toml, constraints.txt and tools/versions.toml."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tools.java import java_home
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
PROFILES: dict[str, tuple[str, Sequence[str]]] = {
    "core": ("", ()),
    "dev": ("[dev]", ("core",)),
    "spark": ("[dev,spark]", ("core", "dev")),
}


def install_project(profile: str) -> None:
    """Put the project, editable, and its libraries into .venv."""
    extras, covered = PROFILES[profile]
    mark = _project_mark()
    if is_done(VENV / f".tiltyard-{profile}", mark):
        return
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


def print_java_home() -> None:
    print(java_home())


STEPS: dict[str, Sequence[Callable[[], None]]] = {
    **{profile: [partial(install_project, profile)] for profile in PROFILES},
    "servers": [install_s3_servers, install_azurite],
    "java": [print_java_home],
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
