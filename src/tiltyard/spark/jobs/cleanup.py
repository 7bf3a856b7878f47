"""`cleanup`: old versions of tables by a policy, and the files that only they had.

Each table is one unit: its boundary moves first, and what goes is deleted in bulk requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.errors import InvalidInputError
from tiltyard.maintenance.cleanup import Cleaned
from tiltyard.maintenance.policy import CleanupPolicy, Duration
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.choosing import Name, choose
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.packing import within
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress

COLUMNS = {
    "versions_removed": "deleted_versions_count",
    "files_removed": "deleted_files_count",
    "bytes_removed": "deleted_bytes_count",
}

Work = Mapping[TableId, CleanupPolicy]


def cleanup(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    older_than: Duration | None = None,
    keep_versions: int | None = None,
    policy: CleanupPolicy | None = None,
    namespace: Name | None = None,
    tables: Sequence[Name] | None = None,
    dry_run: bool = False,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Delete versions that are older than `older_than` and not among the newest `keep_versions`, or
    what a whole `policy` says: one row for each table.

    `max_bytes` bounds what is deleted in this run; the next one goes on from there.
    """
    if policy is None:
        policy = CleanupPolicy(keep_versions, older_than)
    elif older_than is not None or keep_versions is not None:
        raise InvalidInputError("the policy says already what is kept")
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    chosen = dict.fromkeys(choose(opened, namespace, tables), policy)
    limits = {"max_tasks": max_tasks, "max_bytes": max_bytes}
    rows = run(spark, opened, chosen, dry_run=dry_run, progress=progress, **limits)
    return frame(spark, Cleaned, rows, COLUMNS)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    work: Work,
    *,
    dry_run: bool = False,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> list[Cleaned]:
    """The rows of the tables that are given, each with its own policy, in their order."""

    def fan_out(items: Work, unit: _Clean) -> dict[TableId, Cleaned]:
        rows = fanout.run(
            spark,
            catalog,
            unit,
            list(items.items()),
            lambda item, error: Cleaned(names.dotted(item[0]), error=error),
            doing="clean up a table",
            max_tasks=max_tasks,
            progress=progress,
        )
        return dict(zip(items, rows, strict=True))

    if not dry_run and max_bytes is None:
        return list(fan_out(work, _Clean(dry_run=False)).values())
    planned = fan_out(work, _Clean(dry_run=True))
    if dry_run:
        return list(planned.values())
    busy = [table for table, row in planned.items() if not row.is_nothing]
    now = busy[: within(busy, lambda table: planned[table].bytes_removed, max_bytes)]
    done = fan_out({table: work[table] for table in now}, _Clean(dry_run=False))
    return [done.get(table, _untouched(row)) for table, row in planned.items()]


@dataclass(frozen=True)
class _Clean:
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
