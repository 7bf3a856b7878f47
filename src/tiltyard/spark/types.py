"""Lance's types as Spark's, and back.

What Spark has no type for is widened without loss (unsigned integers, float16, vectors as arrays)
or refused with the name of its column. The Arrow field that a column came from is kept in the
metadata of its StructField, so that it is restored when the column is written again; a table that
exists decides by its own schema instead.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema as spark_arrow_schema
from pyspark.sql.pandas.types import to_arrow_type as spark_arrow_type

from tiltyard.errors import TableSchemaValidationError

KEPT = "tiltyard.arrow"
ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
LARGEST_DECIMAL = 38

_BLOB = "lance.blob.v2"
_BLOB_METADATA = {"lance-encoding:blob": "true"}
_OPAQUE = {"lance.bfloat16"}  # extension types whose storage means nothing to a reader

_SIMPLE: dict[pa.DataType, spark.DataType] = {
    pa.bool_(): spark.BooleanType(),
    pa.int8(): spark.ByteType(),
    pa.int16(): spark.ShortType(),
    pa.int32(): spark.IntegerType(),
    pa.int64(): spark.LongType(),
    pa.uint8(): spark.ShortType(),
    pa.uint16(): spark.IntegerType(),
    pa.uint32(): spark.LongType(),
    pa.uint64(): spark.DecimalType(20, 0),
    pa.float16(): spark.FloatType(),
    pa.float32(): spark.FloatType(),
    pa.float64(): spark.DoubleType(),
    pa.date32(): spark.DateType(),
    pa.date64(): spark.DateType(),
    pa.null(): spark.NullType(),
}
_FAMILIES: tuple[tuple[Callable[[pa.DataType], bool], spark.DataType], ...] = (
    (pa.types.is_string, spark.StringType()),
    (pa.types.is_large_string, spark.StringType()),
    (pa.types.is_string_view, spark.StringType()),
    (pa.types.is_binary, spark.BinaryType()),
    (pa.types.is_large_binary, spark.BinaryType()),
    (pa.types.is_binary_view, spark.BinaryType()),
    (pa.types.is_fixed_size_binary, spark.BinaryType()),
    (pa.types.is_time, spark.TimeType(6)),
    (pa.types.is_duration, spark.DayTimeIntervalType()),
)
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


# ---------------------------------------------------------------- reading


def to_spark_schema(schema: pa.Schema) -> spark.StructType:
    """The columns as Spark sees them; what it can't hold is refused with the column's name."""
    return spark.StructType([_to_spark_field(field) for field in schema])


def _to_spark_field(field: pa.Field) -> spark.StructField:
    if field.name in (ROW_ID, ROW_ADDRESS):  # unsigned, but never beyond a long
        return spark.StructField(field.name, spark.LongType(), field.nullable)
    kind = _spark_type(field.type, field.name)
    metadata = {} if _is_plain(field, kind) else {KEPT: _keep(field)}
    return spark.StructField(field.name, kind, field.nullable, metadata)


def _spark_type(kind: pa.DataType, column: str) -> spark.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == _BLOB:
            return spark.BinaryType()
        if kind.extension_name in _OPAQUE:
            raise _refused(column, kind)
        return _spark_type(kind.storage_type, column)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    for is_type, spark_type in _FAMILIES:
        if is_type(kind):
            return spark_type
    if pa.types.is_dictionary(kind):
        return _spark_type(kind.value_type, column)
    if pa.types.is_timestamp(kind):
        return spark.TimestampNTZType() if kind.tz is None else spark.TimestampType()
    if pa.types.is_decimal(kind) and kind.precision <= LARGEST_DECIMAL and kind.scale >= 0:
        return spark.DecimalType(kind.precision, kind.scale)
    if any(is_list(kind) for is_list in _LISTS):
        inside = kind.value_field
        return spark.ArrayType(_spark_type(inside.type, column), inside.nullable)
    if pa.types.is_map(kind):
        key, value = kind.key_type, kind.item_type
        return spark.MapType(
            _spark_type(key, column), _spark_type(value, column), kind.item_field.nullable
        )
    if pa.types.is_struct(kind):
        return spark.StructType(
            [
                spark.StructField(
                    field.name, _spark_type(field.type, f"{column}.{field.name}"), field.nullable
                )
                for field in kind.fields
            ]
        )
    raise _refused(column, kind)


def _refused(column: str, kind: object) -> TableSchemaValidationError:
    return TableSchemaValidationError(
        f"Spark can't hold column {column!r} of type {kind}",
        hint="leave it out: name the other columns",
    )


def wire_schema(schema: spark.StructType, timezone: str = "UTC") -> pa.Schema:
    """What Spark expects a batch to be: a data source in UTC, elsewhere in the session's zone."""
    return spark_arrow_schema(schema, timezone=timezone)


def to_spark_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of a wire schema, in its order and types. Vectors become arrays uncopied.

    Exact or not at all: a nanosecond that Spark would cut off is an error.
    """
    columns = [_cast(batch.column(field.name), field) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def quoted(name: str) -> str:
    """A name between backticks for Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def check_schema(given: spark.StructType, table: spark.StructType) -> None:
    """Refuse a schema that is not the table's; it may allow nulls where the table does not."""
    for field, own in zip(given.fields, table.fields, strict=True):
        if not _same(field.dataType, own.dataType) or own.nullable > field.nullable:
            raise TableSchemaValidationError(
                f"column {field.name!r} is {field.dataType.simpleString()}, "
                f"and in the table {own.dataType.simpleString()}"
                + (", where it can be null" if own.nullable else "")
            )


def bytes_of(kind: pa.DataType) -> int:
    """About how many bytes a value has, for estimates: texts and lists are guessed as Spark does,
    but the length of a vector is known."""
    if isinstance(kind, pa.BaseExtensionType):
        return bytes_of(kind.storage_type)
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * bytes_of(kind.value_type)
    if pa.types.is_dictionary(kind):
        return bytes_of(kind.value_type)
    if kind.num_fields:
        return sum(bytes_of(kind.field(index).type) for index in range(kind.num_fields))
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:  # of any length
        return 20


# ---------------------------------------------------------------- writing


def to_arrow_schema(schema: spark.StructType, like: pa.Schema | None = None) -> pa.Schema:
    """The columns as Lance stores them: like an existing table's, or as they once came from one.

    With a table, its columns come first and in its order; those it does not have follow.
    """
    if like is None:
        return pa.schema([_restored(field) for field in schema.fields])
    wanted = {field.name: field for field in schema.fields}
    known = [_matching(wanted[field.name], field) for field in like if field.name in wanted]
    new = [_restored(field) for name, field in wanted.items() if name not in like.names]
    return pa.schema([*known, *new], metadata=like.metadata)


def to_lance_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch from Spark in the types of the table. Arrays become vectors uncopied."""
    columns = [_cast(batch.column(field.name), field) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        if column.null_count and not field.nullable:
            raise TableSchemaValidationError(f"column {field.name!r} can't be null, and a row is")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _restored(field: spark.StructField) -> pa.Field:
    kept = field.metadata.get(KEPT)
    if kept is not None:
        arrow = _kept(kept)
        if _same(_spark_type(arrow.type, arrow.name), field.dataType):
            return arrow.with_name(field.name).with_nullable(field.nullable)
    return pa.field(field.name, _arrow_type(field), field.nullable)


def _matching(field: spark.StructField, existing: pa.Field) -> pa.Field:
    expected = _spark_type(existing.type, existing.name)
    if not _same(expected, field.dataType):
        raise TableSchemaValidationError(
            f"column {field.name!r} is {field.dataType.simpleString()}, "
            f"and in the table {expected.simpleString()}",
            hint=f"cast it to {expected.simpleString()}",
        )
    return _stored(existing)


def _arrow_type(field: spark.StructField) -> pa.DataType:
    try:
        return spark_arrow_type(field.dataType, timezone="UTC")
    except PySparkException:
        raise TableSchemaValidationError(
            f"Lance can't hold column {field.name!r} of type {field.dataType.simpleString()}"
        ) from None


def _stored(field: pa.Field) -> pa.Field:
    """The field to write; a blob goes in as bytes."""
    if isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name == _BLOB:
        return pa.field(field.name, pa.large_binary(), field.nullable, _BLOB_METADATA)
    return field


def _same(one: spark.DataType, other: spark.DataType) -> bool:
    """Whether two types are equal, whatever may be null in them."""
    if isinstance(one, spark.ArrayType) and isinstance(other, spark.ArrayType):
        return _same(one.elementType, other.elementType)
    if isinstance(one, spark.MapType) and isinstance(other, spark.MapType):
        return _same(one.keyType, other.keyType) and _same(one.valueType, other.valueType)
    if isinstance(one, spark.StructType) and isinstance(other, spark.StructType):
        return one.names == other.names and all(
            _same(left.dataType, right.dataType)
            for left, right in zip(one.fields, other.fields, strict=True)
        )
    return one == other


# ---------------------------------------------------------------- both ways


def _is_plain(field: pa.Field, kind: spark.DataType) -> bool:
    """Whether Spark's own mapping gives back this very field."""
    return not field.metadata and field.type == spark_arrow_type(kind, timezone="UTC")


def _keep(field: pa.Field) -> str:
    return base64.b64encode(pa.schema([_stored(field)]).serialize()).decode()


def _kept(text: str) -> pa.Field:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))).field(0)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    wanted = field.type
    if column.type == wanted:
        return column
    try:
        if isinstance(wanted, pa.BaseExtensionType):
            return wanted.wrap_array(column.cast(wanted.storage_type))
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as reason:
        raise TableSchemaValidationError(
            f"column {field.name!r} of type {column.type} has a value that {wanted} can't hold: "
            f"{reason}"
        ) from reason
