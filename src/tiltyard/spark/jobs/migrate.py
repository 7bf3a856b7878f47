"""`migrate`: a row in the manifest for every table directory, of any number of them.

To look at each table is what takes long, so executors do that. The rows come in a few commits by
the driver, ten thousand to each, and a second run finds what is left.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.catalog.migration import Migrated, MigrationAction, V1Directories
from tiltyard.job_options import MigrateJob
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import frame, job

# Directories that are looked at together, with one look at the manifest.
DIRECTORIES_PER_UNIT = 200


@job(MigrateJob)
def migrate(spark: SparkSession, catalog: DirectoryNamespace, options: MigrateJob) -> DataFrame:
    """Give every table directory at the root a row in the manifest: one row of the answer each.

    No data moves. What Lance's own clients hid by a file inside of a table is noted at the root.
    """
    return frame(spark, Migrated, run(spark, catalog, options))


def run(spark: SparkSession, catalog: DirectoryNamespace, options: MigrateJob) -> list[Migrated]:
    """The rows of `migrate`."""
    listing = catalog.services.migration.look()
    directories = listing.directories
    portions = [
        replace(listing, directories=directories[at : at + DIRECTORIES_PER_UNIT])
        for at in range(0, len(directories), DIRECTORIES_PER_UNIT)
    ]
    judged = fanout.run(
        spark,
        catalog,
        _judge,
        portions,
        _failed,
        doing="look at a directory",
        max_tasks=options.max_tasks,
        fewest_items=1,
        progress=options.progress,
    )
    rows = [row for portion in judged for row in portion]
    if not options.dry_run:
        catalog.services.migration.finish(rows)
    return rows


def _judge(catalog: DirectoryNamespace, portion: V1Directories) -> list[Migrated]:
    return catalog.services.migration.judge(portion)


def _failed(portion: V1Directories, error: str) -> list[Migrated]:
    return [
        Migrated(
            directory.removesuffix(names.TABLE_SUFFIX), directory, MigrationAction.FAILED, error
        )
        for directory in portion.directories
    ]
