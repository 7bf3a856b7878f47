"""What was changed through the server: one line each, with who, what and how it ended.

The lines go to the log `tiltyard.audit` and, if one is named, to a file. The last ones are kept to
show.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger("tiltyard.audit")

LAST = 1000


@dataclass(frozen=True, slots=True)
class Event:
    """One change, or a try at one. `outcome` is "done" or the reason why not."""

    at: datetime
    who: str
    role: str
    what: str
    target: str
    outcome: str
    status: int
    request_id: str
    address: str


class Audit:
    """Notes changes as they end. For the event loop only."""

    def __init__(self, path: str | None = None) -> None:
        self._last: deque[Event] = deque(maxlen=LAST)
        self._path = path
        if path is not None:
            self._write("")  # a bad path is told now

    def note(self, event: Event) -> None:
        self._last.append(event)
        line = json.dumps(asdict(event), default=_text, ensure_ascii=False)
        log.info("%s", line)
        if self._path is not None:
            self._write(line + "\n")

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
        """The same for pages, which note what just ended."""
        self.note(Event(now(), who, role, what, target, outcome, status, request_id, address))

    def recent(self, limit: int = 100) -> list[Event]:
        """The last changes, newest first."""
        return list(self._last)[::-1][:limit]

    def _write(self, text: str) -> None:
        """Opened anew each time, so that others may move the file away."""
        with Path(str(self._path)).open("a", encoding="utf-8") as file:
            file.write(text)


def now() -> datetime:
    return datetime.now(UTC)


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
