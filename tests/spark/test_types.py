"""Every Arrow type that Lance stores, as Spark's and back, without a Spark session."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from tiltyard.errors import TableSchemaValidationError
from tiltyard.spark.types import (
    KEPT,
    to_arrow_schema,
    to_lance_batch,
    to_spark_batch,
    to_spark_schema,
    wire_schema,
)

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
    "json": (pa.json_(), ['{"a": 1}', None], "string", None),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_type_goes_to_spark_and_back(name: str) -> None:
    kind, values, expected, in_spark = TYPES[name]
    if isinstance(kind, pa.BaseExtensionType):
        stored = [each.bytes if isinstance(each, uuid.UUID) else each for each in values]
        column = kind.wrap_array(pa.array(stored, kind.storage_type))
    else:
        column = pa.array(values, kind)
    lance = pa.record_batch({"c": column})

    schema = to_spark_schema(lance.schema)
    sent = to_spark_batch(lance, wire_schema(schema))
    restored = to_arrow_schema(schema)
    back = to_lance_batch(sent, restored)

    assert schema["c"].dataType.simpleString() == expected
    assert sent.schema.equals(wire_schema(schema))
    assert sent.column("c").to_pylist() == (in_spark or values)
    assert restored.field("c").type == kind
    assert back.equals(lance)
    assert to_arrow_schema(schema, like=lance.schema).equals(lance.schema)


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.struct([("fine", pa.int8()), ("outside", pa.decimal256(50, 2))]),
    ],
    ids=str,
)
def test_what_spark_can_not_hold_is_refused_with_the_name_of_the_column(kind: pa.DataType) -> None:
    with pytest.raises(TableSchemaValidationError, match="outside"):
        to_spark_schema(pa.schema([("fine", pa.int8()), ("outside", kind)]))


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.timestamp("ns", "UTC"), pa.duration("ns")],
    ids=str,
)  # fmt: skip
def test_nanoseconds_arrive_whole_or_not_at_all(kind: pa.DataType) -> None:
    def to_spark(nanoseconds: int) -> pa.RecordBatch:
        batch = pa.record_batch({"at": pa.array([nanoseconds], pa.int64()).cast(kind)})
        return to_spark_batch(batch, wire_schema(to_spark_schema(batch.schema)))

    assert to_spark(5_000).num_rows == 1
    with pytest.raises(TableSchemaValidationError, match="at"):
        to_spark(5_001)


def test_a_vector_crosses_without_a_copy() -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8, dtype="f4")), 4)
    batch = pa.record_batch({"v": vectors})
    schema = to_spark_schema(batch.schema)

    sent = to_spark_batch(batch, wire_schema(schema))
    back = to_lance_batch(sent, to_arrow_schema(schema))

    address = vectors.values.buffers()[1].address
    assert sent.column("v").values.buffers()[1].address == address
    assert back.column("v").values.buffers()[1].address == address


def test_metadata_and_nullability_are_kept() -> None:
    field = pa.field("v", pa.list_(pa.float16(), 2), False, {"lance-encoding:compression": "zstd"})
    schema = to_spark_schema(pa.schema([field, ("plain", pa.int32())]))

    assert not schema["v"].nullable
    assert schema["plain"].metadata == {}
    assert to_arrow_schema(schema).field("v").equals(field, check_metadata=True)


def test_a_renamed_column_keeps_its_type_and_a_changed_one_does_not() -> None:
    (vector,) = to_spark_schema(pa.schema([("v", pa.list_(pa.float16(), 2))])).fields
    renamed = spark.StructField("w", vector.dataType, True, vector.metadata)
    changed = spark.StructField("v", spark.ArrayType(spark.DoubleType()), True, vector.metadata)

    assert KEPT in vector.metadata
    assert to_arrow_schema(spark.StructType([renamed])).field("w").type == pa.list_(pa.float16(), 2)
    assert to_arrow_schema(spark.StructType([changed])).field("v").type == pa.list_(pa.float64())


def test_row_ids_are_longs() -> None:
    schema = to_spark_schema(pa.schema([("_rowid", pa.uint64()), ("_rowaddr", pa.uint64())]))

    assert schema.simpleString() == "struct<_rowid:bigint,_rowaddr:bigint>"


def test_a_table_decides_over_types_and_order() -> None:
    table = pa.schema([("v", pa.list_(pa.float16(), 2)), pa.field("id", pa.uint8(), False)])
    rows = spark.StructType(
        [
            spark.StructField("new", spark.StringType()),
            spark.StructField("id", spark.ShortType()),
            spark.StructField("v", spark.ArrayType(spark.FloatType())),
        ]
    )

    result = to_arrow_schema(rows, like=table)

    assert result.names == ["v", "id", "new"]
    assert [result.field(each) for each in table.names] == list(table)
    with pytest.raises(TableSchemaValidationError, match="'id' is string"):
        to_arrow_schema(spark.StructType().add("id", "string"), like=table)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.float32(), 2), [1.0]),
        (pa.uint8(), 256),
        (pa.uint8(), -1),
        (pa.uint64(), decimal.Decimal(-1)),
    ],
    ids=str,
)
def test_what_does_not_fit_the_table_is_refused_with_its_column(
    kind: pa.DataType, value: Any
) -> None:
    wide = to_spark_schema(pa.schema([("c", kind)]))
    batch = pa.record_batch({"c": pa.array([value], wire_schema(wide).field("c").type)})

    with pytest.raises(TableSchemaValidationError, match="'c'"):
        to_lance_batch(batch, to_arrow_schema(wide))


def test_a_missing_value_is_refused_where_none_may_be() -> None:
    with pytest.raises(TableSchemaValidationError, match="'c' can't be null"):
        to_lance_batch(
            pa.record_batch({"c": pa.array([None], pa.int8())}),
            pa.schema([pa.field("c", pa.int8(), nullable=False)]),
        )
