"""Values in Lance's SQL, where they have exactly the type of the column beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Literal:
    """A value as Spark keeps it: days for a date, microseconds for a timestamp."""

    value: Any
    type: str


def written(kind: pa.DataType, literal: Literal) -> str | None:
    """A value that is not null, if it has exactly the column's type."""
    write = _writer_of(kind)
    return None if write is None else write(kind, literal)


def _writer_of(kind: pa.DataType) -> Callable[[pa.DataType, Literal], str | None] | None:
    for belongs, write in _WRITERS:
        if belongs(kind):
            return write
    return None


def is_comparable(kind: pa.DataType) -> bool:
    """Whether two columns of this type compare in Lance as they do in Spark."""
    return _writer_of(kind) is not None


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_microseconds(kind: pa.DataType) -> bool:
    """Another unit would be rounded, and in Lance by another rule than on the way to Spark."""
    return bool(pa.types.is_timestamp(kind) and kind.unit == "us")


def _integer(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type not in ("tinyint", "smallint", "int", "bigint"):
        return None
    lowest = -(2 ** (kind.bit_width - 1)) if pa.types.is_signed_integer(kind) else 0
    if not lowest <= literal.value < lowest + 2**kind.bit_width:
        return None
    # The lowest of all would be read as a minus sign before a number that is too large.
    is_lowest = literal.value == -(2**63)
    return f"CAST('{literal.value}' AS BIGINT)" if is_lowest else str(literal.value)


def float_written(kind: pa.DataType, number: float) -> str:
    written = repr(number) if math.isfinite(number) else ("inf" if number > 0 else "-inf")
    return f"CAST('{written}' AS {'FLOAT' if pa.types.is_float32(kind) else 'DOUBLE'})"


def _text(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type != "string" or "\0" in literal.value:
        return None
    doubled = literal.value.replace("'", "''")
    return f"'{doubled}'"


def _bytes(kind: pa.DataType, literal: Literal) -> str | None:
    return f"X'{literal.value.hex()}'" if literal.type == "binary" else None


def _boolean(kind: pa.DataType, literal: Literal) -> str | None:
    return str(literal.value).lower() if literal.type == "boolean" else None


def _decimal(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type != f"decimal({kind.precision},{kind.scale})":
        return None
    assert isinstance(literal.value, Decimal)
    return f"CAST('{literal.value:f}' AS DECIMAL({kind.precision}, {kind.scale}))"


def _date(kind: pa.DataType, literal: Literal) -> str | None:
    if literal.type != "date":
        return None
    try:
        day = date(1970, 1, 1) + timedelta(days=literal.value)
    except OverflowError:
        return None
    return f"CAST('{day.isoformat()}' AS DATE)"


def _timestamp(kind: pa.DataType, literal: Literal) -> str | None:
    """A moment is the same in every zone; a timestamp without one goes with its like only."""
    if literal.type != ("timestamp_ntz" if kind.tz is None else "timestamp"):
        return None
    zone = "None" if kind.tz is None else 'Some("UTC")'
    return f"arrow_cast({literal.value}, 'Timestamp(Microsecond, {zone})')"


_WRITERS: tuple[
    tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, Literal], str | None]], ...
] = (
    (lambda kind: pa.types.is_integer(kind) and kind != pa.uint64(), _integer),
    (is_text, _text),
    (_is_binary, _bytes),
    (pa.types.is_boolean, _boolean),
    (pa.types.is_decimal128, _decimal),
    (pa.types.is_date32, _date),
    (_is_microseconds, _timestamp),
)
