"""How a step speaks: plain words, a command or lines of Python that really run, the directory.

Everything fits into 80 columns and reads the same in a pipe.
"""

from __future__ import annotations

import io
import json
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
from tiltyard.formatting import counted

CATALOG = Path("demo-catalog")
FILES = Path("demo-files")
WIDTH = 80

# A process of its own, which loads everything first and then waits for a command to run.
_RACER = (
    "import json, sys, tiltyard.namespace; from tiltyard.cli import main; print(flush=True); "
    "given = sys.stdin.readline(); sys.exit(main(json.loads(given)) if given else 0)"
)
RACERS = 5  # in all races together; they load while the first steps play


class Stage:
    """Where the steps play. What one step defines in Python, the later ones can use."""

    def __init__(self) -> None:
        self.variables: dict[str, Any] = {}
        self._console = Console(width=WIDTH, highlight=False)
        self._racers = [_racer() for _ in range(RACERS)]

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
        commands = ("table list --all", "trash list", "table head products", "--help")
        self._code(*(f".venv/bin/tiltyard --root {CATALOG} {command}" for command in commands))
        self.say("Then read docs/getting-started.md. docs/on-disk-format.md is for the curious.")
        self._console.print()

    # -- deeds

    def keep(self, name: str, *lines: str) -> Path:
        """Show a file and write it."""
        self._code(f"# {name}", *lines)
        path = FILES / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def shell(self, *arguments: str) -> None:
        """Show a tiltyard command and run it."""
        self._code("$ tiltyard " + " ".join(map(_typed, arguments)))
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

    def race(self, *commands: Sequence[str]) -> list[int]:
        """Show tiltyard commands, run them in as many processes at the same moment.

        What they say is shown in the order of the commands; their exit statuses are returned.
        """
        self._code(*(f"$ tiltyard {' '.join(map(_typed, each))} &" for each in commands))
        racers = [self._racers.pop() for _ in commands]
        for racer in racers:
            assert racer.stdout is not None
            racer.stdout.readline()
        for racer, command in zip(racers, commands, strict=True):
            assert racer.stdin is not None
            racer.stdin.write(json.dumps(command) + "\n")
            racer.stdin.flush()
        said = [racer.communicate()[1].strip() for racer in racers]
        self._indented("\n".join(said).splitlines())
        return [racer.returncode for racer in racers]

    def directory(self) -> None:
        """Show what lies in the catalog's directory, one level deep."""
        lines = [f"{CATALOG}/"]
        for path in sorted(CATALOG.iterdir()):
            if path.name.startswith("."):  # where a local store keeps its locks
                continue
            if path.is_dir():
                count = sum(each.is_file() for each in path.rglob("*"))
                lines.append(f"    {path.name + '/':<24} {counted(count, 'file')}")
            else:
                lines.append(f"    {path.name:<24} {counted(path.stat().st_size, 'byte')}")
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


def _typed(argument: str) -> str:
    """As one would type it in a shell."""
    return f'"{argument}"' if set(argument) & set(" *'<>") else argument


def _racer() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _RACER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
