"""Bodies that may be large: small ones stay in memory, others lie in a temporary file.

What was received is read through the file's pages, and what is sent goes out piece by piece, so a
body never has to fit into memory.
"""

from __future__ import annotations

import asyncio
import io
import mmap
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import pyarrow as pa
from starlette.types import Message, Receive

from tiltyard.errors import InvalidInputError
from tiltyard.rest.answers import Refused
from tiltyard.rest.runner import Runner
from tiltyard.rest.settings import MEBIBYTE, ServerSettings

PIECE = MEBIBYTE
DISCARD_SECONDS = 10.0

Data = bytes | bytearray | memoryview | mmap.mmap


class ClientGone(Exception):
    """The client went away before its body was complete; there is nobody to answer."""


def _open(settings: ServerSettings) -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(settings.spool_bytes, dir=settings.spool_directory)


# -- what is received


class Incoming:
    """Receives one body, within a size and a time."""

    def __init__(self, receive: Receive, settings: ServerSettings, runner: Runner) -> None:
        self._receive = receive
        self._settings = settings
        self._runner = runner
        self._is_over = False

    async def read(self, limit: int, announced: bytes | None) -> Data:
        """The whole body. Refused if it is larger than the limit, or comes too slowly."""
        expected = int(announced) if announced is not None and announced.isdigit() else 0
        if expected > limit:
            raise _too_large(limit)
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                return await self._read(limit, expected)
        except TimeoutError as error:
            self._is_over = True  # what may still come is not waited for
            raise Refused(408, "the body comes too slowly", {"Connection": "close"}) from error

    async def _read(self, limit: int, expected: int) -> Data:
        """Into memory of the right size, if it was announced and may stay there."""
        if not 0 < expected <= self._settings.spool_bytes:
            return await self._collect(limit)
        kept, size = memoryview(pa.allocate_buffer(expected)).cast("B"), 0
        while not self._is_over:
            piece = await self._next()
            kept[size : size + len(piece)] = piece
            size += len(piece)
        return kept[:size]

    async def _collect(self, limit: int) -> Data:
        kept, file, size = bytearray(), None, 0
        while not self._is_over:
            piece = await self._next()
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            kept += piece
            if file is None and size > self._settings.spool_bytes:
                file = _open(self._settings)
            if file is not None and len(kept) >= PIECE:
                await self._runner.call(file.write, bytes(kept))
                kept.clear()
        if file is None:
            return kept
        await self._runner.call(file.write, bytes(kept))
        return await self._runner.call(_mapped, file)

    async def _next(self) -> bytes:
        async with asyncio.timeout(self._settings.idle_seconds):
            message: Message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self._is_over = not message.get("more_body", False)
        body: bytes = message.get("body", b"")
        return body

    async def discard(self) -> None:
        """Let a client that was refused finish its sentence: otherwise it may miss the answer."""
        try:
            async with asyncio.timeout(DISCARD_SECONDS):
                while not self._is_over:
                    await self._next()
        except (TimeoutError, ClientGone):
            pass


def _mapped(file: IO[bytes]) -> mmap.mmap:
    """The file's bytes as pages; they live as long as somebody refers to them."""
    with file:
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _too_large(limit: int) -> Refused:
    return Refused(413, f"the body is larger than {limit} bytes", {"Connection": "close"})


# -- what is sent


class Outgoing:
    """A large answer, complete and waiting to be sent."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.size = size

    @classmethod
    def write(cls, settings: ServerSettings, work: Callable[[Any], None]) -> Outgoing:
        """Let `work` write an answer. InvalidInputError if it gets larger than allowed."""
        file = _open(settings)
        sink = _Sink(file, settings.max_answer_bytes)
        try:
            work(sink)
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return cls(file, sink.size)

    def pieces(self) -> Iterator[bytes]:
        """The answer, piece by piece. It is gone afterwards."""
        with self._file:
            while piece := self._file.read(PIECE):
                yield piece


class _Sink(io.RawIOBase):
    """A file that refuses to grow over a limit."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file = file
        self._limit = limit
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        view = memoryview(piece)
        self.size += view.nbytes
        if self.size > self._limit:
            raise InvalidInputError(
                f"the answer would be larger than {self._limit} bytes",
                hint="ask for fewer rows or columns",
            )
        return self._file.write(view)
