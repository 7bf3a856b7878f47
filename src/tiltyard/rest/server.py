"""Running the application with uvicorn, and its logs: text or lines of JSON."""

from __future__ import annotations

import gc
import json
import logging
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tiltyard.errors import ServiceUnavailableError
from tiltyard.rest.settings import ServerSettings

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
