"""A server in a thread of this process, on a real socket of the loopback interface."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.applications import Starlette

from tiltyard.namespace import DirectoryNamespace
from tiltyard.rest.app import create_app
from tiltyard.rest.server import configure
from tiltyard.rest.settings import ServerSettings


@contextmanager
def serving(
    namespace: DirectoryNamespace, settings: ServerSettings | None = None
) -> Iterator[str]:
    """Serve a catalog and give the server's address."""
    wanted = settings or ServerSettings()
    with running(create_app(namespace, wanted), wanted) as address:
        yield address


@contextmanager
def running(app: Starlette, settings: ServerSettings) -> Iterator[str]:
    """Run an application that is made already."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(configure(app, settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
