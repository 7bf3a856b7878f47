"""Every command that there is, found by walking the tree that is run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tiltyard.cli.app import front


def pages(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each page of help: the words that lead to it, and its command. The front comes first."""
    command = command or front()
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from pages(below, (*path, name))


def verbs() -> list[str]:
    """What can be done: `table list`, `doctor`."""
    return [" ".join(path) for path, command in pages() if not hasattr(command, "commands")]
