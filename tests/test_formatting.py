"""How numbers and values are said to people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tiltyard import formatting
from tiltyard.tables import schema

NOW = datetime(2026, 5, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1_234, "1.2 kB"),
        (12_345, "12 kB"),
        (999_600, "1.0 MB"),
        (3_000_000_000, "3.0 GB"),
        (5 * 10**18, "5000 PB"),
    ],
)
def test_a_size_has_a_unit_that_fits(value: int, said: str) -> None:
    assert formatting.size(value) == said


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=3), "just now"),
        (timedelta(seconds=-3), "just now"),
        (timedelta(minutes=1), "1 minute ago"),
        (timedelta(hours=5), "5 hours ago"),
        (timedelta(days=40), "1 month ago"),
        (timedelta(days=800), "2 years ago"),
        (timedelta(days=-1), "in the future"),
    ],
)
def test_an_age_is_said_in_its_largest_unit(ago: timedelta, said: str) -> None:
    assert formatting.age(NOW - ago, NOW) == said


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (timedelta(days=7, seconds=-2), "in 7 days"),
        (timedelta(hours=1, seconds=-2), "in 1 hour"),
        (timedelta(seconds=90), "in 2 minutes"),
        (timedelta(seconds=20), "in a moment"),
        (timedelta(0), "expired"),
        (timedelta(days=-1), "expired"),
    ],
)
def test_what_is_left_of_a_time_is_rounded(left: timedelta, said: str) -> None:
    assert formatting.until(NOW + left, NOW) == said


def test_of_many_names_the_first_are_listed() -> None:
    assert formatting.listed(["a", "b", "c"], most=2) == "a, b, c"
    assert formatting.listed(["a", "b", "c", "d"], most=2) == "a, b and 2 more"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([0.125, -0.5, 1 / 3, 0.25], "[0.125, -0.5, 0.333, …] (4)"),
        ([1, None], "[1, null]"),
        (b"\x00\x01", "<2 bytes>"),
        ({"x": 1, "y": [1, 2, 3, 4]}, "{x: 1, y: [1, 2, 3, …] (4)}"),
        ("x" * 100, "x" * 47 + "…"),
        ("red\x1b[31m", "red�[31m"),
        ("two\nlines", "two�lines"),
        ("abc\u202edef", "abc�def"),
    ],
)
def test_a_value_is_short_and_harmless(value: Any, said: str) -> None:
    assert formatting.value(value) == said


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (pa.int64(), "int64"),
        (pa.list_(pa.float32(), 8), "float32[8]"),
        (pa.list_(pa.string()), "list<utf8>"),
        (pa.struct([("a", pa.int8()), ("b", pa.bool_())]), "struct<a: int8, b: bool>"),
        (pa.map_(pa.string(), pa.int32()), "map<key: utf8, value: int32>"),
        (pa.decimal128(10, 2), "decimal128(10, 2)"),
        (pa.binary(16), "binary[16]"),
    ],
)
def test_a_type_is_said_as_one_would_write_it(kind: pa.DataType, said: str) -> None:
    (field,) = schema.to_json(pa.schema([("x", kind)])).fields
    assert formatting.type_name(field.type) == said
