"""`optimize`: fast to read again, every table of a catalog, however unequal they are.

Small tables are swept: many to a task, each by one process. What is too big for that is left by the
sweep and then compacted by all executors together.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.maintenance.optimize import TOO_BIG, Optimized, OptimizeOptions
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.choosing import Name, choose
from tiltyard.spark.jobs.compaction import compact
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.packing import within
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress

COLUMNS = {
    "fragments_removed": "rewritten_fragments_count",
    "fragments_added": "added_fragments_count",
    "bytes_rewritten": "rewritten_bytes_count",
}

# Below this, spreading the work of one table costs more than it saves.
SPLIT_ABOVE = 512 * 1024 * 1024
# After so many seconds, who has not ended a commit is taken for dead.
COMMIT_TIME = 10.0
PAUSE, WAITS = 0.5, 40
BEYOND = "there was more to do than max_bytes"

Work = Mapping[TableId, OptimizeOptions]


def optimize(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    namespace: Name | None = None,
    tables: Sequence[Name] | None = None,
    options: OptimizeOptions | None = None,
    split_above: int = SPLIT_ABOVE,
    dry_run: bool = False,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Join small files, drop deleted rows, and bring new rows into indexes: one row for each table.

    A table of which more than `split_above` bytes have to be written again is compacted in parts by
    all executors, in one commit. `max_bytes` bounds what is written again in this run; the next one
    goes on from there.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    chosen = dict.fromkeys(choose(opened, namespace, tables), options or OptimizeOptions())
    rows = run(
        spark,
        opened,
        chosen,
        split_above=split_above,
        dry_run=dry_run,
        max_tasks=max_tasks,
        max_bytes=max_bytes,
        progress=progress,
    )
    return frame(spark, Optimized, rows, COLUMNS)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    work: Work,
    *,
    split_above: int = SPLIT_ABOVE,
    dry_run: bool = False,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> list[Optimized]:
    """The rows of the tables that are given, each with its own options, in their order."""
    planned: dict[TableId, Optimized] = {}
    if dry_run or max_bytes is not None:
        looked = _fan_out(spark, catalog, work, _Look(), max_tasks, progress)
        if dry_run:
            return looked
        planned = dict(zip(work, looked, strict=True))
    now, later = _divided(work, planned, max_bytes)
    unit = _Sweep(split_above)
    swept = _fan_out(spark, catalog, now, unit, max_tasks, progress, planned)
    rows = dict(zip(now, swept, strict=True))
    freed = _freed(catalog, [table for table, row in rows.items() if row.error])
    again = {table: now[table] for table in now if table in freed}
    rows |= zip(again, _fan_out(spark, catalog, again, unit, max_tasks, None), strict=True)
    for table, row in rows.items():
        if row.skipped == TOO_BIG:
            rows[table] = compact(spark, catalog, table, row, now[table], max_tasks, progress)
    for table in later:
        rows[table] = replace(
            planned[table], fragments_removed=0, bytes_rewritten=0, skipped=BEYOND
        )
    return [rows[table] for table in work]


def _freed(catalog: DirectoryNamespace, failed: Collection[TableId]) -> set[TableId]:
    """Tables that an executor kept from being touched as it died over its commit; no longer."""
    freed: set[TableId] = set()
    for _ in range(WAITS if failed else 0):
        found = catalog.health.recover_compactions(failed, older_than=COMMIT_TIME)
        freed.update(table for each in found if each.outcome.is_final for table in each.tables)
        if not any(each.outcome is Resolution.DEFERRED for each in found):
            break
        threading.Event().wait(PAUSE)
    return freed.intersection(failed)


def _divided(
    work: Work, planned: Mapping[TableId, Optimized], max_bytes: int | None
) -> tuple[Work, list[TableId]]:
    """The tables that fit into this run, and those for another. What has nothing to do fits."""
    if max_bytes is None:
        return work, []
    busy = [table for table in work if planned[table].bytes_rewritten]
    count = within(busy, lambda table: planned[table].bytes_rewritten, max_bytes)
    later = set(busy[count:])
    return {table: work[table] for table in work if table not in later}, busy[count:]


@dataclass(frozen=True)
class _Look:
    """What there is to do for a table."""

    def __call__(
        self, catalog: DirectoryNamespace, item: tuple[TableId, OptimizeOptions]
    ) -> Optimized:
        return catalog.maintenance.optimize_table(item[0], options=item[1], dry_run=True)


@dataclass(frozen=True)
class _Sweep:
    """Optimizes a table, unless it is too big for one process."""

    split_above: int

    def __call__(
        self, catalog: DirectoryNamespace, item: tuple[TableId, OptimizeOptions]
    ) -> Optimized:
        table, options = item
        return catalog.maintenance.optimize_table(
            table, options=options, most_bytes=self.split_above
        )


def _fan_out(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    work: Work,
    unit: _Look | _Sweep,
    max_tasks: int | None,
    progress: Progress | None,
    planned: Mapping[TableId, Optimized] | None = None,
) -> list[Optimized]:
    """The rows of all tables. Where it is known how much each has to do, tasks get equal shares."""
    known = planned or {}
    return fanout.run(
        spark,
        catalog,
        unit,
        list(work.items()),
        lambda item, error: Optimized(names.dotted(item[0]), error=error),
        doing="optimize a table",
        weight=(lambda item: 1 + known[item[0]].bytes_rewritten) if known else None,
        max_tasks=max_tasks,
        progress=progress,
    )
