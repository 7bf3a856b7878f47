"""What an orphan is. Values only, no requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Kind(StrEnum):
    """What an orphan is."""

    FILE = "file"
    STAGED = "staged manifest"
    TEMPORARY = "temporary file"
    NOTE = "note of a write"
    PROBE = "probe"
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
