"""A value and a null of every Arrow type that Lance stores and Spark can hold."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa

NOON = dt.datetime(2026, 5, 4, 12, 30, 15, 123456)
ZONED = NOON.replace(tzinfo=dt.UTC)
BIG = 2**64 - 1

# name: (Arrow type, values, Spark type, values in Spark if they differ)
TYPES: dict[str, tuple[pa.DataType, list[Any], str, list[Any] | None]] = {
    "bool": (pa.bool_(), [True, None], "boolean", None),
    "int8": (pa.int8(), [-1, None], "tinyint", None),
    "int16": (pa.int16(), [-1, None], "smallint", None),
    "int32": (pa.int32(), [-1, None], "int", None),
    "int64": (pa.int64(), [-1, None], "bigint", None),
    "uint8": (pa.uint8(), [255, None], "smallint", None),
    "uint16": (pa.uint16(), [65535, None], "int", None),
    "uint32": (pa.uint32(), [2**32 - 1, None], "bigint", None),
    "uint64": (pa.uint64(), [BIG, None], "decimal(20,0)", [decimal.Decimal(BIG), None]),
    "float16": (pa.float16(), [np.float16(1.5), None], "float", [1.5, None]),
    "float32": (pa.float32(), [1.5, None], "float", None),
    "float64": (pa.float64(), [0.1, None], "double", None),
    "decimal128": (pa.decimal128(10, 2), [decimal.Decimal("1.25"), None], "decimal(10,2)", None),
    "decimal256": (pa.decimal256(38, 3), [decimal.Decimal("1.125"), None], "decimal(38,3)", None),
    "string": (pa.string(), ["ä", None], "string", None),
    "large_string": (pa.large_string(), ["ä", None], "string", None),
    "string_view": (pa.string_view(), ["ä", None], "string", None),
    "binary": (pa.binary(), [b"\x00", None], "binary", None),
    "large_binary": (pa.large_binary(), [b"\x00", None], "binary", None),
    "fixed_size_binary": (pa.binary(2), [b"ab", None], "binary", None),
    "binary_view": (pa.binary_view(), [b"ab", None], "binary", None),
    "date32": (pa.date32(), [NOON.date(), None], "date", None),
    "date64": (pa.date64(), [NOON.date(), None], "date", None),
    "time32": (pa.time32("ms"), [dt.time(1, 2, 3, 4000), None], "time(6)", None),
    "time64": (pa.time64("us"), [dt.time(1, 2, 3, 4), None], "time(6)", None),
    "timestamp_s": (pa.timestamp("s"), [NOON.replace(microsecond=0), None], "timestamp_ntz", None),
    "timestamp_us": (pa.timestamp("us"), [NOON, None], "timestamp_ntz", None),
    "timestamp_zone": (pa.timestamp("ms", "Asia/Tokyo"), [None], "timestamp", None),
    "timestamp_utc": (pa.timestamp("us", "UTC"), [ZONED, None], "timestamp", None),
    "duration": (
        pa.duration("ms"),
        [dt.timedelta(days=1, milliseconds=5), None],
        "interval day to second",
        None,
    ),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None], "string", None),
    "null": (pa.null(), [None, None], "void", None),
    "list": (pa.list_(pa.large_string()), [["a", None], [], None], "array<string>", None),
    "large_list": (pa.large_list(pa.int32()), [[1, None], [], None], "array<int>", None),
    "vector": (pa.list_(pa.float32(), 2), [[1.0, 2.0], None, [3.0, 4.0]], "array<float>", None),
    "half_vector": (pa.list_(pa.float16(), 2), [[1.0, 2.0], None], "array<float>", None),
    "vectors": (
        pa.list_(pa.list_(pa.float32(), 2)),
        [[[1.0, 2.0]], None],
        "array<array<float>>",
        None,
    ),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None], "map<string,int>", None),
    "struct": (
        pa.struct([("a", pa.uint8()), ("b", pa.struct([("v", pa.list_(pa.float32(), 2))]))]),
        [{"a": 1, "b": {"v": [1.0, 2.0]}}, {"a": None, "b": None}, None],
        "struct<a:smallint,b:struct<v:array<float>>>",
        None,
    ),
    "list_of_structs": (
        pa.list_(pa.struct([("a", pa.dictionary(pa.int8(), pa.string()))])),
        [[{"a": "x"}], None],
        "array<struct<a:string>>",
        None,
    ),
    "uuid": (pa.uuid(), [uuid.UUID(int=5), None], "binary", [uuid.UUID(int=5).bytes, None]),
    "json": (pa.json_(), ['{"a":1}', None], "string", None),
}  # fmt: skip


_HERE = dt.datetime.now(dt.UTC).astimezone().tzinfo


def column(name: str) -> pa.Array:
    """The values of one type."""
    kind, values, _, _ = TYPES[name]
    if isinstance(kind, pa.BaseExtensionType):
        stored = [value.bytes if isinstance(value, uuid.UUID) else value for value in values]
        return kind.wrap_array(pa.array(stored, kind.storage_type))
    return pa.array(values, kind)


def samples(*, in_spark: bool = False) -> Any:
    """A table with a column of every type and three rows; or the values that Spark shows of it."""
    columns = {name: _three(column(name)) for name in TYPES}
    if not in_spark:
        return pa.table(columns)
    return {name: [_shown(name, value) for value in columns[name].to_pylist()] for name in TYPES}


def _three(values: pa.Array) -> pa.Array:
    # Copied: Lance panics over some arrays that are a slice of another.
    listed = [*values.to_pylist(), None, None, None][:3]
    if isinstance(values.type, pa.BaseExtensionType):
        storage = pa.array([*values.storage.to_pylist(), None, None][:3], values.type.storage_type)
        return values.type.wrap_array(storage)
    return pa.array(listed, values.type)


def _shown(name: str, value: Any) -> Any:
    """A value of Arrow's as pyspark shows it."""
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(_HERE).replace(tzinfo=None)
    if TYPES[name][2].startswith("decimal") and value is not None:
        return decimal.Decimal(value)
    if TYPES[name][2].startswith("map") and value is not None:
        return dict(value)
    return value
