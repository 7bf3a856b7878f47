"""The command over a store that holds it still, so that a test can interrupt it in the middle.

`python -m tests.cli.held REQUESTS COMMAND…` lets a number of deletes and conditional puts pass and
stops before the next. What the main thread waits in, Ctrl-C ends. A thread of a pool waits until
the pool takes no more work: then what was begun goes on, and the rest never begins.
"""

from __future__ import annotations

import itertools
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

from tiltyard.catalog import context
from tiltyard.cli import main
from tiltyard.settings import Settings

_pool_is_closed = threading.Event()
_shutdown = ThreadPoolExecutor.shutdown
_open_store = context.open_store


class HeldStore:
    """Passes every request on, as long as it may."""

    def __init__(self, inner: Any, requests: int) -> None:
        self._inner, self._requests = inner, requests
        self._passed = itertools.count(1)

    def __getattr__(self, verb: str) -> Any:
        request = getattr(self._inner, verb)
        if verb not in ("delete_many", "put_new"):
            return request

        def held(*args: Any, **kwargs: Any) -> Any:
            if next(self._passed) > self._requests:
                _pool_is_closed.wait()
            return request(*args, **kwargs)

        return held


def _close(pool: ThreadPoolExecutor, wait: bool = True, *, cancel_futures: bool = False) -> None:
    _shutdown(pool, wait=False, cancel_futures=cancel_futures)
    if cancel_futures:
        _pool_is_closed.set()
    _shutdown(pool, wait=wait)


if __name__ == "__main__":
    requests = int(sys.argv.pop(1))

    def open_held(settings: Settings) -> Any:
        return HeldStore(_open_store(settings), requests)

    with (
        mock.patch.object(context, "open_store", open_held),
        mock.patch.object(ThreadPoolExecutor, "shutdown", _close),
    ):
        raise SystemExit(main())
