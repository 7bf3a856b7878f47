"""Changing rows of a table from Spark: merge, delete and update, each in one commit.

Spark selects the rows to change, by a join with the table's keys or by a condition in its own SQL;
`row_changes` changes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from tiltyard.catalog import names
from tiltyard.errors import InvalidInputError, TableSchemaValidationError
from tiltyard.lifecycle.writing import PendingWrite
from tiltyard.spark import columns
from tiltyard.spark.catalyst.jvm import has_jvm
from tiltyard.spark.catalyst.planning import columns_of_condition
from tiltyard.spark.columns import Columns
from tiltyard.spark.options import ChangeOptions
from tiltyard.spark.row_changes import (
    ADDRESS,
    DELETE,
    INSERT,
    NOTHING,
    OPERATION,
    UPDATE,
    ChangeJob,
    RowChanges,
    apply_changes,
    begin_change,
    retry_on_conflict,
)
from tiltyard.spark.scan import Scan
from tiltyard.spark.table import frame, table
from tiltyard.spark.target import Target
from tiltyard.spark.types import ROW_ADDRESS, quoted, to_spark_schema
from tiltyard.spark.write import limits_of
from tiltyard.tables.describe import At
from tiltyard.tables.rewrites import Kind
from tiltyard.tables.scan import Snapshot, Wanted

Assignments = Mapping[str, Any]

_IN_SOURCE = "__in_source"


def merge_into(
    df: DataFrame,
    name: str,
    *,
    on: str | Sequence[str],
    when_matched: str | Assignments | None = "update",
    when_not_matched: str | None = "insert",
    when_not_matched_by_source: str | None = None,
    **options: Any,
) -> RowChanges:
    """Merge a DataFrame into a table: rows match that have equal values in the columns `on`.

    `when_matched` is "update" (the columns that the DataFrame has), "delete", None, or expressions
    by column over `source` and `target`; `when_not_matched` is "insert" or None;
    `when_not_matched_by_source` is "delete" or None. A null matches nothing, and two rows of the
    DataFrame for one of the table are refused. `options` are `root` and others of the data source.
    """
    keys = [on] if isinstance(on, str) else list(on)
    if not keys:
        raise InvalidInputError("a merge needs columns by which rows match")
    _one_of("when_matched", when_matched, ("update", "delete"))
    _one_of("when_not_matched", when_not_matched, ("insert",))
    _one_of("when_not_matched_by_source", when_not_matched_by_source, ("delete",))
    if when_matched is when_not_matched is when_not_matched_by_source is None:
        raise InvalidInputError("this merge changes nothing", hint="say what to do, and when")
    chosen = ChangeOptions.parse({"path": name, **options})
    target = Target.of(chosen)
    merge = _Merge(
        df,
        keys,
        when_matched,
        inserts=when_not_matched is not None,
        deletes_others=when_not_matched_by_source is not None,
        case_sensitive=chosen.case_sensitive,
    )

    def run() -> RowChanges:
        pending = begin_change(target)
        rows, keys = merge.rows(pending)
        every = _every_column(pending.schema)
        job = ChangeJob(target, pending, Kind.MERGE, every, keys, limits=limits_of(chosen))
        return apply_changes(rows, job)

    return retry_on_conflict(run)


def delete_where(spark: SparkSession, name: str, where: str, **options: Any) -> RowChanges:
    """Delete the rows for which a condition in Spark's SQL holds."""
    target = Target.of(ChangeOptions.parse({"path": name, **options}))

    def run() -> RowChanges:
        pending = begin_change(target)
        read = _columns_read(spark, pending, where)
        selected = _selected(spark, target, pending, where, read)
        rows = selected.select(f.lit(DELETE).alias(OPERATION), f.col(ROW_ADDRESS).alias(ADDRESS))
        every = _every_column(pending.schema)
        return apply_changes(rows, ChangeJob(target, pending, Kind.DELETE, every, predicate=where))

    return retry_on_conflict(run)


def update_where(
    spark: SparkSession, name: str, set: Assignments, where: str | None = None, **options: Any
) -> RowChanges:
    """Set columns of the rows for which a condition holds, or of all rows.

    Values are expressions in Spark's SQL over the row, Spark's columns, or plain values other than
    texts: `set={"age": "age + 1", "seen": current_timestamp()}`.
    """
    chosen = ChangeOptions.parse({"path": name, **options})
    target = Target.of(chosen)
    if not set:
        raise InvalidInputError("nothing is to be set", hint='like set={"age": "age + 1"}')

    def run() -> RowChanges:
        pending = begin_change(target)
        assigned = _assigned(set, pending.schema, chosen.case_sensitive)
        selected = _selected(spark, target, pending, where, None)
        values = [
            assigned.get(field.name, f.col(quoted(field.name)))
            .cast(field.dataType)
            .alias(field.name)
            for field in to_spark_schema(pending.schema).fields
        ]
        address = f.col(ROW_ADDRESS).alias(ADDRESS)
        rows = selected.select(f.lit(UPDATE).alias(OPERATION), address, *values)
        every = _every_column(pending.schema)
        job = ChangeJob(target, pending, Kind.UPDATE, every, limits=limits_of(chosen))
        return apply_changes(rows, job)

    return retry_on_conflict(run)


class _Merge:
    """Which operation a merge has for which row."""

    def __init__(
        self,
        df: DataFrame,
        on: Sequence[str],
        matched: str | Assignments | None,
        *,
        inserts: bool,
        deletes_others: bool,
        case_sensitive: bool,
    ) -> None:
        self._df = df
        self._on = on
        self._matched = matched
        self._inserts = inserts
        self._deletes_others = deletes_others
        self._case_sensitive = case_sensitive

    def rows(self, pending: PendingWrite) -> tuple[DataFrame, tuple[str, ...]]:
        """Every row to change, with its operation and the table's columns; and the key columns."""
        schema: pa.Schema = pending.schema
        source = self._source(schema)
        keys = [self._key(name, schema, source) for name in self._on]
        joined = self._joined(source, self._table(pending, source.columns, keys), keys)
        address, in_source = f.col(f"target.{ROW_ADDRESS}"), f.col(f"source.{_IN_SOURCE}")
        matched = address.isNotNull() & in_source.isNotNull()
        operation = (
            f.when(matched, f.lit(self._on_match()))
            .when(in_source.isNotNull(), f.lit(INSERT if self._inserts else NOTHING))
            .otherwise(f.lit(DELETE if self._deletes_others else NOTHING))
        )
        assigned = {}
        if isinstance(self._matched, Mapping):
            assigned = _assigned(self._matched, schema, self._case_sensitive)
        values = [
            self._value(field, source.columns, assigned, matched)
            for field in to_spark_schema(schema).fields
        ]
        rows = joined.select(operation.alias(OPERATION), address.alias(ADDRESS), *values)
        return rows.where(f.col(OPERATION) != NOTHING), tuple(keys)

    def _source(self, schema: pa.Schema) -> DataFrame:
        """The DataFrame under the table's names and in its types."""
        chosen = columns.for_adding(
            self._df.schema,
            schema,
            merge=True,
            case_sensitive=self._case_sensitive,
            partial=not self._inserts,
        )
        if chosen.adds:
            raise TableSchemaValidationError(
                f"the table has no column {chosen.adds[0]!r}", hint="leave it out"
            )
        types = {field.name: field.dataType for field in to_spark_schema(schema).fields}
        return self._df.select(
            *(
                f.col(quoted(own)).cast(types[name]).alias(name)
                for name, own in zip(chosen.schema.names, chosen.sources, strict=True)
            )
        )

    def _key(self, wanted: str, schema: pa.Schema, source: DataFrame) -> str:
        own = columns.find(wanted, schema.names, case_sensitive=self._case_sensitive)
        if own is None or own not in source.columns:
            which = "table" if own is None else "DataFrame"
            raise TableSchemaValidationError(f"the {which} has no column {wanted!r} to merge on")
        return own

    def _table(self, pending: PendingWrite, given: Sequence[str], keys: Sequence[str]) -> DataFrame:
        """The table's keys and addresses, and those columns that an updated row keeps."""
        every = pending.schema.names
        if isinstance(self._matched, Mapping):
            kept = every
        elif self._matched == "update":
            kept = [name for name in every if name in keys or name not in given]
        else:
            kept = keys
        snapshot = Snapshot(pending.uri, At(pending.read_version), pending.storage_options)
        wanted = Wanted(columns=tuple(kept), with_row_address=True)
        return frame(self._df.sparkSession, Scan.of(snapshot, wanted), few=False)

    def _joined(self, source: DataFrame, target: DataFrame, keys: Sequence[str]) -> DataFrame:
        how = {
            (False, False): "inner",
            (True, False): "left",
            (False, True): "right",
            (True, True): "full",
        }[self._inserts, self._deletes_others]
        equal = [f.col(f"source.{quoted(key)}") == f.col(f"target.{quoted(key)}") for key in keys]
        marked = source.withColumn(_IN_SOURCE, f.lit(True)).alias("source")
        return marked.join(target.alias("target"), reduce(Column.__and__, equal), how)

    def _on_match(self) -> int:
        if self._matched is None:
            return NOTHING
        return DELETE if self._matched == "delete" else UPDATE

    def _value(
        self,
        own: StructField,
        given: Sequence[str],
        assigned: Mapping[str, Column],
        matched: Column,
    ) -> Column:
        name, is_given = own.name, own.name in given
        inserted = f.col(f"source.{quoted(name)}") if is_given else f.lit(None)
        kept = f.col(f"target.{quoted(name)}")
        if isinstance(self._matched, Mapping):
            updated = assigned.get(name, kept)
        elif self._matched == "update" and not is_given:
            updated = kept
        else:
            return inserted.cast(own.dataType).alias(name)
        value = f.when(matched, updated.cast(own.dataType)).otherwise(inserted.cast(own.dataType))
        return value.alias(name)


# -- common to all three


def _one_of(name: str, value: Any, known: Sequence[str]) -> None:
    mapping = name == "when_matched" and isinstance(value, Mapping) and bool(value)
    if value is not None and value not in known and not mapping:
        raise InvalidInputError(
            f"{name} can't be {value!r}", hint=f"one of {', '.join(known)}, or None"
        )


def _every_column(schema: pa.Schema) -> Columns:
    return columns.for_adding(to_spark_schema(schema), schema, merge=False, case_sensitive=True)


def _assigned(given: Assignments, schema: pa.Schema, case_sensitive: bool) -> dict[str, Column]:
    assigned = {}
    for name, value in given.items():
        own = columns.find(name, schema.names, case_sensitive=case_sensitive)
        if own is None:
            raise TableSchemaValidationError(f"the table has no column {name!r} to set")
        if isinstance(value, str):
            assigned[own] = f.expr(value)
        else:
            assigned[own] = value if isinstance(value, Column) else f.lit(value)
    return assigned


def _selected(
    spark: SparkSession,
    target: Target,
    pending: PendingWrite,
    where: str | None,
    read: Sequence[str] | None,
) -> DataFrame:
    """The rows that a condition selects, with their addresses."""
    assert target.id is not None
    others: dict[str, Any] = {
        name: value for name, value in target.properties.items() if name != "root"
    }
    return table(
        spark,
        names.dotted(target.id),
        root=target.root,
        columns=read,
        where=where,
        version=pending.read_version,
        with_row_address=True,
        **others,
    )


def _columns_read(spark: SparkSession, pending: PendingWrite, where: str) -> list[str] | None:
    """The columns that a condition reads, or one; None, for all, in Spark Connect."""
    if not has_jvm(spark):
        return None
    read = columns_of_condition(spark, to_spark_schema(pending.schema), where)
    every: list[str] = pending.schema.names
    return [name for name in every if name in read] or every[:1]
