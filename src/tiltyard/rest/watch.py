"""For whoever watches the server: is it there, can it work, and what has it done so far."""

from __future__ import annotations

import lance_namespace as api
from lance_namespace.errors import LanceNamespaceError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from tiltyard.metrics import exposition


async def healthz(request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """The catalog can be read, and the server is not about to stop."""
    state = request.app.state
    if not state.ready:
        return PlainTextResponse("stopping\n", 503)
    try:
        await state.runner.call(
            state.namespace.describe_namespace, api.DescribeNamespaceRequest(id=[])
        )
    except LanceNamespaceError:
        return PlainTextResponse("the catalog can't be read\n", 503)
    return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """Counts and times, as Prometheus reads them."""
    return PlainTextResponse(exposition(), media_type="text/plain; version=0.0.4")
