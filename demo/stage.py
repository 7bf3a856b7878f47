"""How a step speaks: plain words, a command or lines of Python that really run, the directory.

Everything fits into 80 columns and reads the same in a pipe.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from tiltyard.cli import main as tiltyard

CATALOG = Path("demo-catalog")
WIDTH = 80

# A command in a process of its own, which loads everything first and then waits for the signal.
_RACER = (
    "import sys, tiltyard.namespace; from tiltyard.cli import main; "
    "print(flush=True); sys.stdin.readline(); sys.exit(main(sys.argv[1:]))"
)


class Stage:
    """Where the steps play. What one step defines in Python, the later ones can use."""

    def __init__(self, files: Path) -> None:
        self.files = files
        self.variables: dict[str, Any] = {}
        self._console = Console(width=WIDTH, highlight=False)

    # -- words

    def opening(self) -> None:
        self._console.print(Rule("tiltyard", style="dim"))
        self.say(
            "Lance is a file format for tables whose rows hold text, numbers, images, and the "
            "vectors that AI models make of them. A Lance table is a directory. tiltyard keeps "
            "many of them together: it knows which tables there are and where they lie, lets "
            "several programs work on them at once, and needs no server and no database for it."
        )

    def title(self, number: int, of: int, title: str) -> None:
        self._console.print()
        self._console.print(Rule(f"{number}/{of}  {title}", style="dim", align="left"))

    def say(self, *paragraphs: str) -> None:
        for paragraph in paragraphs:
            self._console.print()
            self._console.print(Text(paragraph))

    def closing(self) -> None:
        self._console.print()
        self._console.print(Rule("that was all", style="dim"))
        self.say(f"The catalog is still in ./{CATALOG}. Look around in it:")
        commands = ("table list --all", "table head products", "--help")
        self._code(*(f".venv/bin/tiltyard --root {CATALOG} {each}" for each in commands))
        self.say("Then read docs/getting-started.md. docs/on-disk-format.md is for the curious.")
        self._console.print()

    # -- deeds

    def shell(self, *arguments: str) -> None:
        """Show a tiltyard command and run it."""
        self._code("$ tiltyard " + " ".join(map(self._short, arguments)))
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            status = tiltyard(arguments)
        self._print(printed)
        assert status == 0, f"tiltyard {' '.join(arguments)} ended with status {status}"

    def python(self, *lines: str) -> None:
        """Show lines of Python and run them."""
        goes_on = (" ", ")", "except")  # every other line begins a statement
        self._code(*(f"{'...' if line.startswith(goes_on) else '>>>'} {line}" for line in lines))
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec("\n".join(lines), self.variables)
        self._print(printed)

    def race(self, *commands: Sequence[str]) -> None:
        """Show tiltyard commands, run them in as many processes at the same moment."""
        self._code(*(f"$ tiltyard {' '.join(map(self._short, each))} &" for each in commands))
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", _RACER, *each],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for each in commands
        ]
        for racer in racers:
            assert racer.stdout is not None
            racer.stdout.readline()
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        said = [racer.communicate()[0].strip() for racer in racers]
        statuses = sorted(racer.returncode for racer in racers)
        assert statuses == [0, *[5] * (len(racers) - 1)], (statuses, said)
        self._indented("\n".join(said).splitlines())

    def directory(self) -> None:
        """Show what lies in the catalog's directory, one level deep."""
        lines = [f"{CATALOG}/"]
        for path in sorted(CATALOG.iterdir()):
            if path.name.startswith("."):  # where a local store keeps its locks
                continue
            if path.is_dir():
                count = sum(each.is_file() for each in path.rglob("*"))
                lines.append(f"    {path.name + '/':<24} {count} files")
            else:
                lines.append(f"    {path.name:<24} {path.stat().st_size} bytes")
        self._indented(lines)

    def _code(self, *lines: str) -> None:
        self._indented(lines, style="cyan")

    def _print(self, printed: io.StringIO) -> None:
        if printed.getvalue():
            self._indented(printed.getvalue().splitlines())

    def _indented(self, lines: Sequence[str], style: str = "") -> None:
        self._console.print()
        for line in lines:
            self._console.print(Text("  " + line.rstrip(), style=style), soft_wrap=True)

    def _short(self, argument: str) -> str:
        """Leave out where the demo keeps its data files: it is long and means nothing."""
        return argument.removeprefix(f"{self.files}/")
