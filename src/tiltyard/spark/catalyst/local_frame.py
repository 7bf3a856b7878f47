"""Rows that are on the driver already, as a DataFrame.

Spark puts rows that it is given into its plan, each an object that the optimizer looks at and Java
serializes. A few go that way. More go as Arrow batches, whose size Spark does not know; it is set
here, so that a join is planned as it would be otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tiltyard.spark.catalyst.jvm import (
    JavaObject,
    analyzed_plan,
    dataframe,
    java_session,
    jvm_of,
    node_type,
)

# From here on batches are faster, measured with four columns.
MOST_IN_PLAN = 10_000

_LARGEST_PLANNED = "spark.sql.execution.arrow.localRelationThreshold"
_NONE = "0"
_NUMBER_BYTES = 8


def local_frame(
    spark: SparkSession, rows: pa.Table, schema: StructType, row_bytes: int
) -> DataFrame:
    """A DataFrame of these rows, whose size Spark estimates as `row_bytes` for each."""
    if rows.num_rows <= MOST_IN_PLAN:
        return spark.createDataFrame(rows, schema)
    with _as_batches(spark):
        frame = spark.createDataFrame(rows, schema)
    plan = analyzed_plan(frame)
    if node_type(plan) != "LogicalRDD":
        return frame
    return dataframe(spark, _with_size(spark, plan, rows.num_rows * row_bytes))


@contextmanager
def _as_batches(spark: SparkSession) -> Iterator[None]:
    """Keep rows out of plans. A second caller at the same time leaves the setting to the first."""
    before = spark.conf.get(_LARGEST_PLANNED)
    if before is None or before == _NONE:
        yield
        return
    spark.conf.set(_LARGEST_PLANNED, _NONE)
    try:
        yield
    finally:
        spark.conf.set(_LARGEST_PLANNED, before)


def _with_size(spark: SparkSession, plan: JavaObject, size: int) -> JavaObject:
    jvm = jvm_of(spark)
    return plan.copy(
        plan.output(),
        plan.rdd(),
        plan.outputPartitioning(),
        plan.outputOrdering(),
        plan.isStreaming(),
        plan.stream(),
        java_session(spark),
        jvm("scala.Some")(_statistics(spark, size)),
        jvm("scala.Option").empty(),
        False,
    )


def _statistics(spark: SparkSession, size: int) -> JavaObject:
    """The statistics of a plan of so many bytes. py4j turns a BigInt of Scala into Python's and
    not back, so they are taken from a range of numbers that is as large."""
    numbers = java_session(spark).range(-(-size // _NUMBER_BYTES)).where("id IS NOT NULL")
    return numbers.queryExecution().analyzed().stats()
