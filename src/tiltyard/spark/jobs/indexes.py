"""`build_index`: an index over one table, built in segments by all executors, in one commit; or the
same index over many tables, where small ones share a task."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import lance_namespace as api
from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    TiltyardError,
)
from tiltyard.job_options import IndexJob, JobProgress
from tiltyard.maintenance.indexing import IndexBuilder, Indexed, IndexSegment
from tiltyard.maintenance.optimize import TOO_BIG
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import choose_tables, frame, job, parts_of
from tiltyard.spark.table import cores

log = logging.getLogger(__name__)

TRIES = 3
OVERTAKEN = f"others changed the table first, {TRIES} times in a row"
# Of many tables, those with more rows are each built by all executors.
SPLIT_ABOVE = 1_000_000


@job(IndexJob)
def build_index(spark: SparkSession, catalog: DirectoryNamespace, options: IndexJob) -> DataFrame:
    """Build an index of one `table`, a segment on each core, and commit it once: one row.

    With `tables` or a `namespace` in its place, build it for each of them: one row each. `options`
    are those of `CreateTableIndexRequest`, like `num_partitions` or `with_position`. If a table has
    an index of that name, there is nothing to do.
    """
    if (options.table is None) == (options.namespace is None and options.tables is None):
        raise InvalidInputError(
            "name the table, or several", hint="by table, or by tables or namespace"
        )
    limits = options.max_tasks, options.progress
    if options.table is not None:
        wanted = request(parts_of(options.table), options)
        return frame(spark, Indexed, [run(spark, catalog, wanted, *limits)])
    tables = choose_tables(catalog, options.namespace, options.tables)
    rows = run_all(spark, catalog, [request(table, options) for table in tables], *limits)
    return frame(spark, Indexed, rows)


def request(table: Sequence[str], options: IndexJob) -> api.CreateTableIndexRequest:
    """What is asked for of one table, with an error for an option that there is not."""
    known = set(api.CreateTableIndexRequest.model_fields) - {"id", "column", "index_type", "name"}
    unknown = sorted(options.options.keys() - known)
    if unknown:
        raise InvalidInputError(
            f"an index has no option {unknown[0]!r}", hint=f"there are {', '.join(sorted(known))}"
        )
    return api.CreateTableIndexRequest(
        id=list(table),
        column=options.column,
        index_type=options.index_type,
        name=options.name or f"{options.column}_idx",
        **options.options,
    )


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    asked: api.CreateTableIndexRequest,
    max_tasks: int | None = None,
    progress: JobProgress | None = None,
) -> Indexed:
    """The row of one index; an error that is not about what was asked for is in it.

    Writers that replace fragments meanwhile go first, and the index is built anew, some times.
    """
    steps = IndexBuilder(catalog.services.maintenance)
    segments = max_tasks or cores(spark) or os.cpu_count() or 1
    row = _row(asked)
    for _ in range(TRIES):
        try:
            planned = steps.plan(asked, segments)
            if not planned.segments:
                return planned.row
            row = planned.row
            answers: list[Any] = fanout.run(
                spark,
                catalog,
                _build,
                planned.segments,
                lambda segment, error: error,
                doing="build a segment of an index",
                max_tasks=max_tasks,
                threads=1,
                fewest_items=1,
                progress=progress,
            )
            errors = [answer for answer in answers if isinstance(answer, str)]
            if errors:
                built = [answer for answer in answers if not isinstance(answer, str)]
                steps.discard(planned, built)
                raise InternalError(errors[0])
            return steps.commit(planned, answers)
        except InvalidInputError:
            raise
        except ConcurrentModificationError as overtaken:
            log.info("index of table %s: %s", row.table, overtaken)
        except TiltyardError as error:
            return replace(row, error=str(error))
    return replace(row, error=OVERTAKEN)


def run_all(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    wanted: Sequence[api.CreateTableIndexRequest],
    max_tasks: int | None = None,
    progress: JobProgress | None = None,
    split_above: int = SPLIT_ABOVE,
) -> list[Indexed]:
    """The rows of many indexes, in their order, errors among them. Several of one table are built
    one after the other, by one unit; those of a table with more than `split_above` rows by all."""
    of_tables: dict[TableId, list[api.CreateTableIndexRequest]] = {}
    for asked in wanted:
        of_tables.setdefault(tuple(asked.id or ()), []).append(asked)
    answers = fanout.run(
        spark,
        catalog,
        partial(_build_whole, most_rows=split_above),
        list(of_tables.values()),
        lambda requests, error: [replace(_row(asked), error=error) for asked in requests],
        doing="build an index",
        max_tasks=max_tasks,
        progress=progress,
    )
    rows = {table: iter(built) for table, built in zip(of_tables, answers, strict=True)}
    answered = [(asked, next(rows[tuple(asked.id or ())])) for asked in wanted]
    return [
        _run_one(spark, catalog, asked, max_tasks) if row.skipped == TOO_BIG else row
        for asked, row in answered
    ]


def _run_one(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    asked: api.CreateTableIndexRequest,
    max_tasks: int | None,
) -> Indexed:
    """One of many: whatever is wrong with it is in its row."""
    try:
        return run(spark, catalog, asked, max_tasks)
    except TiltyardError as error:
        return replace(_row(asked), error=str(error))


def _build(catalog: DirectoryNamespace, segment: IndexSegment) -> Any:
    return IndexBuilder(catalog.services.maintenance).build(segment)


def _build_whole(
    catalog: DirectoryNamespace,
    wanted: Sequence[api.CreateTableIndexRequest],
    *,
    most_rows: int,
) -> list[Indexed]:
    """The indexes of one table, unless it is too big for one process."""
    rows = []
    for asked in wanted:
        try:
            rows.append(_committed(catalog, asked, most_rows))
        except TiltyardError as error:
            rows.append(replace(_row(asked), error=str(error)))
    return rows


def _committed(
    catalog: DirectoryNamespace, asked: api.CreateTableIndexRequest, most_rows: int
) -> Indexed:
    steps = IndexBuilder(catalog.services.maintenance)
    for _ in range(TRIES):
        planned = steps.plan(asked, 1, most_rows)
        if not planned.segments:
            return planned.row
        try:
            return steps.commit(planned, [steps.build(segment) for segment in planned.segments])
        except ConcurrentModificationError as overtaken:
            log.info("index of table %s: %s", planned.row.table, overtaken)
    return replace(_row(asked), error=OVERTAKEN)


def _row(asked: api.CreateTableIndexRequest) -> Indexed:
    table = names.dotted(asked.id or ())
    return Indexed(table, asked.name or "", asked.column, asked.index_type.upper())
