"""An answer that takes a while to find: looked for in the background, kept, and renewed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeVar

from tiltyard.namespace import DirectoryNamespace

T = TypeVar("T")

# A small catalog answers within this time, and nobody sees a page that waits.
PATIENCE_SECONDS = 2.0
# Looking takes at most a twentieth of the time, however large the catalog is.
REST = 20


@dataclass(frozen=True, slots=True)
class Kept(Generic[T]):
    """An answer, when it was found, and how long that took."""

    value: T
    at: datetime
    took: timedelta

    def is_fresh(self, fresh: timedelta) -> bool:
        return datetime.now(UTC) - self.at < max(fresh, REST * self.took)


class Background(Generic[T]):
    """One question to a catalog. However many ask it, it is looked into once at a time."""

    def __init__(self, find: Callable[[DirectoryNamespace], T], fresh: timedelta) -> None:
        self._find = find
        self._fresh = fresh
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tiltyard-console")
        self._lock = threading.Lock()
        self._running: Future[Kept[T]] | None = None
        self._last: Kept[T] | None = None

    @property
    def last(self) -> Kept[T] | None:
        """What was found last, however old."""
        return self._last

    @property
    def is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    async def soon(self, catalog: DirectoryNamespace, *, again: bool = False) -> Kept[T] | None:
        """The answer if it is fresh or found at once, else the last one; None if there is none.

        `again` looks anew whatever there is.
        """
        last = self._last
        if last is not None and not again and last.is_fresh(self._fresh):
            return last
        running = asyncio.wrap_future(self._begin(catalog))
        done, _ = await asyncio.wait([running], timeout=PATIENCE_SECONDS)
        return running.result() if done else self._last

    def _begin(self, catalog: DirectoryNamespace) -> Future[Kept[T]]:
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._pool.submit(self._look, catalog)
            return self._running

    def _look(self, catalog: DirectoryNamespace) -> Kept[T]:
        begun = datetime.now(UTC)
        found = self._find(catalog)
        now = datetime.now(UTC)
        self._last = kept = Kept(found, now, now - begun)
        return kept
