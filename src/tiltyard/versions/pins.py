"""Pins: notes that a version is in use for a moment, so that nobody deletes it or its files.

Whoever restores a version builds on what it refers to, and not on the latest. A collector moves the
boundary and then looks at pins; whoever pins looks at the boundary after that. So either the pin is
seen, or it is seen that the version was given up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tiltyard import names
from tiltyard.clock import Clock
from tiltyard.errors import TableVersionNotFoundError
from tiltyard.store import Store

_FORMAT = 1
_FOLDER = "pins"
_SUFFIX = ".json"


def folder(location: str) -> str:
    """Where the pins of a table, or of one of its branches, lie: outside of it."""
    return f"{names.BOUNDARIES}/{location}/{_FOLDER}"


def is_pin(key: str) -> bool:
    """Whether an object beside the boundaries is a pin."""
    parent, _, name = key.rpartition("/")
    return parent.endswith(f"/{_FOLDER}") and name.endswith(_SUFFIX)


@contextmanager
def pinned(
    store: Store, clock: Clock, location: str, version: int, is_kept: Callable[[int], bool]
) -> Iterator[None]:
    """Keep a version for as long as the block lasts. TableVersionNotFoundError if it was given up.

    Two requests, and what `is_kept` needs. A pin that a crash leaves keeps its version until it is
    removed with the orphans.
    """
    key = f"{folder(location)}/{clock.token(16)}{_SUFFIX}"
    body = {"format": _FORMAT, "version": version, "at_ms": clock.now_ms()}
    store.put(key, json.dumps(body).encode())
    try:
        if not is_kept(version):
            raise TableVersionNotFoundError(
                f"version {version} can't be restored: it was deleted, or is about to be"
            )
        yield
    finally:
        store.delete(key)


def version_of(body: dict[str, Any]) -> int:
    """The version that a pin is about. ValueError for a format that is not known."""
    if body["format"] != _FORMAT:
        raise ValueError(f"format {body['format']}")
    return int(body["version"])
