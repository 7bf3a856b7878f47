"""Typed results as rows of a DataFrame: the schema follows from the dataclass.

A DataFrame that is made here holds its rows. Looking at it twice does not do the work twice.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_SIMPLE: dict[type, type[DataType]] = {
    bool: BooleanType,
    bytes: BinaryType,
    datetime: TimestampType,
    float: DoubleType,
    int: LongType,
    str: StringType,
}


def schema_of(result: type, columns: Mapping[str, str] | None = None) -> StructType:
    """The fields of a dataclass as Spark's, in their order.

    `columns` gives fields another name in Spark. What can be None is nullable.
    """
    hints = get_type_hints(result)
    named = columns or {}
    return StructType(
        [
            StructField(named.get(each.name, each.name), *_kind_of(hints[each.name]))
            for each in fields(result)
        ]
    )


def frame(
    spark: SparkSession,
    result: type,
    rows: Sequence[Any],
    columns: Mapping[str, str] | None = None,
) -> DataFrame:
    """Results that are there as a DataFrame, in their order."""
    values = [tuple(_value_of(getattr(row, each.name)) for each in fields(row)) for row in rows]
    return spark.createDataFrame(values, schema_of(result, columns))


def _kind_of(hint: Any) -> tuple[DataType, bool]:
    """Spark's type for a type of Python, and whether there may be none."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (only,) = [each for each in inside if each is not type(None)]
        return _kind_of(only)[0], True
    if hint in _SIMPLE:
        return _SIMPLE[hint](), False
    if isinstance(hint, type) and issubclass(hint, Enum):
        return StringType(), False
    if is_dataclass(hint) and isinstance(hint, type):
        return schema_of(hint), False
    if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        kind, nullable = _kind_of(inside[0])
        return ArrayType(kind, nullable), False
    if isinstance(origin, type) and issubclass(origin, Mapping):
        kind, nullable = _kind_of(inside[1])
        return MapType(_kind_of(inside[0])[0], kind, nullable), False
    raise TypeError(f"no column of Spark holds {hint}")


def _value_of(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_value_of(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _value_of(each) for key, each in value.items()}
    if is_dataclass(value):
        return tuple(_value_of(getattr(value, each.name)) for each in fields(value))
    return value
