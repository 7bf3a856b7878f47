"""`build_index`: an index over one table, built in segments by all executors, in one commit."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import lance_namespace as api
from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    TiltyardError,
)
from tiltyard.maintenance.indexing import Indexed, Segment
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.choosing import Name, parts_of
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress
from tiltyard.spark.table import cores

log = logging.getLogger(__name__)

TRIES = 3


def build_index(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    table: Name,
    column: str,
    index_type: str,
    name: str | None = None,
    max_tasks: int | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> DataFrame:
    """Build an index, one segment on each core, and commit it once: one row.

    `options` are those of `CreateTableIndexRequest`, like `num_partitions` or `with_position`. If
    the table has an index of that name, there is nothing to do.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    asked = request(parts_of(table), column, index_type, name, options)
    return frame(spark, Indexed, [run(spark, opened, asked, max_tasks, progress)])


def request(
    table: Sequence[str], column: str, index_type: str, name: str | None, options: dict[str, Any]
) -> api.CreateTableIndexRequest:
    """What is asked for, with an error for an option that there is not."""
    known = set(api.CreateTableIndexRequest.model_fields) - {"id", "column", "index_type", "name"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise InvalidInputError(
            f"an index has no option {unknown[0]!r}", hint=f"there are {', '.join(sorted(known))}"
        )
    return api.CreateTableIndexRequest(
        id=list(table),
        column=column,
        index_type=index_type,
        name=name or f"{column}_idx",
        **options,
    )


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    asked: api.CreateTableIndexRequest,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> Indexed:
    """The row of one index; an error that is not about what was asked for is in it.

    Whoever replaces fragments meanwhile goes first, and the index is built anew, some times.
    """
    steps = catalog.index_steps()
    segments = max_tasks or cores(spark) or os.cpu_count() or 1
    row = Indexed(
        names.dotted(asked.id or ()), asked.name or "", asked.column, asked.index_type.upper()
    )
    for _ in range(TRIES):
        try:
            planned = steps.plan(asked, segments)
            if not planned.segments:
                return planned.row
            row = planned.row
            found: list[Any] = fanout.run(
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
            errors = [each for each in found if isinstance(each, str)]
            if errors:
                steps.discard(planned, [each for each in found if not isinstance(each, str)])
                raise InternalError(errors[0])
            return steps.commit(planned, found)
        except InvalidInputError:
            raise
        except ConcurrentModificationError as overtaken:
            log.info("index of table %s: %s", row.table, overtaken)
        except TiltyardError as error:
            return replace(row, error=str(error))
    return replace(row, error=f"others changed the table first, {TRIES} times in a row")


def _build(catalog: DirectoryNamespace, segment: Segment) -> Any:
    return catalog.index_steps().build(segment)
