"""What an orphan is, which files of a table could be one, and by which names a version would refer
to them.

Values only, no requests. The place of a file says what kind it is; whether a version needs it is
for `referenced_files` to say.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from tiltyard.catalog import names
from tiltyard.clock import Clock, moment
from tiltyard.maintenance.referenced_files import (
    DATA,
    DELETIONS,
    INDEXES,
    TRANSACTIONS,
    ReferencedFiles,
    is_staged,
    is_uuid,
    transaction_of,
)
from tiltyard.store import Entry

# Only its age tells a file that a crash left from one of a write under way.
ORPHAN_MIN_AGE_MS = 7 * 24 * 60 * 60 * 1000


class OrphanKind(StrEnum):
    """What an orphan is."""

    FILE = "file"
    STAGED = "staged manifest"
    TEMPORARY = "temporary file"
    NOTE = "note of a write"
    PROBE = "probe"
    PIN = "pin"
    RESERVATION = "reservation"
    DIRECTORY = "directory"
    BOUNDARY = "boundary"
    TABLE = "table"

    @property
    def is_removable(self) -> bool:
        return self is not OrphanKind.TABLE


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something that nothing refers to. `location` is the table's directory that it lies in."""

    path: str
    kind: OrphanKind
    bytes: int
    modified_at: datetime
    why: str
    location: str | None = None

    @classmethod
    def of(cls, entry: Entry, kind: OrphanKind, why: str, location: str | None = None) -> Orphan:
        return cls(entry.key, kind, entry.size, moment(entry.modified_ms), why, location)


def is_old(clock: Clock, entry: Entry, min_age_ms: int) -> bool:
    return clock.now_ms() - entry.modified_ms >= min_age_ms


# -- files of a table

_PLACE = re.compile(
    rf"(?:{names.BRANCHES_DIRECTORY}/.+?/)?"
    rf"(?P<folder>{'|'.join((DATA, DELETIONS, INDEXES, TRANSACTIONS))})(?:/.*)?",
    re.DOTALL,
)
# How writers on a disk name what is not complete yet.
_TEMPORARY = re.compile(r"\.tmp.*|.*\.tmp|.*#\d+")

_WHY = {
    OrphanKind.TEMPORARY: "it was never completed",
    OrphanKind.STAGED: "it was never published",
    OrphanKind.FILE: "no version refers to it",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file of a table that is an orphan if no version refers to it."""

    location: str
    entry: Entry
    kind: OrphanKind
    folder: str = ""

    @property
    def parts(self) -> list[str]:
        """The parts of its path, from its table on."""
        return self.entry.key[len(self.location) + 1 :].split("/")

    @property
    def likeliest_name(self) -> str:
        """The name by which a version refers to it if it lies where Lance puts such files."""
        folder, _, name = self.entry.key.rpartition("/")
        if self.folder in (DATA, DELETIONS) and folder.endswith(f"/{self.folder}"):
            return name
        return next(iter(self.names), "")

    @property
    def names(self) -> list[str]:
        """Every name by which a version could refer to it, the likeliest first."""
        parts = self.parts
        if self.kind is OrphanKind.STAGED:
            return [self.entry.key]
        if self.kind is OrphanKind.TEMPORARY:
            return []
        if self.folder == INDEXES:
            return [part for part in parts if is_uuid(part)]
        if self.folder == TRANSACTIONS:
            return [transaction_of(parts[-1])]
        below = parts[parts.index(self.folder) + 1 :]
        # A blob lies in a folder that has the name of its data file.
        first = below[0] if len(below) == 1 else f"{below[0]}.lance"
        return list(dict.fromkeys([first, *parts, *(f"{part}.lance" for part in parts)]))

    def is_referenced(self, referenced: ReferencedFiles) -> bool:
        if self.kind is OrphanKind.TEMPORARY:
            return False
        if self.kind is OrphanKind.STAGED:
            return self.entry.key in referenced.files
        return referenced.includes(self.folder, self.parts)

    def is_noted(self, noted: Collection[str]) -> bool:
        """Whether a write under way has noted the file; `noted` are the names of such files."""
        return bool(noted) and any(part in noted for part in self.parts)

    @property
    def orphan(self) -> Orphan:
        return Orphan.of(self.entry, self.kind, _WHY[self.kind], self.location)


def candidate(location: str, entry: Entry) -> Candidate | None:
    """What kind of candidate a file of a table is, by its place alone; None if it is none."""
    directory, _, name = entry.key[len(location) + 1 :].rpartition("/")
    if _TEMPORARY.fullmatch(name):
        return Candidate(location, entry, OrphanKind.TEMPORARY)
    folder = _folder(directory)
    if folder == names.VERSIONS_DIRECTORY:
        return Candidate(location, entry, OrphanKind.STAGED) if is_staged(entry) else None
    return None if folder is None else Candidate(location, entry, OrphanKind.FILE, folder)


# Files come by the thousand from each directory.
@lru_cache(maxsize=1024)
def _folder(directory: str) -> str | None:
    """Which of Lance's folders a directory of a table is, or lies in."""
    parts = directory.split("/")
    if names.VERSIONS_DIRECTORY in parts:
        return names.VERSIONS_DIRECTORY
    place = _PLACE.fullmatch(directory)
    # Of indexes only those are known whose folder is a UUID.
    if place is None or (place["folder"] == INDEXES and not any(map(is_uuid, parts))):
        return None
    return str(place["folder"])


def state_of(entry: Entry) -> str:
    """One state of an object, as a text that equals no other's."""
    return f"{entry.key} {entry.size} {entry.modified_ms}"
