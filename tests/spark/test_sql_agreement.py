"""`sql` and Spark over Parquet give the same answers, whatever is asked.

The data has all that two engines may take differently: nulls at every level, NaN of both signs,
both zeros, the ends of every range, composed and decomposed letters, moments around a change of
clocks. Many conditions are asked in one query, each of them in a scan of its own.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.spark.conftest import Start
from tests.spark.lake import Lake
from tiltyard.spark.sql import explain, sql
from tiltyard.spark.table import table

CONDITIONS_AT_ONCE = 10

# ---------------------------------------------------------------- the data

NEGATIVE_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
FLOATS = [0.0, -0.0, 1.5, -1.5, float("nan"), NEGATIVE_NAN, float("inf"), float("-inf"), 1e300]
TEXTS = [
    *("", "a", "A", "ab", "a%b", "a_b", "a\\b", "it's", '"', "é", "e\u0301", "😀", "\n", "ß", "z"),
]
LONGS = [0, 1, -1, 2**63 - 1, -(2**63), 5, 300]
INTS = [0, 1, -1, 2**31 - 1, -(2**31), 5]
DECIMALS = [Decimal(text) for text in ("0.00", "1.10", "-1.10", "99999999.99", "-99999999.99")]
DATES = [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29)]
MOMENTS = [
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2024, 3, 10, 6, 59, 59, 999999, tzinfo=UTC),  # before and in New York's lost hour
    datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
    datetime(2024, 11, 3, 5, 30, tzinfo=UTC),  # both of 01:30 in New York
    datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
    datetime(1901, 1, 1, tzinfo=UTC),
]
BYTES = [b"", b"\x00", b"\x00\xff", b"\xff", b"a"]
ROWS = 90


def _column(values: list[object], kind: pa.DataType, step: int) -> pa.Array:
    """Values in turn, with a null after each round; `step` keeps columns out of step."""
    cycle = [*values, None]
    return pa.array([cycle[row * step % len(cycle)] for row in range(ROWS)], kind)


def _floats(kind: type[np.floating]) -> pa.Array:
    numbers = np.array([FLOATS[row * 5 % len(FLOATS)] for row in range(ROWS)], dtype=np.float64)
    return pa.array(numbers.astype(kind), mask=np.arange(ROWS) % 11 == 3)


def _data() -> pa.Table:
    nested = pa.StructArray.from_arrays(
        [_column(LONGS, pa.int64(), 3), _column(TEXTS, pa.string(), 7)],
        ["n", "t"],
        mask=pa.array([row % 5 == 2 for row in range(ROWS)]),
    )
    with np.errstate(over="ignore"):
        single = _floats(np.float32)
    naive = [moment.replace(tzinfo=None) for moment in MOMENTS]
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "l": _column(LONGS, pa.int64(), 1),
            "i": _column(INTS, pa.int32(), 1),
            "y": _column([0, 1, -1, 127, -128], pa.int8(), 1),
            "d": _floats(np.float64),
            "f": single,
            "s": _column(TEXTS, pa.string(), 1),
            "m": _column(DECIMALS, pa.decimal128(10, 2), 1),
            "p": _column(DATES, pa.date32(), 1),
            "w": _column(MOMENTS, pa.timestamp("us", "UTC"), 1),
            "v": _column(naive, pa.timestamp("us"), 5),
            "x": _column(BYTES, pa.binary(), 1),
            "b": _column([True, False], pa.bool_(), 1),
            "o": nested,
            "a": _column([[1, 2], [], [None, 3]], pa.list_(pa.int32()), 1),
        }
    )


# ---------------------------------------------------------------- the questions


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _texts(literals: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(literals)


INTEGER = _texts([str(number) for number in (0, 1, -1, 5, 127, -128, 300, 2**31 - 1, 2**40)])
NUMBER = _texts(["0.0D", "-0.0D", "1.5D", "-1.5D", "0.1D", "1e300D", *("0", "2", "1.5", "-0.25")])
SPECIAL = _texts(["double('NaN')", "double('Infinity')", "double('-Infinity')", "float('NaN')"])
TEXT = _texts([_quoted(text) for text in TEXTS])
EXACT = _texts(["0", "1.1", "1.10", "-1.1", "1.105", "99999999.99", "1e2", "5"])
DAY = _texts([f"DATE'{day:%Y-%m-%d}'" for day in DATES[::2]] + ["DATE'0001-01-01'", "'2024-02-29'"])
MOMENT = _texts(
    [
        "TIMESTAMP'2024-11-03 01:30:00'",
        "TIMESTAMP'2024-11-03 01:30:00 UTC-5'",
        "TIMESTAMP'2024-03-10 07:30:00Z'",
        "TIMESTAMP'1970-01-01 00:00:00Z'",
        "'2024-03-10'",
        "DATE'2024-11-03'",
    ]
)
WALL = _texts(
    ["TIMESTAMP_NTZ'2024-11-03 05:30:00'", "TIMESTAMP_NTZ'1970-01-01'", "DATE'2024-03-10'"]
)
BINARY = _texts(["X''", "X'00'", "X'00FF'", "X'61'"])
TRUTH = _texts(["true", "false"])

OF_COLUMN: dict[str, st.SearchStrategy[str]] = {
    "l": INTEGER,
    "i": INTEGER,
    "y": INTEGER,
    "d": NUMBER | SPECIAL,
    "f": NUMBER | SPECIAL,
    "s": TEXT,
    "m": EXACT,
    "p": DAY,
    "w": MOMENT,
    "v": WALL,
    "x": BINARY,
    "b": TRUTH,
    "o.n": INTEGER,
    "o.t": TEXT,
}
OPERATOR = st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "<=>"])
OTHERS = [
    *("isnan(d)", "isnan(f)", "b", "l = i", "i <= y", "d = f", "l > o.n", "s = o.t", "d < d"),
    *("w = v", "l + 1 > i", "length(s) = 1", "size(a) > 0", "upper(s) = 'A'"),
]
PATTERN = st.sampled_from(
    [
        *("a%", "%b", "%a%", "a_b", "a\\\\%b", "a\\\\_%", ""),
        *("%", "_", "é%", "a%b", "😀%", "it\\'s", "A%"),
    ]
)


@st.composite
def _simple(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from([*OF_COLUMN]))
    value = OF_COLUMN[column]
    kind = draw(st.integers(0, 9))
    if kind <= 3:
        sides = [column, draw(value)]
        if draw(st.booleans()):
            sides.reverse()
        return f" {draw(OPERATOR)} ".join(sides)
    if kind == 4:
        values = draw(st.lists(value | st.just("NULL"), min_size=1, max_size=14))
        return f"{column} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(values)})"
    if kind == 5:
        return f"{draw(st.sampled_from([*OF_COLUMN, 'o', 'a']))} IS {draw(MAYBE_NOT)}NULL"
    if kind == 6:
        text = draw(st.sampled_from(["s", "o.t"]))
        return f"{text} {draw(MAYBE_NOT)}LIKE '{draw(PATTERN)}'"
    if kind == 7:
        function = draw(st.sampled_from(["startswith", "endswith", "contains"]))
        return f"{function}({draw(st.sampled_from(['s', 'o.t']))}, {draw(TEXT)})"
    if kind == 8:
        return draw(st.sampled_from(OTHERS))
    return f"{column} {draw(MAYBE_NOT)}BETWEEN {draw(value)} AND {draw(value)}"


MAYBE_NOT = st.sampled_from(["", "NOT "])


def _combined(inside: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(inside, st.sampled_from(["AND", "OR"]), inside)
    return (
        pairs.map(lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})")
        | inside.map(lambda text: f"NOT ({text})")
        | inside.map(lambda text: f"coalesce({text}, false)")
        | st.tuples(inside, TRUTH).map(lambda parts: f"(({parts[0]}) <=> {parts[1]})")
        | inside.map(lambda text: f"({text}) IS NULL")
        | st.tuples(inside, inside).map(
            lambda parts: f"CASE WHEN {parts[0]} THEN {parts[1]} ELSE false END"
        )
    )


CONDITION = st.recursive(_simple(), _combined, max_leaves=5)


@st.composite
def _joins(draw: st.DrawFn) -> str:
    kind = draw(
        st.sampled_from(["JOIN", "LEFT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
    )
    key = draw(
        st.sampled_from(["id", "l", "i", "s", "m", "p", "w", "v", "d", "o", "b AND q.id < 9"])
    )
    where = draw(CONDITION)
    below = f"SELECT {draw(PROJECTION)} FROM t WHERE {draw(CONDITION)}"
    chosen = draw(st.sampled_from(["r.*", "r.id", "count(*)", "r.s, max(r.w), count(r.d)"]))
    grouped = " GROUP BY r.s" if chosen.startswith("r.s,") else ""
    first, _, rest = key.partition(" ")
    return (
        f"SELECT {chosen} FROM (SELECT * FROM t WHERE {where}) r "
        f"{kind} ({below}) q ON r.{first} = q.{first} {rest}{grouped}"
    )


PROJECTION = st.sampled_from(["*", "id, l, i, s, m, p, w, v, d, o, b", "t.*, l + 0L AS more"])

# ---------------------------------------------------------------- the answers


class Both:
    """The same rows in a catalog, in three files and with some deleted, and in Parquet."""

    def __init__(self, lake: Lake, path: Path) -> None:
        self.lake = lake
        gone = (0, 44, 89)
        rows = _data()
        dataset = lake.put("t", rows, files=3)
        dataset.delete(f"id IN ({', '.join(map(str, gone))})")
        dataset.create_scalar_index("d", "BTREE")
        dataset.create_scalar_index("l", "BTREE")
        dataset.create_scalar_index("s", "BITMAP")
        kept = rows.filter(pa.array([row not in gone for row in range(ROWS)]))
        parquet.write_table(kept, path / "t.parquet")
        self.reader = lake.spark.read.parquet(str(path / "t.parquet"))

    def ours(self, query: str) -> Counter[str]:
        return counted(sql(self.lake.spark, self.lake.root, query).toArrow())

    def theirs(self, query: str) -> Counter[str]:
        return counted(self.table_of_parquet(query))

    def table_of_parquet(self, query: str) -> pa.Table:
        self.reader.createOrReplaceTempView("t")
        try:
            return self.lake.spark.sql(query).toArrow()
        finally:
            self.lake.spark.catalog.dropTempView("t")


def counted(rows: pa.Table) -> Counter[str]:
    columns = [column.to_pylist() for column in rows.columns]
    return Counter(map(repr, zip(*columns, strict=True)))


@pytest.fixture(scope="module")
def both(start_spark: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    spark: SparkSession = start_spark("local[2]")
    # A number that does not fit is no error here, or hardly any question would have an answer.
    spark.conf.set("spark.sql.ansi.enabled", "false")
    home = tmp_path_factory.mktemp("agreement")
    yield Both(Lake(home / "lake", spark), home)
    spark.conf.unset("spark.sql.ansi.enabled")


def examples(count: int) -> settings:
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=count < 20,
        database=None,
        phases=[Phase.generate] if count < 20 else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


MANY_CONDITIONS = st.lists(CONDITION, min_size=CONDITIONS_AT_ONCE, max_size=CONDITIONS_AT_ONCE)


def _conditions_agree(both: Both, conditions: list[str]) -> None:
    query = " UNION ALL ".join(
        f"SELECT {number} AS asked, id FROM t WHERE {condition}"
        for number, condition in enumerate(conditions)
    )
    assert both.ours(query) == both.theirs(query)


def _joins_agree(both: Both, query: str) -> None:
    assert both.ours(query) == both.theirs(query)


@examples(2)
@given(conditions=MANY_CONDITIONS)
def test_conditions_agree(both: Both, conditions: list[str]) -> None:
    _conditions_agree(both, conditions)


@examples(3)
@given(query=_joins())
def test_projections_and_joins_agree(both: Both, query: str) -> None:
    _joins_agree(both, query)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(80)
@given(conditions=MANY_CONDITIONS)
def test_many_conditions_agree(both: Both, conditions: list[str]) -> None:
    _conditions_agree(both, conditions)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@examples(120)
@given(query=_joins())
def test_many_projections_and_joins_agree(both: Both, query: str) -> None:
    _joins_agree(both, query)


@examples(2)
@given(condition=CONDITION)
def test_the_condition_of_a_table_agrees(both: Both, condition: str) -> None:
    rows = table(both.lake.spark, "t", root=both.lake.root, where=condition, columns=None)
    assert counted(rows.toArrow()) == both.theirs(f"SELECT * FROM t WHERE {condition}")


def test_most_conditions_become_filters_of_lance(both: Both) -> None:
    """Agreement would be easy if nothing were translated."""
    translated = [
        "l = 5",
        "l IN (1, 5, NULL)",
        "i < 5000000000 AND y > 1",
        "d > 1",
        "isnan(d)",
        "f = 1.5",
        "s = 'it\\'s'",
        "s LIKE 'a%'",
        "s NOT LIKE '%b'",
        "s LIKE 'a_b'",
        "m = 1.1",
        "m IN (1.1, 2)",
        "p > '2000-01-01'",
        "w >= TIMESTAMP'2024-11-03 01:30:00'",
        "v < TIMESTAMP_NTZ'2024-11-03 05:30:00'",
        "x = X'00FF'",
        "NOT b",
        "o.n = 5 AND o.t IS NOT NULL",
        "l = i",
        "NOT (l = 5 OR s = 'a')",
        "coalesce(l = 5, false)",
        "l IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)",
        "s IN ('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k')",
    ]
    query = " UNION ALL ".join(f"SELECT id FROM t WHERE {condition}" for condition in translated)
    scans = explain(both.lake.spark, both.lake.root, query)
    left = [text for text, scan in zip(translated, scans, strict=True) if scan.filter is None]
    assert left == []
