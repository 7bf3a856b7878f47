"""The limits of a server: requests per second, failed logins, threads, and the size and speed of a
request's body."""

from __future__ import annotations

import asyncio
import math
import mmap
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, ParamSpec, TypeVar

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from tiltyard.errors import ServiceUnavailableError, ThrottlingError
from tiltyard.rest.responses import CHUNK_BYTES, temporary_file
from tiltyard.rest.server import ServerSettings

MAX_NAMES = 10_000
DISCARD_SECONDS = 10.0

P = ParamSpec("P")
T = TypeVar("T")
Data = bytes | bytearray | memoryview | mmap.mmap


# -- how often


class RateLimitedError(ThrottlingError):
    """Too many requests; `seconds` is when to try again."""

    seconds = 1


class RateLimit:
    """A token bucket for each name, for the 10,000 names used last. Not thread-safe: it belongs to
    the event loop."""

    def __init__(
        self,
        per_second: float,
        *,
        burst_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = max(1.0, burst_seconds * per_second)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> None:
        """RateLimitedError if the bucket is empty. A rate of 0 is no limit."""
        if self._per_second <= 0:
            return
        now = self._clock()
        tokens, at = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._per_second)
        if tokens < 1:
            self._buckets[name] = (tokens, now)
            error = RateLimitedError("too many requests", hint="slow down and try again")
            error.seconds = math.ceil((1 - tokens) / self._per_second)
            raise error
        self._buckets[name] = (tokens - 1, now)
        if len(self._buckets) > MAX_NAMES:
            self._buckets.popitem(last=False)


class FailedLogins:
    """Limits wrong keys: so many a minute from one address, and from all addresses together."""

    def __init__(
        self, per_minute: float, overall: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._by_address = RateLimit(per_minute / 60, burst_seconds=60, clock=clock)
        self._overall = RateLimit(overall / 60, burst_seconds=60, clock=clock)

    def record(self, address: str) -> None:
        """RateLimitedError if there were too many. A valid key is accepted regardless: it can't be
        guessed, so others who fail can't lock it out."""
        self._by_address.take(address)
        self._overall.take("")


# -- how many at once


class WorkerPool:
    """Runs blocking work in a bounded number of threads, with a bounded queue and a time limit."""

    def __init__(self, threads: int, waiting: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="tiltyard")
        self._max_pending = threads + waiting
        self._seconds = seconds
        self._lock = threading.Lock()
        self._pending = 0

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run it in a thread. ServiceUnavailableError if the queue is full, or it takes too long.

        Work that has begun is never cancelled, because half a commit is worse than one that nobody
        waits for.
        """
        with self._lock:
            if self._pending >= self._max_pending:
                raise ServiceUnavailableError("the server is busy", hint="try again in a moment")
            self._pending += 1
        future = self._pool.submit(work, *args, **kwargs)
        future.add_done_callback(self._done)
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

    def _done(self, _: Future[Any]) -> None:
        with self._lock:
            self._pending -= 1

    def close(self) -> None:
        """Wait for work that has begun; work in the queue is cancelled."""
        self._pool.shutdown(wait=True, cancel_futures=True)


# -- how large and how slow


class ClientDisconnected(Exception):
    """The client closed the connection before its body was complete."""


class RequestBody:
    """Receives one body, within a size and a time. A body larger than `spool_bytes` is kept in a
    temporary file and read through a memory map, so it need not fit into memory."""

    def __init__(self, receive: Receive, settings: ServerSettings, workers: WorkerPool) -> None:
        self._receive = receive
        self._settings = settings
        self._workers = workers
        self._is_complete = False

    async def read(self, limit: int, content_length: bytes | None) -> Data:
        """The whole body. HTTPException 413 if it exceeds the limit, 408 if it is too slow."""
        expected = int(content_length) if content_length and content_length.isdigit() else 0
        if expected > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                if 0 < expected <= self._settings.spool_bytes:
                    return await self._read_known(expected)
                return await self._read_unknown(limit)
        except TimeoutError as error:
            self._is_complete = True  # the rest is not waited for
            message = "the body comes too slowly"
            raise HTTPException(408, message, {"Connection": "close"}) from error

    async def _read_known(self, expected: int) -> Data:
        """Into memory of the announced size."""
        buffer, size = memoryview(pa.allocate_buffer(expected)).cast("B"), 0
        while not self._is_complete:
            chunk = await self._next_chunk()
            buffer[size : size + len(chunk)] = chunk
            size += len(chunk)
        return buffer[:size]

    async def _read_unknown(self, limit: int) -> Data:
        buffer, file, size = bytearray(), None, 0
        while not self._is_complete:
            chunk = await self._next_chunk()
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            buffer += chunk
            if file is None and size > self._settings.spool_bytes:
                file = temporary_file(self._settings)
            if file is not None and len(buffer) >= CHUNK_BYTES:
                await self._workers.run(file.write, bytes(buffer))
                buffer.clear()
        if file is None:
            return buffer
        await self._workers.run(file.write, bytes(buffer))
        return await self._workers.run(_memory_map, file)

    async def _next_chunk(self) -> bytes:
        async with asyncio.timeout(self._settings.idle_seconds):
            message: Message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        self._is_complete = not message.get("more_body", False)
        chunk: bytes = message.get("body", b"")
        return chunk

    async def discard(self) -> None:
        """Read the rest of a refused request: a client that still sends may miss the response."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self._is_complete:
                    await self._next_chunk()
        except (TimeoutError, ClientDisconnected):
            pass


def _memory_map(file: IO[bytes]) -> mmap.mmap:
    """The content of the file, which is deleted when nothing refers to the map any more."""
    with file:
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _too_large(limit: int) -> HTTPException:
    message = f"the body is larger than {limit} bytes"
    return HTTPException(413, message, {"Connection": "close"})
