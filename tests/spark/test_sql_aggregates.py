"""Aggregates that are begun where rows are read give the answers of Spark over Parquet."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import ArithmeticException

from tests.spark.conftest import Start
from tests.spark.lake import Lake
from tests.spark.test_sql_agreement import CONDITION, Both, examples
from tiltyard.spark.sql import explain, sql

NUMBERS = ["l", "i", "y", "d", "f"]
PLAIN = [*NUMBERS, "s", "m", "p", "w", "v", "x", "b"]
BIG = 2**62


@pytest.fixture(scope="module")
def both(start_spark: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    spark = start_spark("local[2]")
    home = tmp_path_factory.mktemp("aggregates")
    with pytest.MonkeyPatch.context() as patch:
        # Small tables would be read at once, and all of their rows would be one batch.
        module = sys.modules["tiltyard.spark.sql"]
        patch.setattr(module, "FEW_ROWS", 0)
        patch.setattr(module, "ROWS_PER_GROUPING", 7)
        # What overflows depends on the order of rows, so it is asked for by itself.
        spark.conf.set("spark.sql.ansi.enabled", "false")
        yield Both(Lake(home / "lake", spark), home)
        spark.conf.unset("spark.sql.ansi.enabled")


@st.composite
def _queries(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(PLAIN), max_size=2, unique=True))
    number, plain = st.sampled_from(NUMBERS), st.sampled_from(PLAIN)
    # An average of longs is one of doubles to Spark: what is left of a small one beside a huge one
    # depends on their order.
    call = (
        st.tuples(st.just("sum"), number)
        | st.tuples(st.just("avg"), st.sampled_from([name for name in NUMBERS if name != "l"]))
        | st.tuples(st.sampled_from(["min", "max", "count"]), plain)
        | st.sampled_from([("count", "*"), ("sum", "m"), ("count", "DISTINCT i"), ("max", "o.n")])
    )
    calls = draw(st.lists(call, min_size=0 if keys else 1, max_size=4))
    chosen = [*keys, *(f"{name}({value}) AS a{index}" for index, (name, value) in enumerate(calls))]
    query = f"SELECT {', '.join(chosen)} FROM t"
    if draw(st.booleans()):
        query += f" WHERE {draw(CONDITION)}"
    if keys:
        query += f" GROUP BY {', '.join(keys)}"
    having = draw(st.sampled_from(["", "count(*) > 2", "max(i) > 0", "sum(y) IS NOT NULL"]))
    return f"{query} HAVING {having}" if having else query


def _rounded(rows: pa.Table) -> Counter[str]:
    """Sums of doubles depend on their order, in their last digits; zeros may have either sign."""
    return Counter(repr([_value(value) for value in row.values()]) for row in rows.to_pylist())


def _value(value: Any) -> Any:
    return f"{value + 0.0:.9g}" if isinstance(value, float) else value


def _agree(both: Both, query: str) -> None:
    ours = sql(both.lake.spark, both.lake.root, query).toArrow()
    assert _rounded(ours) == _rounded(both.table_of_parquet(query))


@examples(4)
@given(query=_queries())
def test_aggregates_agree(both: Both, query: str) -> None:
    _agree(both, query)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(100)
@given(query=_queries())
def test_many_aggregates_agree(both: Both, query: str) -> None:
    _agree(both, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT s, sum(i) / count(l) + 1 AS x, avg(f) FROM t GROUP BY s ORDER BY x DESC, s LIMIT 3",
        "SELECT max(n), sum(c) FROM (SELECT b, count(*) c, max(l) n FROM t GROUP BY b)",
        "SELECT key, sum(n) FROM (SELECT s AS key, i AS n FROM t WHERE i > 0) GROUP BY key",
        "SELECT DISTINCT c FROM (SELECT count(d) c FROM t WHERE l IN (1, 5) GROUP BY s)",
        "SELECT count(*), sum(l), min(s), max(d), avg(i) FROM t WHERE id > 5000",
        "SELECT count(*) FROM t WHERE d > 1 OR s = 'a'",
        "SELECT try_sum(l), try_avg(i), avg(l) FROM t",
        "SELECT b FROM t GROUP BY b",
        "SELECT concat(s, '!'), count(*) FROM t GROUP BY s HAVING s > 'a'",
    ],
)
def test_a_query_that_groups_is_begun_where_rows_are_read(both: Both, query: str) -> None:
    (scan,) = explain(both.lake.spark, both.lake.root, query)
    assert scan.grouped
    _agree(both, query)


LEFT_TO_SPARK = [
    "SELECT sum(m) FROM t",
    "SELECT count(DISTINCT i) FROM t",
    "SELECT count(*) FILTER (WHERE i > 0) FROM t",
    "SELECT sum(i + 1) FROM t",
    "SELECT i + 1, count(*) FROM t GROUP BY i + 1",
    "SELECT count(*) FROM t WHERE NOT (l IN (1, NULL))",
    "SELECT count(*) FROM t WHERE length(s) = 1",
    "SELECT count(s) FROM t WHERE rand() < 2",
    "SELECT s, i, count(*) FROM t GROUP BY CUBE (s, i)",
    "SELECT sum(i) FROM (SELECT i FROM t LIMIT 1000)",
    "SELECT max(id) FROM t WHERE i = (SELECT max(i) FROM t)",
    "SELECT sum(a.id) FROM t a JOIN t b USING (id)",
    "SELECT first(s IS NULL OR true), count(a) FROM t",
]


def test_what_arrow_does_not_do_as_spark_does_is_left_to_spark(both: Both) -> None:
    begun = [
        query
        for query in LEFT_TO_SPARK
        if any(scan.grouped for scan in explain(both.lake.spark, both.lake.root, query))
    ]
    assert begun == []


def test_a_sum_that_is_too_large_is_an_error_or_wraps_as_in_spark(both: Both) -> None:
    lake = both.lake
    lake.put("large", {"k": [1, 1, 2, 2], "l": [BIG, BIG, BIG, 1]})
    query = "SELECT k, sum(l) FROM large GROUP BY k"
    assert explain(lake.spark, lake.root, query)[0].grouped
    answer = sorted(tuple(row) for row in sql(lake.spark, lake.root, query).collect())
    assert answer == [(1, -(2**63)), (2, BIG + 1)]
    lake.spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        with pytest.raises(ArithmeticException, match="overflow"):
            sql(lake.spark, lake.root, query).collect()
    finally:
        lake.spark.conf.set("spark.sql.ansi.enabled", "false")
