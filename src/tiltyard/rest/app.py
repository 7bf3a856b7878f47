"""The server as one Starlette application: the door, the operations, and pages that others bring.

What pages and operations share is in `app.state`: `namespace`, `keyring`, `sessions`, `settings`,
`runner` and `audit`.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route

from tiltyard.access import Keyring, Sessions
from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest import watch
from tiltyard.rest.audit import Audit
from tiltyard.rest.door import CONSOLE, Door
from tiltyard.rest.runner import Runner
from tiltyard.rest.settings import ServerSettings


def create_app(
    namespace: DirectoryNamespace, settings: ServerSettings, *, pages: Sequence[BaseRoute] = ()
) -> Starlette:
    """The application for one catalog. All requests share the namespace, so that commits of many
    clients at once are grouped. `pages` go under /console, and know their visitors themselves."""
    keyring = Keyring(settings.keys)
    sessions = Sessions(keyring)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.ready = True
        yield
        app.state.ready = False
        app.state.runner.close()  # commits in flight end before the process does

    app = Starlette(
        routes=[
            Route("/healthz", watch.healthz),
            Route("/readyz", watch.readyz),
            Route("/metrics", watch.metrics),
            *([Mount(CONSOLE, routes=list(pages))] if pages else ()),
        ],
        middleware=[Middleware(Door, settings=settings, keyring=keyring, sessions=sessions)],
        lifespan=lifespan,
    )
    app.state.namespace = namespace
    app.state.settings = settings
    app.state.keyring = keyring
    app.state.sessions = sessions
    app.state.runner = Runner(settings.threads, settings.waiting, settings.work_seconds)
    app.state.audit = Audit(settings.audit)
    app.state.ready = False
    return app
