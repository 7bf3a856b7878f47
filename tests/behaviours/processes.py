"""How tests start processes that share nothing with them, and start soon."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext


def context() -> ForkServerContext:
    """Forks from a server that has done one slow import, in which no thread runs yet."""
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(["lance_namespace"])
    return made
