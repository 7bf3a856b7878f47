"""What a Python process of an executor does once, at its first task of ours."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Have what is imported by now looked at no more by the collector.

    Spark's worker collects garbage after each task and takes no other one meanwhile. It would look
    at every object of every module each time: for a small query that is half of its work.
    """
    gc.collect()
    gc.freeze()
