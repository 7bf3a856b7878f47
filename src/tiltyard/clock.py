"""The clock and the dice. Everything that needs one takes it from here, so that tests own both."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _token(digits: int) -> str:
    return secrets.token_hex((digits + 1) // 2)[:digits]


@dataclass(frozen=True)
class Clock:
    """What a process can't know by itself: the time, and names that nobody else will choose."""

    now_ms: Callable[[], int] = _now_ms
    token: Callable[[int], str] = _token

    def generation(self) -> str:
        """The name of one drop or deregistration: sixteen hex digits that sort by time."""
        return f"{self.now_ms():011x}{self.token(5)}"


SYSTEM_CLOCK = Clock()

_LAST_MS = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000)


def moment(ms: int) -> datetime:
    """A time of the clock, as people write it."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def expiry(since_ms: int, ttl_ms: int | None) -> datetime | None:
    """When something that lives so long ends; None: never, or after the end of the calendar."""
    if ttl_ms is None or since_ms + ttl_ms > _LAST_MS:
        return None
    return moment(since_ms + ttl_ms)
