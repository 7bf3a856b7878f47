"""Rows that are on the driver already, as a DataFrame.

Spark puts rows that it is given into its plan, each an object that the optimizer looks at and Java
serializes. A few go that way. More go as the Arrow batches that they are, of which Spark knows no
size, so it is told: a join is then planned no otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tiltyard.spark.jvm import Java, jvm_of, kind_of

# From here on batches are faster, measured with four columns.
MOST_IN_PLAN = 10_000

_LARGEST_PLANNED = "spark.sql.execution.arrow.localRelationThreshold"
_NONE = "0"
_NUMBER_BYTES = 8


def handed(spark: SparkSession, rows: pa.Table, schema: StructType, row_bytes: int) -> DataFrame:
    """A DataFrame of these rows, of which Spark takes each to be of so many bytes."""
    if rows.num_rows <= MOST_IN_PLAN:
        return spark.createDataFrame(rows, schema)
    with _as_batches(spark):
        frame = spark.createDataFrame(rows, schema)
    plan = frame._jdf.queryExecution().analyzed()
    if kind_of(plan) != "LogicalRDD":
        return frame
    sized = _sized(spark, plan, rows.num_rows * row_bytes)
    dataset = jvm_of(spark).sql("classic.Dataset")
    return DataFrame(dataset.ofRows(spark._jsparkSession, sized), spark)


@contextmanager
def _as_batches(spark: SparkSession) -> Iterator[None]:
    """Whoever comes while another is at it leaves the setting to that one."""
    before = spark.conf.get(_LARGEST_PLANNED)
    if before is None or before == _NONE:
        yield
        return
    spark.conf.set(_LARGEST_PLANNED, _NONE)
    try:
        yield
    finally:
        spark.conf.set(_LARGEST_PLANNED, before)


def _sized(spark: SparkSession, plan: Java, size: int) -> Java:
    jvm = jvm_of(spark)
    return plan.copy(
        plan.output(),
        plan.rdd(),
        plan.outputPartitioning(),
        plan.outputOrdering(),
        plan.isStreaming(),
        plan.stream(),
        spark._jsparkSession,
        jvm("scala.Some")(_statistics(spark, size)),
        jvm("scala.Option").empty(),
        False,
    )


def _statistics(spark: SparkSession, size: int) -> Java:
    """That something has so many bytes. A large number of Scala's becomes one of Python's on its
    way, and none again, so these are the statistics of what Spark knows to be as large."""
    numbers = spark._jsparkSession.range(-(-size // _NUMBER_BYTES)).where("id IS NOT NULL")
    return numbers.queryExecution().analyzed().stats()
