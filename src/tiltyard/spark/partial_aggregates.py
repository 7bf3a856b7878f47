"""Aggregates begun where the rows are read, so that groups are sent to the JVM instead of rows.

A batch becomes one row for each of its groups, with partial sums, counts and extremes, which Spark
then combines. Where Arrow's result might differ from Spark's, each row of the batch is sent as a
group of its own: that is right for any aggregate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

LARGEST_LONG = 2**63 - 1

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
    return any(is_type(kind) for is_type in _NUMBERS)


def is_plain(kind: pa.DataType) -> bool:
    """Whether Arrow groups, counts and compares it no more coarsely than Spark does."""
    return any(is_type(kind) for is_type in _PLAIN)


@dataclass(frozen=True)
class PartialAggregate:
    """What is computed of a column in each group: its sum, count, min or max.

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
            range_ = pc.min_max(values).as_py()
            largest = max(abs(range_["min"] or 0), abs(range_["max"] or 0))
            return bool(largest * rows.num_rows <= LARGEST_LONG)
        return True

    def input(self, rows: pa.RecordBatch) -> pa.Array:
        """The values that Arrow aggregates."""
        if self.column is None:
            return pa.nulls(rows.num_rows)
        values = rows.column(self.column)
        return _doubles(values) if self.function == "mean" else values

    def of_single_rows(self, rows: pa.RecordBatch) -> pa.Array:
        """The values for groups of one row each."""
        if self.column is None:
            return pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)
        return rows.column(self.column).is_valid() if self.function == "count" else self.input(rows)


@dataclass(frozen=True)
class Grouping:
    """The columns that rows are grouped by, and what is computed of each group."""

    keys: tuple[str, ...]
    partials: tuple[PartialAggregate, ...]

    @property
    def columns(self) -> frozenset[str]:
        """What has to be read for it."""
        named = {partial.column for partial in self.partials if partial.column is not None}
        return frozenset({*self.keys, *named})

    def schema(self, of: spark.StructType) -> spark.StructType:
        """The columns of the partial results: the keys, then the aggregates."""
        fields = [
            spark.StructField(
                f"key{position}", of[name].dataType, of[name].nullable, of[name].metadata
            )
            for position, name in enumerate(self.keys)
        ]
        fields += [
            spark.StructField(partial_name(position), partial.type_of(of))
            for position, partial in enumerate(self.partials)
        ]
        return spark.StructType(fields)

    def aggregate(
        self, batches: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The groups of each batch; rows as they are, once groups turn out to be no fewer."""
        pays = True
        for batch in batches:
            if pays and all(partial.is_safe(batch) for partial in self.partials):
                columns = self._grouped(batch)
                pays = 2 * len(columns[0]) <= batch.num_rows
            else:
                columns = self._keys_and(PartialAggregate.of_single_rows, batch)
            cast = [column.cast(kind) for column, kind in zip(columns, schema.types, strict=True)]
            yield pa.RecordBatch.from_arrays(cast, schema=schema)

    def _keys_and(
        self, values: Callable[[PartialAggregate, pa.RecordBatch], pa.Array], rows: pa.RecordBatch
    ) -> list[pa.Array]:
        return [
            *(rows.column(name) for name in self.keys),
            *(values(partial, rows) for partial in self.partials),
        ]

    def _grouped(self, rows: pa.RecordBatch) -> list[pa.Array]:
        columns = self._keys_and(PartialAggregate.input, rows)
        keys = [f"key{position}" for position in range(len(self.keys))]
        names = [*keys, *(partial_name(position) for position in range(len(self.partials)))]
        functions: list[tuple[str | list[str], str]] = [
            ([], "count_all")
            if partial.column is None
            else (partial_name(position), "sum" if partial.function == "mean" else partial.function)
            for position, partial in enumerate(self.partials)
        ]
        groups = pa.table(columns, names=names).group_by(keys, use_threads=False)
        return [_one_chunk(column) for column in groups.aggregate(functions).columns]


def partial_name(position: int) -> str:
    return f"partial{position}"


def _doubles(values: pa.Array) -> pa.Array:
    return values.cast(pa.float64(), safe=False)  # a long may lose its last digits, as in Spark


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return pa.concat_arrays(combined.chunks)
    return combined
