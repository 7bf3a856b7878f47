"""Every Arrow type that Lance stores, as Spark's and back, without a Spark session."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from tests.spark.samples import TYPES, column
from tiltyard.errors import TableSchemaValidationError
from tiltyard.spark.types import (
    KEPT,
    to_arrow_schema,
    to_lance_batch,
    to_spark_batch,
    to_spark_schema,
    wire_schema,
)


@pytest.mark.parametrize("name", TYPES)
def test_a_type_goes_to_spark_and_back(name: str) -> None:
    kind, values, expected, in_spark = TYPES[name]
    lance = pa.record_batch({"c": column(name)})

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
    assert [result.field(name) for name in table.names] == list(table)
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
