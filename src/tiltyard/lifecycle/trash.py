"""What the trash shows, and under which terms something goes there. Values only, no requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiltyard.catalog.base import DropTerms
from tiltyard.names import TableId

__all__ = ["DropTerms", "TableState", "TableStatus", "Trashed"]


class TableState(StrEnum):
    """What a name stands for. A purged table is not found, like one that never was."""

    EXISTS = "exists"
    SOFT_DELETED = "soft_deleted"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class TableStatus:
    """What became of a table."""

    state: TableState
    deleted_at: datetime | None = None
    expires_at: datetime | None = None
    generation: str | None = None


@dataclass(frozen=True, slots=True)
class Trashed:
    """One dropped table. `restorable` is false from the moment its purge has begun."""

    id: TableId
    generation: str
    location: str
    state: str
    dropped_at: datetime
    expires_at: datetime | None
    dropped_by: str | None
    reason: str | None
    version: int | None
    held: bool
    restorable: bool
    properties: Mapping[str, str] | None = None
    bytes: int | None = None

    def is_purgable(self, now: datetime, dropped_before: datetime | None = None) -> bool:
        """Whether its time has come: its own, or the one of a caller's cutoff."""
        if self.held:
            return False
        if not self.restorable:
            return True  # a purge that was begun has to be finished
        if dropped_before is not None:
            return self.dropped_at < dropped_before
        return self.expires_at is not None and self.expires_at <= now
