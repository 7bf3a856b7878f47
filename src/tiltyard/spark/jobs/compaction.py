"""One big table, compacted by all executors: Lance's plan, its parts spread, one commit."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from tiltyard.errors import ConcurrentModificationError, InternalError, TiltyardError
from tiltyard.maintenance.compaction import CompactionPart, PlannedCompaction, RewrittenPart
from tiltyard.maintenance.optimize import Optimized, OptimizeOptions, SplitCompaction
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.watching import Progress

log = logging.getLogger(__name__)

# How often the work is planned anew because others changed the same rows first.
TRIES = 3


def compact(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    table: TableId,
    so_far: Optimized,
    options: OptimizeOptions,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> Optimized:
    """The row of one table after its parts were written by executors and committed here.

    `so_far` is the row of what was done before. An error is in the row. Writers that come first
    keep their changes, and the work is planned anew, some times.
    """
    steps = SplitCompaction(catalog.services.maintenance, options)
    row = replace(so_far, skipped=None)
    for _ in range(TRIES):
        try:
            planned = steps.plan(table)
            if not planned.parts:
                return row
            done = steps.commit(
                planned, _written(spark, catalog, steps, planned, options, max_tasks, progress)
            )
        except ConcurrentModificationError as overtaken:
            log.info("table %s: %s", row.table, overtaken)
        except TiltyardError as error:
            return replace(row, error=str(error))
        else:
            return _together(so_far, done)
    said = f"others changed the table first, {TRIES} times in a row"
    return replace(row, error=f"{said} (nothing is broken; optimize it when it is written to less)")


@dataclass(frozen=True)
class _Execute:
    options: OptimizeOptions

    def __call__(self, catalog: DirectoryNamespace, part: CompactionPart) -> RewrittenPart:
        return SplitCompaction(catalog.services.maintenance, self.options).execute(part)


def _written(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    steps: SplitCompaction,
    planned: PlannedCompaction,
    options: OptimizeOptions,
    max_tasks: int | None,
    progress: Progress | None,
) -> list[RewrittenPart]:
    """What executors wrote for all parts. If one of them failed, the files of the others go."""
    found: list[RewrittenPart | str] = fanout.run(
        spark,
        catalog,
        _Execute(options),
        list(planned.parts),
        lambda part, error: error,
        doing="compact a part of a table",
        weight=lambda part: part.bytes,
        max_tasks=max_tasks,
        threads=1,
        fewest_items=1,
        progress=progress,
    )
    written = [each for each in found if isinstance(each, RewrittenPart)]
    errors = [each for each in found if isinstance(each, str)]
    if errors:
        steps.discard(planned, written, certain=True)
        raise InternalError(errors[0])
    return written


def _together(before: Optimized, done: Optimized) -> Optimized:
    """One row of what a sweep did to a table and of what was done in parts then."""
    return replace(
        done,
        files_before=before.files_before,
        bytes_before=before.bytes_before,
        fragments_removed=before.fragments_removed + done.fragments_removed,
        fragments_added=before.fragments_added + done.fragments_added,
        bytes_rewritten=before.bytes_rewritten + done.bytes_rewritten,
    )
