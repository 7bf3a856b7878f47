"""Spark's Python daemon, which forks the workers, with the slowest import done before.

Spark's own daemon imports nothing for them, because threads do not survive a fork. The models of
`lance_namespace` are plain Python and start none, and take longer to import than all else together:
a write has two workers on the driver, each of which would begin with that.
"""

from __future__ import annotations

import lance_namespace  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
