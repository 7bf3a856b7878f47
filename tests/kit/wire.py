"""Just enough HTTP/1.1 to pass messages on unchanged: a head is kept as the bytes it came in, and a
body as the bytes on the wire, chunk framing included."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cached_property

_BODILESS = (204, 304)


@dataclass(frozen=True)
class Head:
    raw: bytes

    @cached_property
    def _lines(self) -> list[str]:
        return self.raw.decode("latin-1").split("\r\n")

    @cached_property
    def fields(self) -> dict[str, str]:
        pairs = (line.partition(":") for line in self._lines[1:] if line)
        return {name.lower(): value.strip() for name, _, value in pairs}

    @property
    def method(self) -> str:
        return self._lines[0].split(" ", 2)[0]

    @property
    def target(self) -> str:
        return self._lines[0].split(" ", 2)[1]

    @property
    def status(self) -> int:
        return int(self._lines[0].split(" ", 2)[1])

    def without(self, *names: str) -> Head:
        kept = [line for line in self._lines if line.partition(":")[0].lower() not in names]
        return Head("\r\n".join(kept).encode("latin-1"))


@dataclass(frozen=True)
class Message:
    head: Head
    body: bytes
    until_close: bool = False
    """The body has no length: it ends where the connection ends."""

    @property
    def closes(self) -> bool:
        return self.until_close or self.head.fields.get("connection", "").lower() == "close"


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Message:
    head = Head(await reader.readuntil(b"\r\n\r\n"))
    if head.fields.get("expect", "").lower() == "100-continue":
        # Answered here, so that the store's side stays a plain question and answer.
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        head = head.without("expect")
    return Message(head, await _read_body(reader, head))


async def read_response(reader: asyncio.StreamReader, method: str) -> Message:
    head = Head(await reader.readuntil(b"\r\n\r\n"))
    while head.status == 100:
        head = Head(await reader.readuntil(b"\r\n\r\n"))
    if method == "HEAD" or head.status in _BODILESS:
        return Message(head, b"")
    if "content-length" not in head.fields and "transfer-encoding" not in head.fields:
        return Message(head, await reader.read(), until_close=True)
    return Message(head, await _read_body(reader, head))


async def _read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    if head.fields.get("transfer-encoding", "").lower() == "chunked":
        return await _read_chunks(reader)
    length = int(head.fields.get("content-length", "0"))
    return await reader.readexactly(length) if length else b""


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    size = -1
    while size != 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        parts += [line, await reader.readexactly(size + 2)]  # trailers do not occur with our stores
    return b"".join(parts)


def error_reply(code: int, reason: str) -> Message:
    """An error as S3 words it; Azure's clients go by the status alone."""
    body = f"<Error><Code>{reason}</Code><Message>injected by a test</Message></Error>".encode()
    head = (
        f"HTTP/1.1 {code} {reason}\r\n"
        f"Content-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return Message(Head(head.encode()), body)
