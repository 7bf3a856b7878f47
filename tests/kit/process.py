"""Runs a server program for as long as a block lasts: on free loopback ports, in a folder of its
own that is removed afterwards, its output in a log. Ready means that a probe says so, not that some
time has passed; at the end the whole process group is killed."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_READY_WITHIN_SECONDS = 300.0
_POLL_SECONDS = 0.05
# A port that was free a moment ago may be taken when the server binds it; then new ones are drawn.
_ATTEMPTS = 3


class ServerFailed(Exception):
    """The server ended or did not become ready; the message shows the end of its log."""


@dataclass(frozen=True)
class Launch:
    """How to start a server once, and how to see that it is ready."""

    command: Sequence[str | Path]
    is_ready: Callable[[], bool]
    env: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def running(name: str, plan: Callable[[Path], Launch]) -> Iterator[Path]:
    """Start what `plan` says for a fresh folder; yields the log once the server is ready."""
    with tempfile.TemporaryDirectory(prefix=f"tiltyard-{name}-") as top, ExitStack() as stack:
        for attempt in range(1, _ATTEMPTS + 1):
            folder, log = Path(top, str(attempt)), Path(top, f"{attempt}.log")
            folder.mkdir()
            launch = plan(folder)
            process = _spawn(launch, log)
            stack.callback(_kill, process)
            if _becomes_ready(name, process, launch, log):
                break
        else:
            raise ServerFailed(f"{name} ended at once, each time:\n{tail(log)}")
        yield log


def _spawn(launch: Launch, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            [str(part) for part in launch.command],
            env={**os.environ, **launch.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _becomes_ready(name: str, process: subprocess.Popen[bytes], launch: Launch, log: Path) -> bool:
    """False if the process ended instead."""
    deadline = time.monotonic() + _READY_WITHIN_SECONDS
    while process.poll() is None:
        if launch.is_ready():
            return True
        if time.monotonic() > deadline:
            raise ServerFailed(f"{name} was not ready in time:\n{tail(log)}")
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_POLL_SECONDS)  # the pause, cut short by an early end
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def tail(log: Path, lines: int = 40) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int, *, and_above: int = 0) -> list[int]:
    """Ports that are free, each together with the port `and_above` higher. They lie below the
    range from which systems take ports for outgoing connections, so these cannot get in the way."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(11_000, 21_000)
        if port not in found and all(_is_free(each) for each in {port, port + and_above}):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
