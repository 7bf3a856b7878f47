"""What every set-up step shares: where things go, how a step speaks, runs a program, remembers
that it is done, and gives up with one line that says what to do."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
SERVERS = ROOT / ".servers"

# What pip and npm say when the registry does not answer; anything else is an error of its own.
_OFFLINE = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "NewConnectionError",
    "ConnectTimeoutError",
    "ProxyError",
    "No matching distribution found",
    "ResolutionImpossible",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ETIMEDOUT",
)


class SetupError(Exception):
    """Set-up stops here; the message is one line and says what to install or mend."""


def say(line: str) -> None:
    print(f"tiltyard: {line}", file=sys.stderr, flush=True)


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def run(
    command: Sequence[str | Path], *, log: Path, doing: str, env: Mapping[str, str] | None = None
) -> None:
    """Run a program with its output in a log file; a failure names the cause and the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode == 0:
        return
    if any(sign in log.read_text(errors="replace") for sign in _OFFLINE):
        cause = "the package registry did not answer or lacks a version; check the network"
    else:
        cause = f"{Path(command[0]).name} ended with status {done.returncode}"
    raise SetupError(f"{doing} failed: {cause} (details: {shown(log)})")


def pip_install(python: Path, *arguments: str, log: Path, doing: str) -> None:
    # The environment variables reach the isolated build of our own package, which `-c` does not.
    # They are split at blanks, so the path is relative to ROOT, where `run` runs.
    pins = {"PIP_CONSTRAINT": "constraints.txt", "PIP_BUILD_CONSTRAINT": "constraints.txt"}
    own = python.is_relative_to(VENV)
    run(
        [python, "-m", "pip", "install", "--disable-pip-version-check", *arguments],
        log=log,
        doing=doing,
        env=pins if own else None,
    )


def make_venv(where: Path) -> Path:
    """The interpreter of the virtual environment at `where`, made if it is missing or broken."""
    python = where / "bin" / "python"
    if _answers(python, "import pip"):
        return python
    if not _answers(Path(sys.executable), "import venv, ensurepip"):
        raise SetupError(
            f"{sys.executable} lacks the venv module: install it (Debian, Ubuntu: python3-venv)"
        )
    say(f"making a virtual environment in {shown(where)}")
    run(
        [sys.executable, "-m", "venv", "--clear", where],
        log=where.with_name(where.name + ".log"),
        doing=f"making {shown(where)}",
    )
    return python


def _answers(python: Path, statement: str) -> bool:
    if not python.exists():
        return False
    tried = subprocess.run([python, "-c", statement], capture_output=True, check=False)
    return tried.returncode == 0


def pins(table: str, *, joint: str = "==") -> list[str]:
    """One table of versions.toml as requirements: `name==version`, or as npm has it, `@`."""
    versions = tomllib.loads((ROOT / "tools/versions.toml").read_text())
    return [f"{name}{joint}{version}" for name, version in versions[table].items()]


def fingerprint(*parts: object) -> str:
    # ROOT is a part: virtual environments and editable installs break when a check-out moves.
    return hashlib.sha256(json.dumps([str(ROOT), *parts], sort_keys=True).encode()).hexdigest()


def is_done(stamp: Path, mark: str) -> bool:
    return stamp.is_file() and stamp.read_text() == mark


def set_done(stamp: Path, mark: str) -> None:
    stamp.write_text(mark)
