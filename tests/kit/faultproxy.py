"""A proxy in front of a real object store that counts every request and makes some of them fail:
before the store sees them, or after it has carried them out and only the answer is lost. It speaks
HTTP/1.1 on the loopback interface, in a thread; paths, Host and signed headers stay as they were,
so that signatures hold. The faults themselves are in `faults`."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from urllib.parse import unquote, urlsplit

from tests.kit.faults import (
    AFTER,
    BEFORE,
    Delay,
    Drop,
    Fault,
    ForgetConditions,
    Hang,
    Hold,
    Rule,
    Status,
    Truncate,
    When,
)
from tests.kit.wire import Message, error_reply, read_request, read_response

# Large bodies pass in few pieces.
_BUFFER = 8 * 1024 * 1024


@dataclass(frozen=True)
class Request:
    """One request as it passed: `status` is the store's own answer, None if it never saw it or has
    not answered yet."""

    method: str
    path: str
    query: str
    conditional: bool
    sent_bytes: int
    fault: Fault | None = None
    status: int | None = None
    received_bytes: int = 0


class _HangUp(Exception):
    """Ends the client's connection, as a fault wants it or because one side is gone."""


class FaultProxy:
    """Use as a context manager; point the client at `url` while inside."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        assert parts.hostname is not None
        assert parts.port is not None
        self._upstream = (parts.hostname, parts.port)
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._log: dict[int, Request] = {}
        self._seen = 0
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    # -- what a test says and sees

    def inject(
        self,
        fault: Fault,
        *,
        method: str | None = None,
        path: str | None = None,
        conditional: bool | None = None,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """Let `fault` befall the next request that matches: `path` is a regular expression looked
        for in the decoded path and query, `conditional` tells writes with If-Match or
        If-None-Match from others. The first `skip` matches pass; `times=None` means every one."""
        with self._lock:
            pattern = re.compile(path) if path is not None else None
            self._rules.append(Rule(fault, method, pattern, conditional, skip, times))

    def clear(self) -> None:
        """Forget all rules and all requests."""
        with self._lock:
            self._rules.clear()
            self._log = {}

    @property
    def requests(self) -> tuple[Request, ...]:
        """Every request since the start or the last `clear`, in the order of arrival."""
        with self._lock:
            return tuple(self._log.values())

    def count(self, method: str | None = None, path: str = "") -> int:
        return sum(
            method in (None, request.method) and re.search(path, request.path) is not None
            for request in self.requests
        )

    @contextmanager
    def recording(self) -> Iterator[list[Request]]:
        """Yields a list that holds, once the block ends, the requests made inside it."""
        block: list[Request] = []
        with self._lock:
            start = self._seen
        yield block
        with self._lock:
            block += [each for number, each in self._log.items() if number >= start]

    # -- life

    def __enter__(self) -> FaultProxy:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(300), "the fault proxy did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._clients: set[asyncio.Task[None]] = set()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_BUFFER)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stop.wait()
        server.close()
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    # -- one client connection, with one connection to the store behind it

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A plain function that makes its own task: the one asyncio makes cannot be awaited.
        task = self._loop.create_task(self._converse(reader, writer))
        self._clients.add(task)
        task.add_done_callback(self._clients.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        store = _Store(*self._upstream)
        try:
            while True:
                request = await read_request(reader, writer)
                reply = await self._answer(request, store, reader, writer)
                if reply.closes:
                    return
        except (_HangUp, ConnectionError, asyncio.IncompleteReadError):
            pass  # an end of the conversation like any other
        finally:
            store.close()
            writer.close()

    async def _answer(
        self,
        request: Message,
        store: _Store,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Message:
        number, fault = self._note(request)
        if isinstance(fault, ForgetConditions):
            request = replace(request, head=request.head.without("if-match", "if-none-match"))
        reply = await self._befall(fault, BEFORE, reader)
        if reply is None:
            reply = await store.ask(request)
            self._note_reply(number, reply)
            reply = await self._befall(fault, AFTER, reader) or reply
        if isinstance(fault, Truncate):
            writer.write(reply.head.raw + reply.body[: len(reply.body) // 2])
            raise _HangUp
        writer.write(reply.head.raw + (b"" if request.head.method == "HEAD" else reply.body))
        await writer.drain()
        return reply

    async def _befall(
        self, fault: Fault | None, when: When, reader: asyncio.StreamReader
    ) -> Message | None:
        """Do what the fault says at this point; a message is the answer to give instead."""
        if fault is None or fault.when is not when:
            return None
        match fault:
            case Status(code=code, reason=reason):
                return error_reply(code, reason)
            case Drop():
                raise _HangUp
            case Hang():
                await reader.read()  # returns when the client gives up
                raise _HangUp
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Hold():
                fault.reached.set()
                # Polled: a thread that waits for the event would outlive a test that fails.
                while not fault.released.is_set():
                    await asyncio.sleep(0.001)
        return None

    # -- the log

    def _note(self, request: Message) -> tuple[int, Fault | None]:
        head = request.head
        path, _, query = head.target.partition("?")
        seen = Request(
            head.method,
            unquote(path),
            unquote(query),
            conditional="if-match" in head.fields or "if-none-match" in head.fields,
            sent_bytes=len(request.body),
        )
        with self._lock:
            number, self._seen = self._seen, self._seen + 1
            target = f"{seen.path}?{seen.query}" if seen.query else seen.path
            fault = next(
                (r.fault for r in self._rules if r.strikes(seen.method, target, seen.conditional)),
                None,
            )
            self._log[number] = replace(seen, fault=fault)
        return number, fault

    def _note_reply(self, number: int, reply: Message) -> None:
        with self._lock:
            if number in self._log:  # not cleared in the meantime
                self._log[number] = replace(
                    self._log[number], status=reply.head.status, received_bytes=len(reply.body)
                )


class _Store:
    """The connection to the store, kept open from request to request."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Message) -> Message:
        # Never sent twice: a lost answer must stay lost, or the proxy would hide what it tests.
        if self._streams is None or self._streams[0].at_eof():
            self.close()
            self._streams = await asyncio.open_connection(*self._address, limit=_BUFFER)
        reader, writer = self._streams
        writer.write(request.head.raw + request.body)
        await writer.drain()
        reply = await read_response(reader, request.head.method)
        if reply.closes:
            self.close()
        return reply

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


__all__ = [
    "AFTER",
    "BEFORE",
    "Delay",
    "Drop",
    "Fault",
    "FaultProxy",
    "ForgetConditions",
    "Hang",
    "Hold",
    "Request",
    "Status",
    "Truncate",
    "When",
]
