"""Blocking work, in a bounded number of threads and never on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from tiltyard.errors import ServiceUnavailableError

P = ParamSpec("P")
T = TypeVar("T")


class Runner:
    """A pool of threads, a queue before it that ends, and a time after which nobody waits."""

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tiltyard")
        self._most = threads + waiting
        self._seconds = seconds
        self._lock = threading.Lock()
        self._inside = 0

    async def call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in a thread. ServiceUnavailableError if too many wait, or it takes too long.

        What has begun goes on to its end, also if nobody waits for it any more: half a commit is
        worse than one that nobody was told of.
        """
        with self._lock:
            if self._inside >= self._most:
                raise ServiceUnavailableError("the server is busy", hint="try again in a moment")
            self._inside += 1
        future = self._pool.submit(work, *args, **kwargs)
        future.add_done_callback(self._over)
        try:
            async with asyncio.timeout(self._seconds) as limit:
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ServiceUnavailableError(
                f"this takes longer than {self._seconds:g} s; it may still take effect",
                hint="look before you try again",
            ) from error

    def _over(self, _: Future[Any]) -> None:
        with self._lock:
            self._inside -= 1

    def close(self) -> None:
        """Wait for what has begun; what still waits for a thread is not begun."""
        self._pool.shutdown(wait=True, cancel_futures=True)
