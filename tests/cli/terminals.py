"""The command on a terminal: a process of its own with a pseudo-terminal on both sides."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_S = 300
CTRL_C = "\x03"
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


# Who opens a terminal and has none gets it for its own, and so the Ctrl-C that is typed there.
_COMMAND = """
import os
os.close(os.open(os.ttyname(0), os.O_RDWR))
import runpy, sys
module = sys.argv.pop(1)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
_REPOSITORY = Path(__file__).parents[2]


class Screen:
    """What a person sees and types while one command runs."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self._process, self._terminal = process, terminal
        self.raw = ""

    @property
    def text(self) -> str:
        """All that was shown, without colours and movements of the cursor."""
        return _CODES.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, pattern: str) -> str:
        """Watch until a pattern shows up. The time is a limit, not something to expect."""
        end = time.monotonic() + LIMIT_S
        while not (found := re.search(pattern, self.text)):
            assert time.monotonic() < end, f"{pattern!r} never came:\n{self.text}"
            assert self._read(), f"{pattern!r} did not come:\n{self.text}"
        return found.group()

    def type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def end(self) -> int:
        """Watch until the command has ended, and return its exit status."""
        while self._read():
            pass
        return self._process.wait(LIMIT_S)

    def _read(self) -> bool:
        if not select.select([self._terminal], [], [], LIMIT_S)[0]:
            raise AssertionError(f"nothing came for {LIMIT_S} s:\n{self.text}")
        try:
            more = os.read(self._terminal, 65536)
        except OSError:  # the other side is closed: the command has ended
            return False
        self.raw += more.decode(errors="replace")
        return bool(more)


@contextmanager
def terminal(root: Path, *arguments: str, hold_after: int | None = None) -> Iterator[Screen]:
    """Run `tiltyard` on a terminal of 100 columns, on the catalog in `root`.

    With `hold_after` it stops in the middle, until it is interrupted: see `held`.
    """
    command = ("tiltyard",) if hold_after is None else ("tests.cli.held", str(hold_after))
    ours, theirs = pty.openpty()
    python_path = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "TILTYARD_ROOT": str(root),
        "COLUMNS": "100",
        "TERM": "xterm-256color",
        "PYTHONPATH": os.pathsep.join([str(_REPOSITORY), *filter(None, [python_path])]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, *command, *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=environment, cwd=root.parent, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Screen(process, ours)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)
