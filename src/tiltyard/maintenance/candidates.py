"""Which files of a table could be orphans, and by which names something would refer to them.

Values only. A file's place says what it is; whether a version needs it is for `needed` to say, by
names that are random and so are enough wherever the file lies.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from tiltyard import names
from tiltyard.clock import moment
from tiltyard.maintenance.needed import (
    DATA,
    DELETIONS,
    INDEXES,
    TRANSACTIONS,
    Needed,
    is_staged,
    is_uuid,
    transaction_of,
)
from tiltyard.maintenance.orphan import Kind, Orphan
from tiltyard.store import Entry

_PLACE = re.compile(
    rf"(?:{names.BRANCHES_DIRECTORY}/.+?/)?"
    rf"(?P<folder>{'|'.join((DATA, DELETIONS, INDEXES, TRANSACTIONS))})(?:/.*)?",
    re.DOTALL,
)
# How writers on a disk name what is not complete yet.
_TEMPORARY = re.compile(r"\.tmp.*|.*\.tmp|.*#\d+")

_WHY = {
    Kind.TEMPORARY: "it was never completed",
    Kind.STAGED: "it was never published",
    Kind.FILE: "no version refers to it",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that would be an orphan if nothing referred to it."""

    location: str
    entry: Entry
    kind: Kind
    folder: str = ""

    @property
    def parts(self) -> list[str]:
        """Its path from its table on."""
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
        if self.kind is Kind.STAGED:
            return [self.entry.key]
        if self.kind is Kind.TEMPORARY:
            return []
        if self.folder == INDEXES:
            return [each for each in parts if is_uuid(each)]
        if self.folder == TRANSACTIONS:
            return [transaction_of(parts[-1])]
        inside = parts[parts.index(self.folder) + 1 :]
        # A blob lies in a folder that has the name of its data file.
        first = inside[0] if len(inside) == 1 else f"{inside[0]}.lance"
        return list(dict.fromkeys([first, *parts, *(f"{part}.lance" for part in parts)]))

    def is_needed(self, needed: Needed) -> bool:
        if self.kind is Kind.TEMPORARY:
            return False
        if self.kind is Kind.STAGED:
            return self.entry.key in needed.files
        return needed.needs(self.folder, self.parts)

    @property
    def orphan(self) -> Orphan:
        entry = self.entry
        when = moment(entry.modified_ms)
        return Orphan(entry.key, self.kind, entry.size, when, _WHY[self.kind], self.location)


def candidate(location: str, entry: Entry) -> Candidate | None:
    """What a file of a table could be, by its place alone; None if it is nobody's to judge."""
    directory, _, name = entry.key[len(location) + 1 :].rpartition("/")
    if _TEMPORARY.fullmatch(name):
        return Candidate(location, entry, Kind.TEMPORARY)
    folder = _folder(directory)
    if folder == names.VERSIONS_DIRECTORY:
        return Candidate(location, entry, Kind.STAGED) if is_staged(entry) else None
    return None if folder is None else Candidate(location, entry, Kind.FILE, folder)


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


def is_noted(found: Candidate, noted: Collection[str]) -> bool:
    """Whether a write that is under way has noted a file."""
    return bool(noted) and any(part in noted for part in found.parts)


def state_of(entry: Entry) -> str:
    """One state of an object, as a text that equals no other's."""
    return f"{entry.key} {entry.size} {entry.modified_ms}"
