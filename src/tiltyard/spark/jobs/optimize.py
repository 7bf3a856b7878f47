"""`optimize`: fast to read again, every table of a catalog, however unequal they are.

Small tables are optimized many to a task, each by one process. A table that is too big for that is
left, and then compacted by all executors together: Lance's plan, its parts spread, one commit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import ConcurrentModificationError, InternalError, TiltyardError
from tiltyard.job_options import OptimizeJob
from tiltyard.maintenance.compaction import CompactionPart, PlannedCompaction, RewrittenPart
from tiltyard.maintenance.optimize import TOO_BIG, Optimized, OptimizeOptions, SplitCompaction
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import choose_tables, frame, job

log = logging.getLogger(__name__)

COLUMNS = {
    "fragments_removed": "rewritten_fragments_count",
    "fragments_added": "added_fragments_count",
    "bytes_rewritten": "rewritten_bytes_count",
}

# An operation that has not ended its commit after so many seconds is taken for dead.
COMMIT_TIME = 10.0
PAUSE, WAITS = 0.5, 40
BEYOND_MAX_BYTES = "there was more to do than max_bytes"
# How often the work on one table is planned anew because others changed the same rows first.
TRIES = 3

OptimizeWork = Mapping[TableId, OptimizeOptions]


@job(OptimizeJob)
def optimize(spark: SparkSession, catalog: DirectoryNamespace, options: OptimizeJob) -> DataFrame:
    """Join small files, drop deleted rows, and bring new rows into indexes: one row for each table.

    A table of which more than `split_above` bytes have to be written again is compacted in parts by
    all executors, in one commit. `max_bytes` bounds what is written again in this run; the next one
    goes on from there.
    """
    tables = choose_tables(catalog, options.namespace, options.tables)
    work = dict.fromkeys(tables, table_options(options))
    return frame(spark, Optimized, run(spark, catalog, work, options), COLUMNS)


def table_options(options: OptimizeJob) -> OptimizeOptions:
    """What a job rewrites of each table."""
    return OptimizeOptions(options.target_rows_per_fragment, options.deleted_share)


def run(
    spark: SparkSession, catalog: DirectoryNamespace, work: OptimizeWork, options: OptimizeJob
) -> list[Optimized]:
    """The rows of the tables that are given, each with its own options, in their order."""
    planned: dict[TableId, Optimized] = {}
    if options.dry_run or options.max_bytes is not None:
        plans = _fan_out(spark, catalog, work, _PlanTable(), options)
        if options.dry_run:
            return plans
        planned = dict(zip(work, plans, strict=True))
    now, later = _divided(work, planned, options.max_bytes)
    unit = _OptimizeTable(options.split_above)
    rows = dict(zip(now, _fan_out(spark, catalog, now, unit, options, planned), strict=True))
    freed = _freed(catalog, [table for table, row in rows.items() if row.error])
    again = {table: now[table] for table in now if table in freed}
    silent = replace(options, progress=None)
    rows |= zip(again, _fan_out(spark, catalog, again, unit, silent), strict=True)
    for table, row in rows.items():
        if row.skipped == TOO_BIG:
            rows[table] = _compact(spark, catalog, table, row, now[table], options)
    for table in later:
        rows[table] = replace(
            planned[table], fragments_removed=0, bytes_rewritten=0, skipped=BEYOND_MAX_BYTES
        )
    return [rows[table] for table in work]


def _freed(catalog: DirectoryNamespace, failed: Collection[TableId]) -> set[TableId]:
    """Tables that the operation of a dead executor had locked, and no longer has."""
    freed: set[TableId] = set()
    for _ in range(WAITS if failed else 0):
        recovered = catalog.health.recover_compactions(failed, older_than=COMMIT_TIME)
        freed.update(table for row in recovered if row.outcome.is_final for table in row.tables)
        if not any(row.outcome is Resolution.DEFERRED for row in recovered):
            break
        threading.Event().wait(PAUSE)
    return freed.intersection(failed)


def _divided(
    work: OptimizeWork, planned: Mapping[TableId, Optimized], max_bytes: int | None
) -> tuple[OptimizeWork, list[TableId]]:
    """The tables that fit into this run, and those for another. What has nothing to do fits."""
    if max_bytes is None:
        return work, []
    busy = [table for table in work if planned[table].bytes_rewritten]
    count = fanout.within(busy, lambda table: planned[table].bytes_rewritten, max_bytes)
    later = set(busy[count:])
    return {table: work[table] for table in work if table not in later}, busy[count:]


@dataclass(frozen=True)
class _PlanTable:
    """What there is to do for a table."""

    def __call__(
        self, catalog: DirectoryNamespace, item: tuple[TableId, OptimizeOptions]
    ) -> Optimized:
        return catalog.maintenance.optimize_table(item[0], options=item[1], dry_run=True)


@dataclass(frozen=True)
class _OptimizeTable:
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
    work: OptimizeWork,
    unit: _PlanTable | _OptimizeTable,
    options: OptimizeJob,
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
        max_tasks=options.max_tasks,
        progress=options.progress,
    )


# -- one big table, compacted by all executors


def _compact(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    table: TableId,
    so_far: Optimized,
    rules: OptimizeOptions,
    options: OptimizeJob,
) -> Optimized:
    """The row of one table after its parts were written by executors and committed here.

    `so_far` is the row of what was done before. An error is in the row. Writers that come first
    keep their changes, and the work is planned anew, some times.
    """
    steps = SplitCompaction(catalog.services.maintenance, rules)
    row = replace(so_far, skipped=None)
    for _ in range(TRIES):
        try:
            planned = steps.plan(table)
            if not planned.parts:
                return row
            parts = _rewrite_parts(spark, catalog, steps, planned, rules, options)
            done = steps.commit(planned, parts)
        except ConcurrentModificationError as overtaken:
            log.info("table %s: %s", row.table, overtaken)
        except TiltyardError as error:
            return replace(row, error=str(error))
        else:
            return _sum_of(so_far, done)
    message = (
        f"others changed the table first, {TRIES} times in a row (nothing is broken; optimize it "
        f"when it is written to less)"
    )
    return replace(row, error=message)


@dataclass(frozen=True)
class _RewritePart:
    rules: OptimizeOptions

    def __call__(self, catalog: DirectoryNamespace, part: CompactionPart) -> RewrittenPart:
        return SplitCompaction(catalog.services.maintenance, self.rules).execute(part)


def _rewrite_parts(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    steps: SplitCompaction,
    planned: PlannedCompaction,
    rules: OptimizeOptions,
    options: OptimizeJob,
) -> list[RewrittenPart]:
    """What executors wrote for all parts. If one of them failed, the files of the others go."""
    answers: list[RewrittenPart | str] = fanout.run(
        spark,
        catalog,
        _RewritePart(rules),
        list(planned.parts),
        lambda part, error: error,
        doing="compact a part of a table",
        weight=lambda part: part.bytes,
        max_tasks=options.max_tasks,
        threads=1,
        fewest_items=1,
        progress=options.progress,
    )
    written = [answer for answer in answers if isinstance(answer, RewrittenPart)]
    errors = [answer for answer in answers if isinstance(answer, str)]
    if errors:
        steps.discard(planned, written, certain=True)
        raise InternalError(errors[0])
    return written


def _sum_of(before: Optimized, done: Optimized) -> Optimized:
    """One row of what one process did to a table and of what was done in parts then."""
    return replace(
        done,
        files_before=before.files_before,
        bytes_before=before.bytes_before,
        fragments_removed=before.fragments_removed + done.fragments_removed,
        fragments_added=before.fragments_added + done.fragments_added,
        bytes_rewritten=before.bytes_rewritten + done.bytes_rewritten,
    )
