"""The server as one Starlette application: the door, the operations, and pages that others bring.

What pages and operations share is in `app.state`: `namespace`, `keyring`, `sessions`, `settings`,
`runner`, `audit` and `wrong_keys`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from lance_namespace.errors import LanceNamespaceError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from tiltyard.access import Keyring, Role, Sessions
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest import answers, openapi, own, protocol, watch
from tiltyard.rest.audit import Audit
from tiltyard.rest.door import CONSOLE, Door
from tiltyard.rest.limits import WrongKeys
from tiltyard.rest.operation import Operation
from tiltyard.rest.runner import Runner
from tiltyard.rest.service import Service
from tiltyard.rest.settings import ServerSettings

Endpoint = Callable[[Request], Awaitable[Response]]

OPERATIONS: tuple[Operation, ...] = (*protocol.OPERATIONS, *own.OPERATIONS)


@functools.cache
def _document() -> Response:
    return answers.as_json(openapi.document(OPERATIONS))


async def _openapi(request: Request) -> Response:
    runner: Runner = request.app.state.runner
    return await runner.call(_document)


async def _operations(request: Request) -> Response:
    return HTMLResponse(openapi.page(OPERATIONS))


# What is no operation of the catalog, with the role that it needs.
FIXED: tuple[tuple[str, Endpoint, Role | None], ...] = (
    ("/healthz", watch.healthz, None),
    ("/readyz", watch.readyz, None),
    ("/metrics", watch.metrics, Role.READER),
    ("/tiltyard/v1/openapi.json", _openapi, Role.READER),
    ("/tiltyard/v1/", _operations, Role.READER),
)


def roles() -> dict[tuple[str, str], Role | None]:
    """The role that each route needs, by method and path; None if it is open to everybody."""
    found: dict[tuple[str, str], Role | None] = {("GET", path): role for path, _, role in FIXED}
    return found | {(each.method, each.path): each.needs for each in OPERATIONS}


def _console(pages: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Pages, and the way to them for whoever types the server's address only."""

    async def lead(request: Request) -> Response:
        return RedirectResponse(f"{CONSOLE}/")

    return [*(Route(path, lead) for path in ("/", CONSOLE)), Mount(CONSOLE, routes=list(pages))]


def create_app(
    namespace: DirectoryNamespace, settings: ServerSettings, *, pages: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application for one catalog. All requests share the namespace, so that commits of many
    clients at once are grouped. `pages` go under /console, and know their visitors themselves."""
    keyring = Keyring(settings.keys)
    sessions = Sessions(keyring)
    wrong_keys = WrongKeys(settings.failed_logins_per_minute, settings.failed_logins_overall)
    runner = Runner(settings.threads, settings.waiting, settings.work_seconds)
    audit = Audit(settings.audit)
    service = Service(OPERATIONS, namespace, settings, sessions, runner, audit)
    app = Starlette(
        routes=[
            *(Route(path, _guarded(endpoint, role)) for path, endpoint, role in FIXED),
            *(_console(pages) if pages else ()),
        ],
        middleware=[
            Middleware(
                Door, settings=settings, keyring=keyring, sessions=sessions, wrong_keys=wrong_keys
            )
        ],
        exception_handlers={HTTPException: _refused},
        lifespan=_lifespan,
    )
    # Not as a route: to Starlette's patterns, a path with a line break is none.
    app.router.default = service
    app.router.redirect_slashes = False
    app.state.namespace = namespace
    app.state.settings = settings
    app.state.keyring = keyring
    app.state.sessions = sessions
    app.state.runner = runner
    app.state.audit = audit
    app.state.wrong_keys = wrong_keys
    app.state.ready = False
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    app.state.ready = True
    yield
    app.state.ready = False
    app.state.runner.close()  # commits in flight end before the process does


async def _refused(request: Request, problem: Exception) -> Response:
    """What Starlette refuses, in the form of all other errors."""
    assert isinstance(problem, HTTPException)
    refusal = answers.Refused(problem.status_code, problem.detail, dict(problem.headers or {}))
    return answers.error(refusal, request.url.path)


def _guarded(endpoint: Endpoint, needs: Role | None) -> Endpoint:
    """An endpoint about the whole catalog, for those who have the role there."""

    async def guarded(request: Request) -> Response:
        try:
            if needs is not None:
                request.state.principal.require(needs)
                request.state.principal.require_sight(())
        except LanceNamespaceError as refusal:
            return answers.error(refusal, request.url.path)
        return await endpoint(request)

    return guarded
