"""Changing rows of a table from Spark: merge, delete and update, each in one commit.

Spark finds the rows that are meant, by a join with the table's keys or by a condition in its own
SQL; `rewrite` carries out what was found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructField

from tiltyard import names
from tiltyard.errors import InvalidInputError, TableSchemaValidationError
from tiltyard.lifecycle.writing import PendingWrite
from tiltyard.spark import columns
from tiltyard.spark.columns import Columns
from tiltyard.spark.jvm import shows_plans
from tiltyard.spark.options import Options
from tiltyard.spark.rewrite import (
    ADDRESS,
    DELETE,
    INSERT,
    NOTHING,
    OPERATION,
    UPDATE,
    Changed,
    Job,
    begin,
    persistently,
    rewrite,
)
from tiltyard.spark.scan import Scan
from tiltyard.spark.table import frame, table
from tiltyard.spark.target import TARGET_OPTIONS, Target
from tiltyard.spark.types import ROW_ADDRESS, to_spark_schema
from tiltyard.spark.write import limits_of
from tiltyard.tables.describe import At
from tiltyard.tables.rewrites import Kind
from tiltyard.tables.scan import Snapshot, Wanted

Assignments = Mapping[str, Any]

KNOWN = TARGET_OPTIONS | {"case_sensitive", "max_bytes_per_file", "max_rows_per_file"}

_THERE = "__there"


def merge_into(
    df: DataFrame,
    name: str,
    *,
    on: str | Sequence[str],
    when_matched: str | Assignments | None = "update",
    when_not_matched: str | None = "insert",
    when_not_matched_by_source: str | None = None,
    **options: Any,
) -> Changed:
    """Merge a DataFrame into a table: rows with equal values in the columns `on` belong together.

    `when_matched` is "update" (the columns that the DataFrame has), "delete", None, or expressions
    by column over `source` and `target`; `when_not_matched` is "insert" or None;
    `when_not_matched_by_source` is "delete" or None. A null belongs to nothing, and two rows of the
    DataFrame for one of the table are refused. `options` are `root` and others of the data source.
    """
    keys = [on] if isinstance(on, str) else list(on)
    if not keys:
        raise InvalidInputError("a merge needs columns by which rows belong together")
    _one_of("when_matched", when_matched, ("update", "delete"))
    _one_of("when_not_matched", when_not_matched, ("insert",))
    _one_of("when_not_matched_by_source", when_not_matched_by_source, ("delete",))
    if when_matched is when_not_matched is when_not_matched_by_source is None:
        raise InvalidInputError("this merge changes nothing", hint="say what to do, and when")
    target, chosen = _parsed(name, options)
    merge = _Merge(
        df,
        keys,
        when_matched,
        inserts=when_not_matched is not None,
        deletes_others=when_not_matched_by_source is not None,
        case_sensitive=chosen.boolean("case_sensitive"),
    )

    def run() -> Changed:
        pending = begin(target)
        rows = merge.rows(pending)
        every = _every_column(pending.schema)
        job = Job(target, pending, Kind.MERGE, every, tuple(merge.keys), limits=limits_of(chosen))
        return rewrite(rows, job)

    return persistently(run)


def delete_where(spark: SparkSession, name: str, where: str, **options: Any) -> Changed:
    """Delete the rows for which a condition in Spark's SQL holds."""
    target, _ = _parsed(name, options)

    def run() -> Changed:
        pending = begin(target)
        read = _columns_of(spark, pending, where)
        found = _found(spark, target, pending, where, read)
        rows = found.select(f.lit(DELETE).alias(OPERATION), f.col(ROW_ADDRESS).alias(ADDRESS))
        every = _every_column(pending.schema)
        return rewrite(rows, Job(target, pending, Kind.DELETE, every, predicate=where))

    return persistently(run)


def update_where(
    spark: SparkSession, name: str, set: Assignments, where: str | None = None, **options: Any
) -> Changed:
    """Give columns new values where a condition holds, or everywhere.

    Values are expressions in Spark's SQL over the row, Spark's columns, or plain values other than
    texts: `set={"age": "age + 1", "seen": current_timestamp()}`.
    """
    target, chosen = _parsed(name, options)
    if not set:
        raise InvalidInputError("nothing is to be set", hint='like set={"age": "age + 1"}')

    def run() -> Changed:
        pending = begin(target)
        assigned = _assigned(set, pending.schema, chosen.boolean("case_sensitive"))
        found = _found(spark, target, pending, where, None)
        values = [
            assigned.get(each.name, f.col(_quoted(each.name))).cast(each.dataType).alias(each.name)
            for each in to_spark_schema(pending.schema).fields
        ]
        address = f.col(ROW_ADDRESS).alias(ADDRESS)
        rows = found.select(f.lit(UPDATE).alias(OPERATION), address, *values)
        every = _every_column(pending.schema)
        job = Job(target, pending, Kind.UPDATE, every, limits=limits_of(chosen))
        return rewrite(rows, job)

    return persistently(run)


class _Merge:
    """What a merge does with which row."""

    def __init__(
        self,
        df: DataFrame,
        keys: Sequence[str],
        matched: str | Assignments | None,
        *,
        inserts: bool,
        deletes_others: bool,
        case_sensitive: bool,
    ) -> None:
        self._df = df
        self.keys = keys
        self._matched = matched
        self._inserts = inserts
        self._deletes_others = deletes_others
        self._case_sensitive = case_sensitive

    def rows(self, pending: PendingWrite) -> DataFrame:
        """Every row that something is done to, what it is, and the table's columns."""
        schema: pa.Schema = pending.schema
        source = self._source(schema)
        self.keys = [self._key(each, schema, source) for each in self.keys]
        joined = self._joined(source, self._known(pending, source.columns))
        address, there = f.col(f"target.{ROW_ADDRESS}"), f.col(f"source.{_THERE}")
        matched = address.isNotNull() & there.isNotNull()
        operation = (
            f.when(matched, f.lit(self._on_match()))
            .when(there.isNotNull(), f.lit(INSERT if self._inserts else NOTHING))
            .otherwise(f.lit(DELETE if self._deletes_others else NOTHING))
        )
        assigned = {}
        if isinstance(self._matched, Mapping):
            assigned = _assigned(self._matched, schema, self._case_sensitive)
        values = [
            self._value(each, source.columns, assigned, matched)
            for each in to_spark_schema(schema).fields
        ]
        found = joined.select(operation.alias(OPERATION), address.alias(ADDRESS), *values)
        return found.where(f.col(OPERATION) != NOTHING)

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
        types = {each.name: each.dataType for each in to_spark_schema(schema).fields}
        return self._df.select(
            *(
                f.col(_quoted(own)).cast(types[name]).alias(name)
                for name, own in zip(chosen.schema.names, chosen.sources, strict=True)
            )
        )

    def _key(self, wanted: str, schema: pa.Schema, source: DataFrame) -> str:
        own = columns.find(wanted, schema.names, case_sensitive=self._case_sensitive)
        if own is None or own not in source.columns:
            which = "table" if own is None else "DataFrame"
            raise TableSchemaValidationError(f"the {which} has no column {wanted!r} to merge on")
        return own

    def _known(self, pending: PendingWrite, given: Sequence[str]) -> DataFrame:
        """The table's keys and addresses, and those columns that an updated row keeps."""
        every = pending.schema.names
        if isinstance(self._matched, Mapping):
            kept = every
        elif self._matched == "update":
            kept = [name for name in every if name in self.keys or name not in given]
        else:
            kept = self.keys
        snapshot = Snapshot(pending.uri, At(pending.read_version), pending.storage_options)
        wanted = Wanted(columns=tuple(kept), with_row_address=True)
        return frame(self._df.sparkSession, Scan.of(snapshot, wanted), few=False)

    def _joined(self, source: DataFrame, known: DataFrame) -> DataFrame:
        how = {
            (False, False): "inner",
            (True, False): "left",
            (False, True): "right",
            (True, True): "full",
        }[self._inserts, self._deletes_others]
        equal = [
            f.col(f"source.{_quoted(key)}") == f.col(f"target.{_quoted(key)}") for key in self.keys
        ]
        marked = source.withColumn(_THERE, f.lit(True)).alias("source")
        return marked.join(known.alias("target"), reduce(Column.__and__, equal), how)

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
        name, there = own.name, own.name in given
        inserted = f.col(f"source.{_quoted(name)}") if there else f.lit(None)
        kept = f.col(f"target.{_quoted(name)}")
        if isinstance(self._matched, Mapping):
            updated = assigned.get(name, kept)
        elif self._matched == "update" and not there:
            updated = kept
        else:
            return inserted.cast(own.dataType).alias(name)
        value = f.when(matched, updated.cast(own.dataType)).otherwise(inserted.cast(own.dataType))
        return value.alias(name)


# -- what all three have in common


def _parsed(name: str, options: Mapping[str, Any]) -> tuple[Target, Options]:
    chosen = Options({"path": name, **options})
    chosen.refuse_unknown(KNOWN)
    return Target.parse(chosen), chosen


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


def _found(
    spark: SparkSession,
    target: Target,
    pending: PendingWrite,
    where: str | None,
    read: Sequence[str] | None,
) -> DataFrame:
    """The rows that are meant, with their addresses."""
    assert target.id is not None
    rest: dict[str, Any] = {
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
        **rest,
    )


def _columns_of(spark: SparkSession, pending: PendingWrite, where: str) -> list[str] | None:
    """The columns that a condition reads; None where Spark does not tell."""
    if not shows_plans(spark):
        return None
    empty = spark.createDataFrame([], to_spark_schema(pending.schema))
    condition = empty.where(where)._jdf.queryExecution().analyzed().condition()
    read = condition.references().iterator()
    found = set()
    while read.hasNext():
        found.add(read.next().name())
    every: list[str] = pending.schema.names
    return [name for name in every if name in found] or every[:1]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
