"""`migrate`: a row in the manifest for every table directory, of any number of them.

To look at each table is what takes long, so executors do that. The rows come in a few commits by
the driver, ten thousand to each, and a second run finds what is left.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.catalog.migration import Migrated, MigrationAction, V1Directories
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress

# Directories that are looked at together, with one look at the manifest.
TOGETHER = 200


def migrate(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    dry_run: bool = False,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Give every table directory at the root a row in the manifest: one row of the answer each.

    No data moves. What Lance's own clients hid by a file inside of a table is noted at the root.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    rows = run(spark, opened, dry_run=dry_run, max_tasks=max_tasks, progress=progress)
    return frame(spark, Migrated, rows)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    *,
    dry_run: bool = False,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> list[Migrated]:
    """The rows of `migrate`."""
    found = catalog.services.migration.look()
    every = found.directories
    portions = [
        replace(found, directories=every[at : at + TOGETHER])
        for at in range(0, len(every), TOGETHER)
    ]
    judged = fanout.run(
        spark,
        catalog,
        _judge,
        portions,
        _failed,
        doing="look at a directory",
        max_tasks=max_tasks,
        fewest_items=1,
        progress=progress,
    )
    rows = [row for some in judged for row in some]
    if not dry_run:
        catalog.services.migration.finish(rows)
    return rows


def _judge(catalog: DirectoryNamespace, portion: V1Directories) -> list[Migrated]:
    return catalog.services.migration.judge(portion)


def _failed(portion: V1Directories, error: str) -> list[Migrated]:
    return [
        Migrated(each.removesuffix(names.TABLE_SUFFIX), each, MigrationAction.FAILED, error)
        for each in portion.directories
    ]
