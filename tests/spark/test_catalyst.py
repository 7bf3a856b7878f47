"""Rows of the driver become the same DataFrame, whichever way they go."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StringType, StructType

from tests.spark.lake import Lake
from tests.spark.samples import samples
from tiltyard.spark import sql
from tiltyard.spark.handed import MOST_IN_PLAN, handed
from tiltyard.spark.table import read_few

MANY = MOST_IN_PLAN + 5_000
ROW_BYTES = 100
LIMIT = "spark.sql.autoBroadcastJoinThreshold"
SCHEMA = (
    StructType()
    .add("id", "long")
    .add("name", "string")
    .add("tags", ArrayType(StringType()))
    .add("at", "timestamp")
)


def _rows(count: int) -> pa.Table:
    return pa.table(
        {
            "id": range(count),
            "name": [None if at % 7 == 0 else f"n {at}" for at in range(count)],
            "tags": [[str(at), None] if at % 3 else None for at in range(count)],
            "at": pa.array(range(count), pa.timestamp("us", "UTC")),
        }
    )


def _plan(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize("count", [0, 3, MOST_IN_PLAN, MANY])
def test_the_rows_are_the_same_in_their_order(spark: SparkSession, count: int) -> None:
    rows = _rows(count)

    found = handed(spark, rows, SCHEMA, ROW_BYTES)

    assert found.schema == SCHEMA
    assert found.toArrow().to_pylist() == rows.to_pylist()


def test_every_type_goes_as_batches_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltyard.spark.handed.MOST_IN_PLAN", 0)
    lake.put("types", samples())
    planned = lake.plan("types")
    read = read_few(planned)
    assert read is not None

    found = handed(lake.spark, read, planned.schema, planned.row_bytes)

    assert "LocalTableScan" not in _plan(found)
    assert found.schema == planned.schema
    rows = [row.asDict(recursive=True) for row in found.collect()]
    shown = {name: [row[name] for row in rows] for name in found.columns}
    assert shown == samples(in_spark=True)


def test_more_than_a_few_are_no_part_of_the_plan(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.execution.arrow.localRelationThreshold")

    assert "LocalTableScan" in _plan(handed(spark, _rows(MOST_IN_PLAN), SCHEMA, ROW_BYTES))
    assert "LocalTableScan" not in _plan(handed(spark, _rows(MANY), SCHEMA, ROW_BYTES))

    assert spark.conf.get("spark.sql.execution.arrow.localRelationThreshold") == before


def test_a_join_is_planned_by_their_size(spark: SparkSession) -> None:
    rows = handed(spark, _rows(MANY), SCHEMA, ROW_BYTES)
    joined = rows.join(rows.selectExpr("id"), "id")
    try:
        spark.conf.set(LIMIT, MANY * ROW_BYTES)
        assert "BroadcastHashJoin" in _plan(joined)
        spark.conf.set(LIMIT, 1000)
        assert "SortMergeJoin" in _plan(rows.join(rows.selectExpr("id"), "id"))
    finally:
        spark.conf.unset(LIMIT)
    assert joined.count() == MANY


def test_what_a_filter_leaves_is_joined_with_itself(lake: Lake) -> None:
    lake.put("t", {"id": range(2 * MANY), "other": [2 * MANY - 1 - at for at in range(2 * MANY)]})
    query = (
        "SELECT count(*), sum(a.id), sum(b.other) FROM t a JOIN t b ON a.id = b.other "
        f"WHERE a.id < {MANY} AND b.id >= {MANY}"
    )

    rows = sql(lake.spark, lake.root, query)

    assert "LocalTableScan" not in _plan(rows)
    (found,) = rows.collect()
    assert tuple(found) == (MANY, sum(range(MANY)), sum(range(MANY)))
