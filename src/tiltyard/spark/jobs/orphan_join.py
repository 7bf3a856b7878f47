"""What Spark does in a search for orphans: choose rows by their kind, and join the names of files
with those that versions have."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame, functions

from tiltyard.spark.jobs import orphan_rows

# Spark takes these streams for tiny, and would broadcast them.
_MERGE = "merge"
_NAMED = ["location", "name"]


def of(rows: DataFrame, *kinds: str) -> DataFrame:
    """The rows of some kinds."""
    return rows.where(functions.col("kind").isin(*kinds))


def strays(rows: DataFrame, broken: Collection[str]) -> DataFrame:
    """Files that nothing refers to, of tables that could be read to the end."""
    found = of(rows, orphan_rows.STRAY).where(~functions.col("location").isin(*broken))
    return found.select("location", functions.col("value").alias("path"), "size", "modified_ms")


def known(rows: DataFrame) -> DataFrame:
    """The names that versions have."""
    return of(rows, orphan_rows.NAME).select("location", functions.col("value").alias("name"))


def without(listed: DataFrame, known: DataFrame) -> DataFrame:
    """Files whose likeliest name no version has: of those that are needed, few are left."""
    return listed.join(known.hint(_MERGE), _NAMED, "left_anti")


def without_all(rest: DataFrame, known: DataFrame) -> DataFrame:
    """Files of which no version has any name."""
    each_name = rest.mapInArrow(orphan_rows.every_name, orphan_rows.NAMES)
    needed = each_name.join(known.hint(_MERGE), _NAMED, "left_semi")
    return rest.join(needed.select("path").hint(_MERGE), "path", "left_anti")
