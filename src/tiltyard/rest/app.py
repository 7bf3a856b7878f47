"""The server as one Starlette application: authentication, operations, health, and pages.

Operations and pages share `app.state`: `namespace`, `settings`, `keyring`, `sessions`, `workers`,
`audit` and `failed_logins`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import lance_namespace as api
from lance_namespace.errors import LanceNamespaceError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from tiltyard.access import Keyring, Role, Sessions
from tiltyard.metrics import exposition
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest import extensions, openapi, protocol
from tiltyard.rest.audit import AuditLog
from tiltyard.rest.auth import CONSOLE, AuthMiddleware
from tiltyard.rest.limits import FailedLogins, WorkerPool
from tiltyard.rest.responses import error_response, json_response
from tiltyard.rest.routing import Operation, Router
from tiltyard.rest.server import ServerSettings

Endpoint = Callable[[Request], Awaitable[Response]]

OPERATIONS: tuple[Operation, ...] = (*protocol.OPERATIONS, *extensions.OPERATIONS)


def create_app(
    namespace: DirectoryNamespace, settings: ServerSettings, *, pages: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application for one catalog. All requests share the namespace, so that concurrent commits
    are grouped. `pages` are mounted under /console and authenticate people themselves."""
    keyring = Keyring(settings.keys)
    sessions = Sessions(keyring)
    failed_logins = FailedLogins(settings.failed_logins_per_minute, settings.failed_logins_overall)
    workers = WorkerPool(settings.threads, settings.waiting, settings.work_seconds)
    audit = AuditLog(settings.audit)
    auth = Middleware(
        AuthMiddleware,
        settings=settings,
        keyring=keyring,
        sessions=sessions,
        failed_logins=failed_logins,
    )
    app = Starlette(
        routes=[
            *(Route(path, _authorized(endpoint, role)) for path, endpoint, role in ENDPOINTS),
            *(_console(pages) if pages else ()),
        ],
        middleware=[auth],
        exception_handlers={HTTPException: _http_error},
        lifespan=_lifespan,
    )
    # Not as a route: Starlette's patterns do not match a path with a line break.
    app.router.default = Router(OPERATIONS, namespace, settings, sessions, workers, audit)
    app.router.redirect_slashes = False
    app.state.namespace = namespace
    app.state.settings = settings
    app.state.keyring = keyring
    app.state.sessions = sessions
    app.state.workers = workers
    app.state.audit = audit
    app.state.failed_logins = failed_logins
    app.state.ready = False
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    app.state.ready = True
    yield
    app.state.ready = False
    app.state.workers.close()  # waits for commits in flight


def _console(pages: Sequence[BaseRoute]) -> list[BaseRoute]:
    """The pages, and redirects to them from / and /console."""

    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{CONSOLE}/")

    return [*(Route(path, redirect) for path in ("/", CONSOLE)), Mount(CONSOLE, routes=list(pages))]


async def _http_error(request: Request, error: Exception) -> Response:
    """Errors of Starlette, in the form of all others."""
    return error_response(error, request.url.path)


# -- endpoints that are no operations of the catalog


async def healthz(request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


async def readyz(request: Request) -> Response:
    """The catalog can be read, and the server is not about to stop."""
    state = request.app.state
    if not state.ready:
        return PlainTextResponse("stopping\n", 503)
    try:
        await state.workers.run(
            state.namespace.describe_namespace, api.DescribeNamespaceRequest(id=[])
        )
    except LanceNamespaceError:
        return PlainTextResponse("the catalog can't be read\n", 503)
    return PlainTextResponse("ok\n")


async def metrics(request: Request) -> Response:
    """Counts and times in the text format of Prometheus."""
    return PlainTextResponse(exposition(), media_type="text/plain; version=0.0.4")


@functools.cache
def _document() -> Response:
    return json_response(openapi.document(OPERATIONS))


async def openapi_document(request: Request) -> Response:
    """The OpenAPI document."""
    response: Response = await request.app.state.workers.run(_document)
    return response


async def operations_page(request: Request) -> Response:
    """The operations, as a page to read."""
    return HTMLResponse(openapi.page(OPERATIONS))


# With the role that each needs; None is for everybody.
ENDPOINTS: tuple[tuple[str, Endpoint, Role | None], ...] = (
    ("/healthz", healthz, None),
    ("/readyz", readyz, None),
    ("/metrics", metrics, Role.READER),
    ("/tiltyard/v1/openapi.json", openapi_document, Role.READER),
    ("/tiltyard/v1/", operations_page, Role.READER),
)


def roles() -> dict[tuple[str, str], Role | None]:
    """The role that each route needs, by method and path; None if it is open to everybody."""
    fixed: dict[tuple[str, str], Role | None] = {("GET", path): role for path, _, role in ENDPOINTS}
    return fixed | {(operation.method, operation.path): operation.role for operation in OPERATIONS}


def _authorized(endpoint: Endpoint, role: Role | None) -> Endpoint:
    """An endpoint about the whole catalog, for principals that have the role and see all of it."""

    async def authorized(request: Request) -> Response:
        try:
            if role is not None:
                request.state.principal.authorize(role, [()])
        except LanceNamespaceError as error:
            return error_response(error, request.url.path)
        return await endpoint(request)

    return authorized
