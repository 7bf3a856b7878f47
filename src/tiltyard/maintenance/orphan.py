"""What an orphan is. Values only, no requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiltyard.clock import Clock, moment
from tiltyard.store import Entry

# Age alone tells what a crash left from what is under way.
FLOOR_MS = 7 * 24 * 60 * 60 * 1000


class Kind(StrEnum):
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
        return self is not Kind.TABLE


@dataclass(frozen=True, slots=True)
class Orphan:
    """Something that nothing refers to. `location` is the table's directory that it lies in."""

    path: str
    kind: Kind
    bytes: int
    modified_at: datetime
    why: str
    location: str | None = None


def orphan_of(entry: Entry, kind: Kind, why: str, location: str | None = None) -> Orphan:
    return Orphan(entry.key, kind, entry.size, moment(entry.modified_ms), why, location)


def is_old(clock: Clock, entry: Entry, floor_ms: int) -> bool:
    return clock.now_ms() - entry.modified_ms >= floor_ms
