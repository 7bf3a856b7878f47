"""`cleanup`: old versions of tables by a policy, and the files that only they had.

Each table is one unit: its boundary moves first, and what goes is deleted in bulk requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.job_options import CleanupJob
from tiltyard.maintenance.cleanup import Cleaned
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import choose_tables, frame, job

COLUMNS = {
    "versions_removed": "deleted_versions_count",
    "files_removed": "deleted_files_count",
    "bytes_removed": "deleted_bytes_count",
}

CleanupWork = Mapping[TableId, CleanupPolicy]


@job(CleanupJob)
def cleanup(spark: SparkSession, catalog: DirectoryNamespace, options: CleanupJob) -> DataFrame:
    """Delete versions that are older than `older_than` and not among the newest `keep_versions`:
    one row for each table.

    `max_bytes` bounds what is deleted in this run; the next one goes on from there.
    """
    policy = policy_of(options)
    tables = choose_tables(catalog, options.namespace, options.tables)
    return frame(
        spark, Cleaned, run(spark, catalog, dict.fromkeys(tables, policy), options), COLUMNS
    )


def policy_of(options: CleanupJob) -> CleanupPolicy:
    """What a job keeps of each table. InvalidInputError if it is not said."""
    return CleanupPolicy(
        options.keep_versions,
        options.older_than,
        options.min_age,
        options.allow_below_recovery_floor,
        options.allow_young,
        options.branches,
    )


def run(
    spark: SparkSession, catalog: DirectoryNamespace, work: CleanupWork, options: CleanupJob
) -> list[Cleaned]:
    """The rows of the tables that are given, each with its own policy, in their order."""

    def fan_out(items: CleanupWork, unit: _CleanTable) -> dict[TableId, Cleaned]:
        rows = fanout.run(
            spark,
            catalog,
            unit,
            list(items.items()),
            lambda item, error: Cleaned(names.dotted(item[0]), error=error),
            doing="clean up a table",
            max_tasks=options.max_tasks,
            progress=options.progress,
        )
        return dict(zip(items, rows, strict=True))

    if not options.dry_run and options.max_bytes is None:
        return list(fan_out(work, _CleanTable(dry_run=False)).values())
    planned = fan_out(work, _CleanTable(dry_run=True))
    if options.dry_run:
        return list(planned.values())
    busy = [table for table, row in planned.items() if not row.is_nothing]
    count = fanout.within(busy, lambda table: planned[table].bytes_removed, options.max_bytes)
    done = fan_out({table: work[table] for table in busy[:count]}, _CleanTable(dry_run=False))
    return [done.get(table, _untouched(row)) for table, row in planned.items()]


@dataclass(frozen=True)
class _CleanTable:
    dry_run: bool

    def __call__(self, catalog: DirectoryNamespace, item: tuple[TableId, CleanupPolicy]) -> Cleaned:
        table, policy = item
        return catalog.maintenance.cleanup_table(table, policy, dry_run=self.dry_run)


def _untouched(row: Cleaned) -> Cleaned:
    """The row of a table that was only looked at."""
    return replace(
        row,
        versions_removed=0,
        files_removed=0,
        bytes_removed=0,
        versions_kept=row.versions_kept + row.versions_removed,
    )
