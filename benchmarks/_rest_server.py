"""One of the two servers of `benchmarks.rest`, until it is ended. Prints its address."""

from __future__ import annotations

import signal
import socket
import sys

from lance.namespace import RestAdapter

import tiltyard
from benchmarks._catalogs import V2
from tiltyard.rest.app import create_app
from tiltyard.rest.server import ServerSettings, serve


def main(which: str, root: str) -> None:
    if which == "ours":
        settings = ServerSettings()
        app = create_app(tiltyard.connect(root, **V2), settings)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            _tell(listener.getsockname()[1])
            serve(app, settings, sockets=[listener])
    else:
        with RestAdapter("dir", {"root": root, **V2}, port=0) as adapter:
            _tell(adapter.port)
            signal.pause()


def _tell(port: int) -> None:
    print(f"http://127.0.0.1:{port}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
