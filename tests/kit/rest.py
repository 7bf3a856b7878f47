"""A server in a thread of this process, on a real socket of the loopback interface."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings, configure


@contextmanager
def serving(namespace: DirectoryNamespace, settings: ServerSettings | None = None) -> Iterator[str]:
    """Serve a catalog and give the server's address."""
    settings = settings or ServerSettings()
    with running(create_app(namespace, settings), settings) as address:
        yield address


@contextmanager
def running(app: ASGIApp, settings: ServerSettings | None = None) -> Iterator[str]:
    """Run an application and give its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(configure(app, settings or ServerSettings()))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


class SharedServer:
    """Many catalogs on one server, each at a path of its own: a server takes a while to start."""

    def __init__(self) -> None:
        self._apps: dict[str, ASGIApp] = {}
        self._numbers = itertools.count(1)
        self.address = ""

    @contextmanager
    def serving(self, namespace: DirectoryNamespace) -> Iterator[str]:
        """Serve one more catalog and give its address."""
        settings = ServerSettings()
        number, app = str(next(self._numbers)), create_app(namespace, settings)
        self._apps[number] = app
        try:
            yield f"{self.address}/{number}"
        finally:
            del self._apps[number]
            app.state.workers.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            await send({"type": "lifespan.shutdown.complete"})
            return
        _, number, path = scope["path"].split("/", 2)
        raw = scope["raw_path"].split(b"/", 2)[2]
        below = {**scope, "path": f"/{path}", "raw_path": b"/" + raw}
        await self._apps[number](below, receive, send)


@contextmanager
def shared_server() -> Iterator[SharedServer]:
    """A server that catalogs can be added to."""
    server = SharedServer()
    with running(server) as server.address:
        yield server
