"""Where Spark looks for the data source by itself: packages whose name begins with pyspark_.

Nothing is imported before Spark asks for it, so that `daemon` begins without pylance's threads.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    if name != "DefaultSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tiltyard.spark.source import TiltyardSource

    return TiltyardSource
