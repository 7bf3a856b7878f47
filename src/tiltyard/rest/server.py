"""Running the application with uvicorn, and its logs: text or lines of JSON."""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import uvicorn
from pydantic import ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tiltyard.errors import InvalidInputError, ServiceUnavailableError, first_problem

# The attributes that Python sets on every record; the others were passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Connection(HttpToolsProtocol):
    """Hands on a chunk of a body as it came; uvicorn's own protocol copies each chunk twice."""

    def on_body(self, body: bytes) -> None:
        cycle: Any = self.cycle  # its body is a bytearray, and bytes are enough
        if not cycle.body:
            cycle.body, body = body, b""
        elif isinstance(cycle.body, bytes):  # many small chunks at once
            cycle.body = bytearray(cycle.body)
        super().on_body(body)


def configure(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    """The configuration of uvicorn. It logs no requests, because `AuthMiddleware` does."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=Connection,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=round(settings.shutdown_seconds),
        backlog=settings.connections,
    )


def serve(
    app: ASGIApp, settings: ServerSettings, *, sockets: Sequence[socket.socket] | None = None
) -> None:
    """Serve until SIGINT or SIGTERM, then finish the requests under way."""
    # What is loaded now is never freed, so the garbage collector need not look at it.
    gc.collect()
    gc.freeze()
    server = uvicorn.Server(configure(app, settings))
    try:
        server.run(None if sockets is None else list(sockets))
    except SystemExit as stopped:
        if server.started:
            raise
        raise ServiceUnavailableError(
            f"the server can't listen at {settings.host}:{settings.port}",
            hint="another may run there already; --port chooses another place",
        ) from stopped


def configure_logging(settings: ServerSettings, level: int = logging.INFO) -> None:
    """Log tiltyard and uvicorn to standard error, one line for each record."""
    handler = logging.StreamHandler()
    handler.setFormatter(
        JsonLines()
        if settings.log_json
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("tiltyard", "uvicorn"):
        logging.getLogger(name).setLevel(level)


class JsonLines(logging.Formatter):
    """A record as one JSON object: its message, and every field that was passed with it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


# -- settings of the server

MEBIBYTE = 1024 * 1024

Port = Annotated[int, Field(ge=0, le=2**16 - 1)]
Count = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class ServerSettings:
    """The settings of a server. InvalidInputError if one is wrong or contradicts another."""

    host: str = "127.0.0.1"
    port: Port = 2333
    # A file of keys. Without it every client is accepted, so it is required beyond loopback.
    keys: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None

    max_json_bytes: Count = 16 * MEBIBYTE
    max_body_bytes: Count = 1024 * MEBIBYTE
    max_answer_bytes: int = 1024 * MEBIBYTE
    # A larger body is kept in a temporary file.
    spool_bytes: int = 16 * MEBIBYTE
    spool_directory: str | None = None

    threads: Count = 32
    # Requests that wait for a thread; more are refused with status 503.
    waiting: Count = 1024
    connections: Count = 2048
    work_seconds: float = 600.0
    # How long a client may take for its whole body, and pause while it sends it.
    body_seconds: float = 600.0
    idle_seconds: float = 30.0
    shutdown_seconds: float = 60.0

    # Per key and second, with bursts of twice as many; 0 for no limit.
    requests_per_second: float = 1000.0
    # From one address, and from all of them, per minute; more are refused with status 429.
    failed_logins_per_minute: float = 30.0
    failed_logins_overall: float = 600.0

    audit: str | None = None
    log_json: bool = False

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, values: Any, construct: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            settings = construct(values)
        except ValidationError as error:
            raise InvalidInputError(first_problem(error)) from error
        if not settings.is_loopback and settings.keys is None:
            raise InvalidInputError(
                f"a server that listens on {settings.host!r} needs keys: others can reach it",
                hint="make one with tiltyard keys add, and name the file with --keys",
            )
        if (settings.tls_certificate is None) != (settings.tls_key is None):
            raise InvalidInputError("TLS needs a certificate and its key, both")
        return settings

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        return self.tls_certificate is not None
