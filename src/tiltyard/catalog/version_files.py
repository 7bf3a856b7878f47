"""The files under `_versions/`: how a version is named, and which is the latest.

Lance names versions newest first (u64::MAX minus the number, 20 digits) or, in older tables, by the
plain number. Staged and detached manifests have other names and are no versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tiltyard import names
from tiltyard.store import Entry, Store

_MANIFEST = re.compile(r"(\d+)\.manifest")
_NEWEST_FIRST = 2**64 - 1
_DIGITS = 20


@dataclass(frozen=True, slots=True)
class VersionFile:
    """One committed version of a table, and the object that holds it."""

    version: int
    key: str


def parse(entry: Entry) -> VersionFile | None:
    """The version that an object under `_versions/` holds, if it is a finished one."""
    match = _MANIFEST.fullmatch(entry.name)
    if match is None:
        return None
    number = int(match[1])
    return VersionFile(_NEWEST_FIRST - number if len(match[1]) == _DIGITS else number, entry.key)


def key_of(location: str, version: int) -> str:
    """Where Lance keeps a version of a table that names them newest first."""
    return f"{location}/{names.VERSIONS_DIRECTORY}/{_NEWEST_FIRST - version:020d}.manifest"


def latest(store: Store, location: str) -> VersionFile | None:
    """The latest version of a table. One request, unless something else sorts before it."""
    folder = f"{location}/{names.VERSIONS_DIRECTORY}"
    first = store.first(folder)
    if first is None:
        return None
    found = parse(first)
    if found is not None and len(first.name.partition(".")[0]) == _DIGITS:
        return found
    every = (parse(entry) for entry in store.list(folder).objects)
    return max((each for each in every if each), key=lambda each: each.version, default=None)
