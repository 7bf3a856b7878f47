"""Which conditions become filters of Lance, and which are left to Spark."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from tiltyard.spark import lance_filters
from tiltyard.spark.lance_filters import Call, Column, Expression, Literal, either, translate

ID = Column(("id",), pa.int64())
SMALL = Column(("small",), pa.int8())
NAME = Column(("name",), pa.string())
RATIO = Column(("ratio",), pa.float64())
PRICE = Column(("price",), pa.decimal128(10, 2))
WHEN = Column(("when",), pa.timestamp("us", "UTC"))
CITY = Column(("home", "city"), pa.string())
PAID = Column(("paid",), pa.bool_())

UNKNOWN = Call("Rand", ())


def _long(value: int | None) -> Literal:
    return Literal(value, "bigint")


def _is(column: Expression, value: Literal) -> Call:
    return Call("EqualTo", (column, value))


def _not(inside: Expression) -> Call:
    return Call("Not", (inside,))


ONE, TWO = _is(ID, _long(1)), _is(ID, _long(2))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (ONE, "`id` = 1"),
        (Call("LessThan", (_long(5), ID)), "`id` > 5"),
        (_is(ID, _long(-(2**63))), "`id` = CAST('-9223372036854775808' AS BIGINT)"),
        (_is(NAME, Literal("it's", "string")), "`name` = 'it''s'"),
        (Call("StartsWith", (NAME, Literal("50%", "string"))), "starts_with(`name`, '50%')"),
        (
            _is(PRICE, Literal(Decimal("1.50"), "decimal(10,2)")),
            "`price` = CAST('1.50' AS DECIMAL(10, 2))",
        ),
        (
            Call("GreaterThan", (WHEN, Literal(-1, "timestamp"))),
            "`when` > arrow_cast(-1, 'Timestamp(Microsecond, Some(\"UTC\"))')",
        ),
        (_is(CITY, Literal("Köln", "string")), "`home`.`city` = 'Köln'"),
        (Call("IsNull", (CITY,)), "(`home` IS NULL) OR (`home`.`city` IS NULL)"),
        (_not(PAID), "NOT (`paid`)"),
        (Call("In", (ID, _long(1), _long(None), _long(3))), "`id` IN (1, 3)"),
        (Call("EqualNullSafe", (ID, _long(None))), "`id` IS NULL"),
        (Call("EqualNullSafe", (_long(1), ID)), "(`id` IS NOT NULL AND `id` = 1)"),
        (Call("Or", (ONE, TWO)), "(`id` = 1) OR (`id` = 2)"),
        (Call("EqualNullSafe", (ONE, Literal(True, "boolean"))), "`id` = 1"),
        (_is(RATIO, Literal(math.nan, "double")), "isnan(`ratio`)"),
        (Call("GreaterThan", (RATIO, Literal(math.nan, "double"))), "false"),
        (_is(ID, Call("Cast to bigint", (SMALL,))), "`id` = CAST(`small` AS BIGINT)"),
    ],
)
def test_a_condition_that_means_the_same_in_lance_is_translated(
    condition: Expression, expected: str
) -> None:
    assert translate([condition]) == expected


@pytest.mark.parametrize(
    "condition",
    [
        UNKNOWN,
        Call("Or", (ONE, UNKNOWN)),
        _not(Call("And", (ONE, UNKNOWN))),
        _is(ID, Literal(1, "int96")),
        _is(SMALL, _long(300)),
        _is(PRICE, Literal(Decimal("1.5"), "decimal(2,1)")),
        _is(Column(("when",), pa.timestamp("ns", "UTC")), Literal(0, "timestamp")),
        _is(Column(("when",), pa.timestamp("us")), Literal(0, "timestamp")),
        _is(Column(("huge",), pa.uint64()), Literal(Decimal(1), "decimal(20,0)")),
        _is(Column(("odd`name",), pa.int64()), _long(1)),
        _is(RATIO, Column(("other",), pa.float64())),
        Call("IsNull", (ONE,)),
        Call("Like", (NAME, Literal("%end", "string"))),
        Call("In", (ID, _long(1), UNKNOWN)),
        _is(NAME, Literal("a\0b", "string")),
        _is(Column(("day",), pa.date32()), Literal(10**7, "date")),
    ],
)
def test_what_may_mean_something_else_is_left_to_spark(condition: Expression) -> None:
    assert translate([condition]) is None


def test_of_conditions_that_must_all_hold_those_are_told_that_can_be() -> None:
    assert translate([UNKNOWN, ONE, Call("And", (TWO, UNKNOWN))]) == "(`id` = 1) AND (`id` = 2)"
    assert translate([_not(Call("Or", (ONE, UNKNOWN)))]) == "NOT (`id` = 1)"


def test_of_a_pattern_its_beginning_is_told() -> None:
    def like(pattern: str) -> str | None:
        return translate([Call("Like", (NAME, Literal(pattern, "string")))])

    assert like("ab_c%") == "starts_with(`name`, 'ab')"
    assert like("a\\%b") == "starts_with(`name`, 'a')"
    assert translate([_not(Call("Like", (NAME, Literal("ab_", "string"))))]) is None


def test_a_comparison_says_already_that_a_column_is_not_null() -> None:
    assert translate([Call("IsNotNull", (ID,)), ONE]) == "`id` = 1"
    assert translate([Call("IsNotNull", (NAME,)), ONE]) == "(`name` IS NOT NULL) AND (`id` = 1)"


def test_scans_that_share_a_table_read_what_any_of_them_needs() -> None:
    assert either(["`id` = 1", "`id` = 2", "`id` = 1"]) == "(`id` = 1) OR (`id` = 2)"
    assert either(["`id` = 1", None]) is None


def _chain(name: str, parts: list[Expression]) -> Expression:
    return reduce(lambda one, other: Call(name, (one, other)), parts)


@pytest.mark.parametrize(
    "condition",
    [
        _chain("Or", [_is(ID, _long(number)) for number in range(lance_filters.MOST_TERMS)]),
        _chain("And", [_not(_is(ID, _long(at))) for at in range(3, 10_000)]),
        Call("In", (ID, *map(_long, range(lance_filters.MOST_VALUES)))),
        reduce(
            lambda inside, at: Call("Or" if at % 2 else "And", (ONE, _not(inside))),
            range(lance_filters.DEEPEST // 2),
            ONE,
        ),
    ],
    ids=["many ORs", "many ANDs", "many values", "deep"],
)
def test_lance_takes_the_largest_filters(condition: Expression, tmp_path: Path) -> None:
    dataset = lance.write_dataset(pa.table({"id": [1, 2, None]}), tmp_path / "t.lance")
    text = translate([condition])
    assert text is not None
    assert 1 in dataset.to_table(filter=text)["id"].to_pylist()


def test_what_is_too_long_is_left_to_spark() -> None:
    many = [_is(ID, _long(number)) for number in range(lance_filters.MOST_TERMS + 1)]
    assert translate([_chain("Or", many)]) is None


@pytest.mark.parametrize(
    "wrap",
    [_not, lambda inside: Call("And", (ONE, Call("Or", (_not(inside), ONE))))],
    ids=["NOTs", "ANDs and ORs"],
)
def test_what_is_too_deep_for_lance_is_left_to_spark(
    wrap: Callable[[Expression], Expression], tmp_path: Path
) -> None:
    dataset = lance.write_dataset(pa.table({"id": [1], "paid": [False]}), tmp_path / "t.lance")
    deep = reduce(lambda inside, _: wrap(inside), range(100), PAID)
    text = translate([Call("Or", (Call("And", (ONE, deep)), ONE))])
    assert text is not None
    assert text.count("(") < 60
    assert dataset.count_rows(text) == 1
