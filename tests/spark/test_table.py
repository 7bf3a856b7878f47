"""`table()`: the same rows as the source, by a faster way, and with a size that Spark can use."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.lake import Lake, by_column, estimated_bytes, plan_text
from tests.spark.samples import samples
from tiltyard import spark as tiltyard_spark
from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.spark.table import FEW_BYTES, FEW_ROWS, frame, table

MANY = FEW_ROWS * 6


def _many(**more: Any) -> pa.Table:
    return pa.table({"id": np.arange(MANY), "half": np.arange(MANY) // 2, **more})


def test_a_table_of_many_rows_is_read_by_all_cores(lake: Lake) -> None:
    lake.put("many", _many())

    rows = table(lake.spark, "many", root=lake.root)

    assert "MapInArrow" in plan_text(rows)
    assert rows.rdd.getNumPartitions() == 2
    assert rows.selectExpr("sum(id)", "count(DISTINCT id)").first() == (
        MANY * (MANY - 1) // 2,
        MANY,
    )


def test_a_table_of_few_rows_starts_no_task(lake: Lake) -> None:
    lake.put("few", {"id": [3, 1, 2], "name": ["c", None, "b"]}, files=2)

    rows = table(lake.spark, "few", root=lake.root)

    assert "LocalTableScan" in plan_text(rows)
    assert [tuple(row) for row in rows.collect()] == [(3, "c"), (1, None), (2, "b")]


@pytest.mark.parametrize("where", ["id > 5", "false", None])
def test_of_few_rows_none_may_be_left(lake: Lake, where: str | None) -> None:
    rows = pa.table({"id": [1, 2], "tags": [["a"], []], "at": [{"x": 1}, None]})
    lake.put("few", rows if where else rows.slice(0, 0))

    assert table(lake.spark, "few", root=lake.root, where=where).collect() == []


def test_few_rows_that_are_large_are_not_read_by_the_driver(lake: Lake) -> None:
    lake.put("large", pa.table({"id": [1, 2, 3], "text": ["x" * (FEW_BYTES // 2)] * 3}))

    rows = table(lake.spark, "large", root=lake.root)

    assert "MapInArrow" in plan_text(rows)
    assert rows.selectExpr("sum(length(text))").first() == (FEW_BYTES // 2 * 3,)


def test_spark_knows_how_large_a_table_is(lake: Lake) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(MANY * 8, "f4")), 8)
    lake.put("many", _many(v=vectors))

    rows = table(lake.spark, "many", root=lake.root)
    narrow = table(lake.spark, "many", root=lake.root, columns=["id"])

    assert estimated_bytes(rows) == pytest.approx(MANY * (8 + 8 + 8 + 32), rel=0.02)
    assert estimated_bytes(narrow) == pytest.approx(MANY * (8 + 8), rel=0.02)


def test_a_large_table_is_never_broadcast_and_a_small_one_is(lake: Lake) -> None:
    lake.put("many", _many())
    rows = table(lake.spark, "many", root=lake.root)
    few = table(lake.spark, "many", root=lake.root, limit=10)
    joined = rows.join(few.withColumnRenamed("half", "other"), "id")

    lake.spark.conf.set("spark.sql.autoBroadcastJoinThreshold", MANY * 8)
    try:
        assert "BroadcastHashJoin" in plan_text(joined)
        assert "SortMergeJoin" in plan_text(rows.join(rows.selectExpr("half AS id"), "id"))
        both = rows.join(rows.selectExpr("half AS id", "id AS one"), "id")
        assert "Broadcast" not in plan_text(both.join(rows.selectExpr("id", "half AS two"), "id"))
        assert joined.count() == 10
    finally:
        lake.spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")


def test_what_is_wanted_is_said_by_arguments(lake: Lake) -> None:
    lake.put("prod.people", {"id": [1, 2, 3], "age": [30, None, 40]}, files=3)
    old = lake.open("prod.people").versions()[1]["timestamp"].astimezone(dt.UTC)

    def ids(**chosen: Any) -> list[int]:
        rows = table(lake.spark, "prod.people", root=lake.root, **chosen)
        return [row.id for row in rows.collect()]

    assert ids(where="age > 30 OR age IS NULL") == [2, 3]
    assert ids(where="age IS NOT NULL", limit=2, columns=["id"]) == [1, 3]
    assert ids(filter="age > 30") == [3]
    assert ids(version=1) == [1]
    assert ids(as_of=old) == [1, 2]
    assert ids(limit=2) == [1, 2]
    assert ids(columns=["id"], with_row_id=True) == [1, 2, 3]
    with pytest.raises(InvalidInputError, match="did you mean"):
        ids(columns="id")
    with pytest.raises(TiltyardError, match=r"'prod\.nobody'"):
        table(lake.spark, "prod.nobody", root=lake.root)


def test_a_table_is_also_a_path(lake: Lake) -> None:
    dataset = lake.put("people", {"id": [1, 2, 3]})

    assert table(lake.spark, dataset.uri).count() == 3


def test_a_frame_stays_at_its_version(lake: Lake) -> None:
    lake.put("many", _many())
    rows = table(lake.spark, "many", root=lake.root)

    lake.append("many", {"id": [-1], "half": [-1]})

    assert rows.count() == MANY
    assert rows.where("id < 0").count() == 0


@pytest.mark.parametrize("way", ["few", "many", "source"])
def test_every_type_arrives(lake: Lake, way: str) -> None:
    lake.put("types", samples())

    if way == "source":
        rows = lake.load("types")
    else:
        rows = frame(lake.spark, lake.plan("types"), few=way == "few")

    assert by_column(rows) == samples(in_spark=True)


def test_what_is_exported_is_what_is_meant() -> None:
    assert {"attach", "register", "session", "table"} <= set(tiltyard_spark.__all__)
    assert all(callable(getattr(tiltyard_spark, name)) for name in tiltyard_spark.__all__)
