"""Authentication. Every request gets an id and a principal, or is refused, before it is routed.

Pure ASGI, because it handles every request. The pages of the console authenticate people
themselves, by a cookie.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Awaitable, Iterable, Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiltyard.access import LOCAL, Keyring, Principal, Sessions
from tiltyard.errors import (
    PermissionDeniedError,
    ServiceUnavailableError,
    UnauthenticatedError,
)
from tiltyard.metrics import Counter, Timer
from tiltyard.rest.audit import client_address
from tiltyard.rest.limits import FailedLogins, RateLimit
from tiltyard.rest.responses import error_response
from tiltyard.rest.server import ServerSettings

log = logging.getLogger("tiltyard.requests")

REQUESTS = Timer("tiltyard_http_request_seconds", "How long requests to the server took.")
FAILED = Counter("tiltyard_http_errors_total", "Requests that ended with a status of 500 or more.")
REFUSED = Counter("tiltyard_http_refused_total", "Requests that ended with a status from 400 on.")

CONSOLE = "/console"
PUBLIC_PATHS = frozenset({"/", "/healthz", "/readyz"})
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LOOPBACK_HOSTS = re.compile(rb"(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?")

# On every response that does not set the header itself.
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_TLS_HEADERS = ((b"strict-transport-security", b"max-age=31536000"),)

Headers = dict[bytes, bytes]


class AuthMiddleware:
    """Sets `request.state.request_id` and `request.state.principal`; refuses clients that have no
    valid key, are too fast, or are web pages of another site."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        keyring: Keyring,
        sessions: Sessions,
        failed_logins: FailedLogins,
    ) -> None:
        self._app = app
        self._max_connections = settings.connections
        self._is_open = keyring.is_open
        self._sessions = sessions
        self._headers = _SECURITY_HEADERS + (_TLS_HEADERS if settings.has_tls else ())
        self._rate_limit = RateLimit(settings.requests_per_second)
        self._failed_logins = failed_logins
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers: Headers = dict(scope["headers"])
        state = scope.setdefault("state", {})
        state["request_id"] = _request_id(headers)
        state["principal"] = None
        response = _HeaderSender(send, self._headers, state["request_id"])
        began = time.perf_counter()
        self._active += 1
        try:
            await self._serve(scope, headers, receive, response)
        finally:
            self._active -= 1
            _record(scope, response.status, time.perf_counter() - began)

    async def _serve(
        self, scope: Scope, headers: Headers, receive: Receive, send: _HeaderSender
    ) -> None:
        try:
            if self._active > self._max_connections:
                raise ServiceUnavailableError("the server is busy", hint="try again in a moment")
            self._check_origin(scope, headers)
            if scope["path"] not in PUBLIC_PATHS and not _is_console(scope["path"]):
                scope["state"]["principal"] = self._authenticate(scope, headers)
        except Exception as error:
            await error_response(error, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests that another web site makes through a user's browser, also through a host
        name of its own that resolves to this machine."""
        host = headers.get(b"host", b"")
        if self._is_open and not _LOOPBACK_HOSTS.fullmatch(host):
            raise PermissionDeniedError("this server answers on the loopback interface only")
        origin = headers.get(b"origin")
        is_foreign = origin is not None and origin not in (b"http://" + host, b"https://" + host)
        if headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            is_foreign = is_foreign or not _is_link_to_console(scope, headers)
        if is_foreign:
            raise PermissionDeniedError("requests of other web sites are refused")

    def _authenticate(self, scope: Scope, headers: Headers) -> Principal:
        if self._is_open:
            return LOCAL
        for credential in _credentials(headers):
            principal = self._sessions.authenticate(credential)
            if principal is not None:
                self._rate_limit.take(principal.name)
                return principal
        self._failed_logins.record(client_address(scope))
        raise UnauthenticatedError(
            "authentication required", hint="send a key as x-api-key, or as Authorization: Bearer"
        )


class _HeaderSender:
    """Sends a response on, adds the headers that every response has, and keeps its status."""

    def __init__(self, send: Send, headers: Iterable[tuple[bytes, bytes]], request_id: str) -> None:
        self._send = send
        self._headers = headers
        self._request_id = request_id
        self.status = 500

    def __call__(self, message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [header for header in self._headers if header[0] not in present]
            headers.append((b"x-request-id", self._request_id.encode()))
            message = {**message, "headers": headers}
        return self._send(message)


def _is_console(path: str) -> bool:
    return path == CONSOLE or path.startswith(f"{CONSOLE}/")


def _is_link_to_console(scope: Scope, headers: Headers) -> bool:
    """Whether a person follows a link of another site to a page of the console."""
    is_read = scope["method"] in ("GET", "HEAD")
    return is_read and headers.get(b"sec-fetch-mode") == b"navigate" and _is_console(scope["path"])


def _request_id(headers: Headers) -> str:
    given = headers.get(b"x-request-id", b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _credentials(headers: Headers) -> Iterator[str]:
    if b"x-api-key" in headers:
        yield headers[b"x-api-key"].decode("latin-1")
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer":
        yield token.strip()


def _record(scope: Scope, status: int, seconds: float) -> None:
    """Log the request and count it."""
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
    if status >= 400:
        (FAILED if status >= 500 else REFUSED).add()
    REQUESTS.record(seconds)
