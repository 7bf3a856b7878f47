"""The files under `_versions/`: how a version is named, and which is the latest.

Lance names versions newest first (u64::MAX minus the number, 20 digits) or, in older tables, by the
plain number. Staged and detached manifests have other names and are no versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from tiltyard.catalog import names
from tiltyard.store import Entry, Store

_MANIFEST = re.compile(r"(\d+)\.manifest")
_NEWEST_FIRST = 2**64 - 1
_DIGITS = 20


class Naming(StrEnum):
    """How a table names its versions, in the words of the specification."""

    NEWEST_FIRST = "v2"
    PLAIN = "v1"


@dataclass(frozen=True, slots=True)
class VersionFile:
    """One committed version of a table, and the object that holds it."""

    version: int
    key: str
    size: int = field(default=0, compare=False)
    modified_ms: int | None = field(default=None, compare=False)
    e_tag: str | None = field(default=None, compare=False)

    @property
    def naming(self) -> Naming:
        """How the table names its versions, by the name of this one."""
        digits = self.key.rpartition("/")[2].partition(".")[0]
        return Naming.NEWEST_FIRST if len(digits) == _DIGITS else Naming.PLAIN


def parse(entry: Entry) -> VersionFile | None:
    """The version that an object under `_versions/` holds, if it is a finished one."""
    match = _MANIFEST.fullmatch(entry.key.rpartition("/")[2])
    if match is None:
        return None
    number = int(match[1])
    return VersionFile(
        _NEWEST_FIRST - number if len(match[1]) == _DIGITS else number,
        entry.key,
        entry.size,
        entry.modified_ms,
        entry.tag.e_tag if entry.tag else None,
    )


def key_of(location: str, version: int, naming: Naming = Naming.NEWEST_FIRST) -> str:
    """Where Lance keeps a version."""
    newest_first = naming is Naming.NEWEST_FIRST
    name = f"{_NEWEST_FIRST - version:020d}" if newest_first else str(version)
    return f"{location}/{names.VERSIONS_DIRECTORY}/{name}.manifest"


def every(store: Store, location: str) -> list[VersionFile]:
    """All versions of a table, oldest first. One request per 1,000."""
    files = map(parse, store.list(f"{location}/{names.VERSIONS_DIRECTORY}").objects)
    return sorted((file for file in files if file), key=lambda file: file.version)


def latest(store: Store, location: str) -> VersionFile | None:
    """The latest version of a table. One request, unless something else sorts before it."""
    first = store.first(f"{location}/{names.VERSIONS_DIRECTORY}")
    if first is None:
        return None
    file = parse(first)
    if file is not None and file.naming is Naming.NEWEST_FIRST:
        return file
    return max(every(store, location), key=lambda file: file.version, default=None)
