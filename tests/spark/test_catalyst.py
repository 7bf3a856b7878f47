"""Internals of Spark: which are used, where, and with which version; rows of the driver."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StringType, StructType

import tiltyard
from tests.spark.lake import Lake, by_column, plan_text
from tests.spark.samples import samples
from tiltyard.spark import sql
from tiltyard.spark.catalyst.jvm import INTERNALS, MOST_IN_PLAN, SEEN_WITH, Internal, local_frame
from tiltyard.spark.table import read_few

SOURCE = Path(tiltyard.__file__).parent
INTERNAL = re.compile(r"\b(py4j|_jvm|_jdf|_jsparkSession|_jsc|_jc|_jconf|_gateway)\b|_get_j_")


def test_internals_of_spark_were_seen_with_this_version() -> None:
    assert pyspark.__version__ == SEEN_WITH, (
        f"tiltyard uses internals of Spark {SEEN_WITH}, and this is {pyspark.__version__}: look at "
        "each entry of INTERNALS in spark/catalyst/jvm.py, run the tests of Spark, and set "
        "SEEN_WITH there"
    )


def test_internals_of_spark_are_used_in_one_package() -> None:
    users = {
        path.relative_to(SOURCE).parts[:-1]
        for path in SOURCE.rglob("*.py")
        if INTERNAL.search(path.read_text())
    }
    assert users == {("spark", "catalyst")}


@pytest.mark.parametrize("internal", INTERNALS, ids=lambda internal: internal.name)
def test_an_internal_of_spark_is_there(jvm: Any, internal: Internal) -> None:
    methods = jvm.java.lang.Class.forName(internal.name).getMethods()
    names = re.findall(r"\.(\w+)\(", jvm.scala.runtime.ScalaRunTime.stringOf(methods))
    assert set(internal.members) <= set(names)


# -- rows of the driver

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
            "name": [None if number % 7 == 0 else f"n {number}" for number in range(count)],
            "tags": [[str(number), None] if number % 3 else None for number in range(count)],
            "at": pa.array(range(count), pa.timestamp("us", "UTC")),
        }
    )


@pytest.mark.parametrize("count", [0, 3, MOST_IN_PLAN, MANY])
def test_the_rows_are_the_same_in_their_order(spark: SparkSession, count: int) -> None:
    rows = _rows(count)

    frame = local_frame(spark, rows, SCHEMA, ROW_BYTES)

    assert frame.schema == SCHEMA
    assert frame.toArrow().to_pylist() == rows.to_pylist()


def test_every_type_goes_as_batches_too(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tiltyard.spark.catalyst.jvm.MOST_IN_PLAN", 0)
    lake.put("types", samples())
    planned = lake.plan("types")
    read = read_few(planned)
    assert read is not None

    frame = local_frame(lake.spark, read, planned.schema, planned.row_bytes)

    assert "LocalTableScan" not in plan_text(frame)
    assert frame.schema == planned.schema
    assert by_column(frame) == samples(in_spark=True)


def test_more_than_a_few_are_no_part_of_theplan_text(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.execution.arrow.localRelationThreshold")

    assert "LocalTableScan" in plan_text(local_frame(spark, _rows(MOST_IN_PLAN), SCHEMA, ROW_BYTES))
    assert "LocalTableScan" not in plan_text(local_frame(spark, _rows(MANY), SCHEMA, ROW_BYTES))

    assert spark.conf.get("spark.sql.execution.arrow.localRelationThreshold") == before


def test_a_join_is_planned_by_their_size(spark: SparkSession) -> None:
    rows = local_frame(spark, _rows(MANY), SCHEMA, ROW_BYTES)
    joined = rows.join(rows.selectExpr("id"), "id")
    try:
        spark.conf.set(LIMIT, MANY * ROW_BYTES)
        assert "BroadcastHashJoin" in plan_text(joined)
        spark.conf.set(LIMIT, 1000)
        assert "SortMergeJoin" in plan_text(rows.join(rows.selectExpr("id"), "id"))
    finally:
        spark.conf.unset(LIMIT)
    assert joined.count() == MANY


def test_what_a_filter_leaves_is_joined_with_itself(lake: Lake) -> None:
    lake.put("t", {"id": range(2 * MANY), "other": list(reversed(range(2 * MANY)))})
    query = (
        "SELECT count(*), sum(a.id), sum(b.other) FROM t a JOIN t b ON a.id = b.other "
        f"WHERE a.id < {MANY} AND b.id >= {MANY}"
    )

    rows = sql(lake.spark, lake.root, query)

    assert "LocalTableScan" not in plan_text(rows)
    (answer,) = rows.collect()
    assert tuple(answer) == (MANY, sum(range(MANY)), sum(range(MANY)))
