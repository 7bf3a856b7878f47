"""The door: every request gets an id and is let in or turned away before anything looks at it.

Plain ASGI, because it stands before every request. Pages of the console pass: they know people by
a cookie, and ask `access` themselves.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiltyard.access import LOCAL, Keyring, Principal, Sessions
from tiltyard.errors import (
    PermissionDeniedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from tiltyard.metrics import Counter, Timer
from tiltyard.rest import answers
from tiltyard.rest.limits import Rate, WrongKeys
from tiltyard.rest.settings import ServerSettings

log = logging.getLogger("tiltyard.requests")

REQUESTS = Timer("tiltyard_http_request_seconds", "How long requests to the server took.")
FAILED = Counter("tiltyard_http_errors_total", "Requests that ended with a status of 500 or more.")
REFUSED = Counter("tiltyard_http_refused_total", "Requests that ended with a status from 400 on.")

CONSOLE = "/console"
OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOOPBACK_HOSTS = re.compile(rb"(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?")

# On every answer, unless the answer has its own.
_STRICT = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_ONLY_TLS = ((b"strict-transport-security", b"max-age=31536000"),)

Headers = dict[bytes, bytes]


class Door:
    """Who is it, and may they come in? The app behind finds the answer in the request's state."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        keyring: Keyring,
        sessions: Sessions,
        wrong_keys: WrongKeys,
    ) -> None:
        self._app = app
        self._settings = settings
        self._keyring = keyring
        self._sessions = sessions
        self._strict = _STRICT + (_ONLY_TLS if settings.has_tls else ())
        self._rate = Rate(settings.requests_per_second)
        self._wrong_keys = wrong_keys
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(headers)
        state["principal"] = None
        answer = _Answer(send, self._strict, state["request_id"])
        began = time.perf_counter()
        self._inside += 1
        try:
            with REQUESTS.measure():
                await self._serve(scope, headers, receive, answer)
        finally:
            self._inside -= 1
            _note(scope, answer.status, time.perf_counter() - began)

    async def _serve(
        self, scope: Scope, headers: Headers, receive: Receive, answer: _Answer
    ) -> None:
        try:
            if self._inside > self._settings.connections:
                raise ServiceUnavailableError("the server is busy", hint="try again in a moment")
            self._check_origin(scope, headers)
            if _asks_for_principal(scope["path"]):
                scope["state"]["principal"] = self._principal(scope, headers)
        except Exception as problem:
            await answers.error(problem, scope["path"])(scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """A web page of somebody else must not use the browser of who may, nor a name of its own
        that resolves to this machine."""
        host = headers.get(b"host", b"")
        if self._keyring.is_open and not _LOOPBACK_HOSTS.fullmatch(host):
            raise PermissionDeniedError("this server answers on the loopback interface only")
        origin = headers.get(b"origin")
        own = {b"http://" + host, b"https://" + host}
        foreign = origin is not None and origin not in own
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            foreign = foreign or not _follows_a_link(scope, headers)
        if foreign:
            raise PermissionDeniedError("requests of other web sites are refused")

    def _principal(self, scope: Scope, headers: Headers) -> Principal:
        if self._keyring.is_open:
            return LOCAL
        for text in _credentials(headers):
            found = self._keyring.principal(text) or self._sessions.verify(text)
            if found is not None:
                self._rate.take(found.name)
                return found
        self._wrong_keys.note((scope.get("client") or ("unknown",))[0])
        raise UnauthenticatedError(
            "who are you?", hint="send a key as x-api-key, or as Authorization: Bearer"
        )


class _Answer:
    """Sends an answer on, with the headers that every one has, and notes its status."""

    def __init__(self, send: Send, strict: Iterable[tuple[bytes, bytes]], request_id: str) -> None:
        self._send = send
        self._strict = strict
        self._request_id = request_id
        self.status = 500

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            given = {name.lower() for name, _ in headers}
            headers += [each for each in self._strict if each[0] not in given]
            headers.append((b"x-request-id", self._request_id.encode()))
            message = {**message, "headers": headers}
        return self._send(message)


def _asks_for_principal(path: str) -> bool:
    return not _is_console(path) and path not in OPEN_PATHS


def _is_console(path: str) -> bool:
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def _follows_a_link(scope: Scope, headers: Headers) -> bool:
    """Whether somebody comes to a page of the console from elsewhere, which changes nothing."""
    is_read = scope["method"] in ("GET", "HEAD")
    return is_read and headers.get(b"sec-fetch-mode") == b"navigate" and _is_console(scope["path"])


def _request_id(headers: Headers) -> str:
    given = headers.get(b"x-request-id", b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _credentials(headers: Headers) -> Iterable[str]:
    if b"x-api-key" in headers:
        yield headers[b"x-api-key"].decode("latin-1")
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        yield token.strip()


def _note(scope: Scope, status: int, seconds: float) -> None:
    if status >= 400:
        (FAILED if status >= 500 else REFUSED).add()
    if log.isEnabledFor(logging.INFO):
        principal = scope["state"]["principal"]
        log.info(
            "%s %s %d",
            scope["method"],
            scope["path"],
            status,
            extra={
                "request_id": scope["state"]["request_id"],
                "who": None if principal is None else principal.name,
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "milliseconds": round(seconds * 1000, 1),
            },
        )
