"""Aggregates begun where the rows are read, so that groups cross to the JVM instead of rows.

A batch becomes one row for each of its groups, with partial sums, counts and extremes, which Spark
then puts together. Where Arrow might take something differently than Spark does, each row of the
batch is sent as a group of its own: that is right for any aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

LONGEST = 2**63 - 1

_NUMBERS = (pa.types.is_signed_integer, pa.types.is_float32, pa.types.is_float64)
_PLAIN = (
    *_NUMBERS,
    pa.types.is_boolean,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
)


def is_number(kind: pa.DataType) -> bool:
    """Whether sums of it are begun here. Those of decimals have rules of their own."""
    return any(belongs(kind) for belongs in _NUMBERS)


def is_plain(kind: pa.DataType) -> bool:
    """Whether Arrow groups, counts and compares it no more coarsely than Spark does."""
    return any(belongs(kind) for belongs in _PLAIN)


@dataclass(frozen=True)
class Part:
    """What is made of a column in each group: its sum, count, min or max.

    A `mean` is the sum of an average, which Spark adds up as doubles. The rows themselves are
    counted without a column.
    """

    function: str
    column: str | None = None

    def type_of(self, schema: spark.StructType) -> spark.DataType:
        if self.column is None or self.function == "count":
            return spark.LongType()
        if self.function == "mean":
            return spark.DoubleType()
        kind = schema[self.column].dataType
        if self.function == "sum":
            fractional = isinstance(kind, spark.FractionalType)
            return spark.DoubleType() if fractional else spark.LongType()
        return kind

    def is_safe(self, rows: pa.RecordBatch) -> bool:
        """Whether Arrow's answer for groups of these rows is the one that Spark would give."""
        if self.column is None:
            return True
        values = rows.column(self.column)
        if self.function in ("min", "max") and pa.types.is_floating(values.type):
            return not pc.any(pc.is_nan(values)).as_py()  # to Spark NaN is the greatest
        if self.function == "sum" and pa.types.is_int64(values.type):
            ends = pc.min_max(values).as_py()
            far = max(abs(ends["min"] or 0), abs(ends["max"] or 0))
            return bool(far * rows.num_rows <= LONGEST)
        return True

    def taken(self, rows: pa.RecordBatch) -> pa.Array:
        """The values that Arrow aggregates."""
        if self.column is None:
            return pa.nulls(rows.num_rows)
        values = rows.column(self.column)
        return _doubles(values) if self.function == "mean" else values

    def single(self, rows: pa.RecordBatch) -> pa.Array:
        """The values for groups of one row each."""
        if self.column is None:
            return pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        return rows.column(self.column).is_valid() if self.function == "count" else self.taken(rows)


@dataclass(frozen=True)
class Grouping:
    """The columns that rows are grouped by, and what is made of each group."""

    keys: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def columns(self) -> frozenset[str]:
        """What has to be read for it."""
        named = {part.column for part in self.parts if part.column is not None}
        return frozenset({*self.keys, *named})

    def schema(self, of: spark.StructType) -> spark.StructType:
        """The columns of the partial answers: the keys, then the parts."""
        fields = [
            spark.StructField(f"key{at}", of[name].dataType, of[name].nullable, of[name].metadata)
            for at, name in enumerate(self.keys)
        ]
        fields += [
            spark.StructField(part_name(at), part.type_of(of)) for at, part in enumerate(self.parts)
        ]
        return spark.StructType(fields)

    def partials(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The groups of each batch; rows as they are, once groups turn out to be no fewer."""
        pays = True
        for batch in batches:
            if pays and all(part.is_safe(batch) for part in self.parts):
                found = self._grouped(batch)
                pays = 2 * len(found[0]) <= batch.num_rows
            else:
                found = self._each(batch, Part.single)
            columns = [each.cast(kind) for each, kind in zip(found, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _each(
        self, rows: pa.RecordBatch, values: Callable[[Part, pa.RecordBatch], pa.Array]
    ) -> list[pa.Array]:
        return [
            *(rows.column(name) for name in self.keys),
            *(values(part, rows) for part in self.parts),
        ]

    def _grouped(self, rows: pa.RecordBatch) -> list[pa.Array]:
        columns = self._each(rows, Part.taken)
        keys = [f"key{at}" for at in range(len(self.keys))]
        names = [*keys, *(part_name(at) for at in range(len(self.parts)))]
        wanted: list[tuple[str | list[str], str]] = [
            ([], "count_all")
            if part.column is None
            else (part_name(at), "sum" if part.function == "mean" else part.function)
            for at, part in enumerate(self.parts)
        ]
        groups = pa.table(columns, names=names).group_by(keys, use_threads=False)
        return [_whole(each) for each in groups.aggregate(wanted).columns]


def part_name(at: int) -> str:
    return f"part{at}"


def _doubles(values: pa.Array) -> pa.Array:
    return values.cast(pa.float64(), safe=False)  # a long may lose its last digits, as in Spark


def _whole(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found
