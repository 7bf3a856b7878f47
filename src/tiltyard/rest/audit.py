"""The audit log: one line for each change through the server, with who, what and its outcome.

The lines go to the logger `tiltyard.audit` and, if one is named, to a file. The last 1,000 are kept
in memory.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from starlette.types import Scope

log = logging.getLogger("tiltyard.audit")

MAX_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One change, or an attempt at one. `outcome` is "done" or the reason why not."""

    at: datetime
    who: str
    role: str
    what: str
    target: str
    outcome: str
    status: int
    request_id: str
    address: str


class AuditLog:
    """Records changes when they end. Not thread-safe: it belongs to the event loop."""

    def __init__(self, path: str | None = None) -> None:
        self._events: deque[Event] = deque(maxlen=MAX_KEPT)
        self._path = path
        if path is not None:
            self._append("")  # raises if the file can't be written

    def record(
        self,
        *,
        who: str,
        role: str,
        what: str,
        target: str,
        outcome: str,
        status: int,
        request_id: str,
        address: str,
    ) -> None:
        """Record a change that just ended."""
        now = datetime.now(UTC)
        event = Event(now, who, role, what, target, outcome, status, request_id, address)
        self._events.append(event)
        line = json.dumps(asdict(event) | {"at": now.isoformat()}, ensure_ascii=False)
        log.info("%s", line)
        if self._path is not None:
            self._append(line + "\n")

    def recent(self, limit: int = 100) -> list[Event]:
        """The last changes, newest first."""
        return list(self._events)[::-1][:limit]

    def _append(self, text: str) -> None:
        """The file is opened for each line, so that it can be rotated."""
        with Path(str(self._path)).open("a", encoding="utf-8") as file:
            file.write(text)


def client_address(scope: Scope) -> str:
    """The IP address of the client."""
    address: str = (scope.get("client") or ("unknown",))[0]
    return address
