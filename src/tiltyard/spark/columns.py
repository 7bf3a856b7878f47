"""How the columns of a DataFrame go into a table, decided before a byte is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StructField,
    StructType,
)

from tiltyard.errors import TableSchemaValidationError
from tiltyard.spark.types import to_arrow_schema, to_spark_schema


@dataclass(frozen=True)
class Columns:
    """The schema to write, and for each of its columns the name that the DataFrame has for it."""

    schema: pa.Schema
    sources: tuple[str, ...]
    adds: tuple[str, ...] = ()

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of a batch in the order and under the names of the table."""
        chosen = [batch.column(name) for name in self.sources]
        return pa.RecordBatch.from_arrays(chosen, names=self.schema.names)


def for_new_table(given: StructType) -> Columns:
    """The table gets the DataFrame's columns, and all of them may be null.

    Spark's own tables are made so too: that a column holds no null in this DataFrame does not mean
    that it never will.
    """
    _must_have_columns(given)
    _must_be_distinct(given.names, ignoring_case=False)
    return Columns(to_arrow_schema(_nullable(given)), tuple(given.names))


def for_replacing(given: StructType, table: pa.Schema, *, case_sensitive: bool) -> Columns:
    """The table gets the DataFrame's columns; one that it had, of the same type, stays as it was:
    a vector does not become an array."""
    _must_have_columns(given)
    _must_be_distinct(given.names, ignoring_case=False)
    fields = []
    for field in given.fields:
        own = find(field.name, table.names, case_sensitive=case_sensitive)
        kept = None if own is None else _unchanged(field, table.field(own))
        fields.append(kept or to_arrow_schema(_nullable(StructType([field]))).field(0))
    return Columns(pa.schema(fields, metadata=table.metadata), tuple(given.names))


def _unchanged(field: StructField, own: pa.Field) -> pa.Field | None:
    """A table's column for the same column of a DataFrame; None if its type is another."""
    alone = StructType([_renamed(field, own.name)])
    try:
        kept = to_arrow_schema(alone, pa.schema([own])).field(0)
    except TableSchemaValidationError:
        return None
    return kept.with_name(field.name).with_nullable(own.nullable or field.nullable)


def for_adding(
    given: StructType,
    table: pa.Schema,
    *,
    merge: bool,
    case_sensitive: bool,
    partial: bool = False,
) -> Columns:
    """Rows for a table that exists: its columns, in its types.

    With `merge` new columns are added to the table, and those that are missing are null. Rows that
    are `partial` have whatever columns they have.
    """
    _must_have_columns(given)
    _must_be_distinct(given.names, ignoring_case=not case_sensitive)
    sources = {}
    adds = []
    for field in given.fields:
        own = find(field.name, table.names, case_sensitive=case_sensitive)
        if own is None:
            adds.append(field.name)
            sources[field.name] = field
        else:
            sources[own] = _widened(field, table.field(own))
    if not partial:
        _refuse_missing([field for field in table if field.name not in sources], merge)
    if adds and not merge:
        raise TableSchemaValidationError(
            f"the table has no column {adds[0]!r}",
            hint="leave it out, or set the option mergeSchema to add it",
        )
    renamed = StructType([_renamed(field, name) for name, field in sources.items()])
    for name, field in sources.items():
        if name in table.names:
            _must_not_bring_nulls(field, table.field(name))
    new = StructType([field for field in renamed.fields if field.name not in table.names])
    known_fields = StructType([field for field in renamed.fields if field.name in table.names])
    old = to_arrow_schema(known_fields, table)
    schema = pa.schema([*old, *to_arrow_schema(_nullable(new))], metadata=table.metadata)
    return Columns(schema, tuple(sources[name].name for name in schema.names), tuple(adds))


def find(name: str, known: Sequence[str], *, case_sensitive: bool) -> str | None:
    """The column that a name means, in any case unless case counts."""
    if name in known or case_sensitive:
        return name if name in known else None
    matching = [column for column in known if column.lower() == name.lower()]
    if len(matching) > 1:
        raise TableSchemaValidationError(
            f"column {name!r} may be any of {', '.join(map(repr, matching))}",
            hint="write it as the table does",
        )
    return matching[0] if matching else None


def _renamed(field: StructField, name: str) -> StructField:
    return StructField(name, field.dataType, field.nullable, field.metadata)


_WIDER = ((ByteType, ShortType, IntegerType, LongType), (FloatType, DoubleType))


def _widened(field: StructField, own: pa.Field) -> StructField:
    """A number for a wider column of the table goes in as it is, as in Spark's own tables."""
    wanted = to_spark_schema(pa.schema([own])).fields[0].dataType
    for kinds in _WIDER:
        if isinstance(wanted, kinds) and type(field.dataType) in kinds[: kinds.index(type(wanted))]:
            return StructField(field.name, wanted, field.nullable, field.metadata)
    return field


def _refuse_missing(missing: Sequence[pa.Field], merge: bool) -> None:
    for field in missing:
        if not field.nullable:
            raise TableSchemaValidationError(
                f"column {field.name!r} is missing, and can't be null in the table"
            )
    if missing and not merge:
        raise TableSchemaValidationError(
            f"column {missing[0].name!r} is missing",
            hint="add it, or set the option mergeSchema to leave it null",
        )


def _must_not_bring_nulls(field: StructField, own: pa.Field, path: str = "") -> None:
    """Refuse a column that may be null for one that can't be, as Spark does in its own tables."""
    path = f"{path}{own.name}"
    if field.nullable and not own.nullable:
        raise TableSchemaValidationError(
            f"column {path!r} may be null, and in the table it can't be",
            hint="replace or filter the nulls, for instance with coalesce()",
        )
    if isinstance(field.dataType, StructType) and pa.types.is_struct(own.type):
        given = {inner.name: inner for inner in field.dataType.fields}
        for own_inner in own.type.fields:
            if own_inner.name in given:
                _must_not_bring_nulls(given[own_inner.name], own_inner, f"{path}.")


def _must_have_columns(given: StructType) -> None:
    if not given.fields:
        raise TableSchemaValidationError("a table needs at least one column")


def _must_be_distinct(names: Sequence[str], *, ignoring_case: bool) -> None:
    seen: dict[str, str] = {}
    for name in names:
        key = name.lower() if ignoring_case else name
        if key in seen:
            raise TableSchemaValidationError(
                f"two columns can't have the same name: {seen[key]!r} and {name!r}"
            )
        seen[key] = name


T = TypeVar("T", bound=DataType)


def _nullable(kind: T) -> T:
    """The type with everything nullable; the metadata of fields stays."""
    nullable: DataType = kind
    if isinstance(kind, StructType):
        nullable = StructType(
            [
                StructField(field.name, _nullable(field.dataType), True, field.metadata)
                for field in kind.fields
            ]
        )
    elif isinstance(kind, ArrayType):
        nullable = ArrayType(_nullable(kind.elementType), True)
    elif isinstance(kind, MapType):
        nullable = MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return cast(T, nullable)
