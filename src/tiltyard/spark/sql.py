"""Queries over a catalog, planned before anything is read.

Spark plans the query over stubs with the tables' schemas, and its plan tells which columns and
which rows of each table it needs. Only those are then read, of versions that were pinned before,
and the query runs over them. Spark applies every condition again: what Lance leaves out is a gift.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import lance_namespace as api
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tiltyard import names
from tiltyard.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    TiltyardError,
)
from tiltyard.settings import Settings
from tiltyard.spark.aggregates import Grouped
from tiltyard.spark.jvm import Java
from tiltyard.spark.options import Options
from tiltyard.spark.plans import Planned, Read, plan_of
from tiltyard.spark.predicates import either, translate, translate_exactly
from tiltyard.spark.queries import Query, Relation
from tiltyard.spark.scan import Scan, at_of, pin
from tiltyard.spark.table import FEW_ROWS, frame, partial_frame, read_few
from tiltyard.spark.target import Target
from tiltyard.spark.types import quoted, to_spark_schema, wire_schema
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Snapshot, Wanted

VERSION_OPTIONS = {"version", "tag", "branch", "as_of"}

# A filter is tried out on the driver if the whole table is no more than this: that takes less time
# than starting tasks, and where few rows pass, they are the answer.
MOST_TRIED_ROWS = 10_000_000
MOST_FOUND_ROWS = 100_000
# An aggregate is begun in batches of so many rows, each of which may have all of the groups.
ROWS_PER_GROUPING = 128 * 1024


def sql(
    spark: SparkSession,
    root: str | os.PathLike[str],
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    **properties: Any,
) -> DataFrame:
    """Run a query over the tables of the catalog at `root`; `prod.users` is a table's full name.

    Anything that Spark calls a query will do: joins, subqueries, CTEs, unions, windows. `args` are
    the values of its parameters, as for `spark.sql`. A table may be read in another version: `users
    VERSION AS OF 3`, or `'a tag'`, or `TIMESTAMP AS OF '2026-05-04'`. All versions are pinned now.
    A name that the catalog does not have may be a view of the session.
    """
    return _Prepared(spark, root, query, args, properties).answer()


def explain(
    spark: SparkSession,
    root: str | os.PathLike[str],
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    **properties: Any,
) -> list[Scanned]:
    """What `sql` would read for a query, table by table as the query names them."""
    return _Prepared(spark, root, query, args, properties).scans()


@dataclass(frozen=True)
class Scanned:
    """What is read of one table: of which version, which columns, and by which filter of Lance's.

    A query that only counts rows reads no column of them.
    """

    table: str
    version: int | None
    columns: tuple[str, ...]
    filter: str | None
    limit: int | None


class _Prepared:
    """A query, the versions of its tables, and what Spark's plan needs of them."""

    def __init__(
        self,
        spark: SparkSession,
        root: str | os.PathLike[str],
        query: str,
        args: Mapping[str, Any] | Sequence[Any] | None,
        properties: Mapping[str, Any],
    ) -> None:
        self._spark = spark
        self._query = Query(spark, query, args)
        settings = Settings.from_properties({"root": root, **properties})
        self._tables = _Tables(spark, settings).find_all(self._query.relations)

    @cached_property
    def _planned(self) -> Planned:
        schemas = {number: table.schema for number, table in self._tables.items()}
        return plan_of(self._spark, self._query, schemas)

    @cached_property
    def _reads(self) -> dict[int, list[Read]]:
        return self._planned.reads({number: table.types for number, table in self._tables.items()})

    @cached_property
    def _grouped(self) -> _Begun | None:
        wires = {number: wire_schema(table.schema) for number, table in self._tables.items()}
        found = self._planned.grouped(wires)
        if found is None:
            return None
        number, grouped = found
        table, reads = self._tables[number], self._reads.get(number, ())
        if len(reads) != 1 or scan.count(table.snapshot) <= FEW_ROWS:
            return None
        conditions = reads[0].conditions
        text = translate_exactly(conditions) if grouped.chooses else translate(conditions)
        if grouped.chooses and text is None:
            return None
        columns = grouped.grouping.columns or reads[0].columns
        if not columns:
            return None
        wanted = Wanted(
            columns=tuple(name for name in table.schema.names if name in columns),
            filter=text,
            batch_size=ROWS_PER_GROUPING,
        )
        return _Begun(number, grouped, Scan.of(table.snapshot, wanted))

    def answer(self) -> DataFrame:
        if self._query.counts is not None and self._tables:
            return self._counted(0, self._query.counts)
        counted = self._planned.counted()
        if counted is not None:
            return self._counted(counted, self._planned.schema.names)
        grouped = self._grouped
        if grouped is not None:
            return grouped.answer(self._spark, self._planned.analyzed)
        return self._query.answer(
            {
                number: table.bound(self._spark, self._reads.get(number, ()))
                for number, table in self._tables.items()
            }
        )

    def _counted(self, number: int, names: Sequence[str]) -> DataFrame:
        """The rows of a table under these names, from its metadata."""
        rows = scan.count(self._tables[number].snapshot)
        listed = ", ".join(f"{rows}L AS {quoted(name)}" for name in names)
        return self._spark.sql(f"SELECT {listed}")

    def scans(self) -> list[Scanned]:
        found = []
        for number, table in self._tables.items():
            wanted = table.wanted(self._reads.get(number, ()))
            name = names.dotted(self._query.relations[number].name)
            version = table.snapshot.at.version
            found.append(Scanned(name, version, wanted.columns or (), wanted.filter, wanted.limit))
        return found


@dataclass(frozen=True)
class _Begun:
    """An aggregate that is begun where the rows of its table are read."""

    number: int
    grouped: Grouped
    scan: Scan

    def answer(self, spark: SparkSession, analyzed: Java) -> DataFrame:
        partials = partial_frame(spark, self.scan, self.grouped.grouping)
        return self.grouped.answer(spark, analyzed, partials)


@dataclass(frozen=True)
class Pinned:
    """One version of a table, with its types in Lance and in Spark."""

    snapshot: Snapshot
    types: pa.Schema
    schema: StructType

    @classmethod
    def of(cls, snapshot: Snapshot) -> Pinned:
        schema = to_spark_schema(scan.schema_of(snapshot, Wanted()))
        return cls(snapshot, scan.stored_schema(snapshot), schema)

    def bound(self, spark: SparkSession, reads: Sequence[Read]) -> DataFrame:
        """All columns of the table, and in those that the reads need what is in them.

        No row of the answer depends on the others, which are null.
        """
        wanted = self.wanted(reads)
        needed = wanted.columns or ()
        if not needed:
            rows = spark.range(scan.count(self.snapshot) if reads else 0).select()
        else:
            rows = _few_or_all(spark, Scan.of(self.snapshot, wanted))
        return rows if len(needed) == len(self.schema) else rows.to(self._optional)

    @property
    def _optional(self) -> StructType:
        """The schema, if every column may be missing."""
        return StructType(
            [StructField(each.name, each.dataType, True, each.metadata) for each in self.schema]
        )

    def wanted(self, reads: Sequence[Read]) -> Wanted:
        """What one scan has to bring for all of the reads."""
        needed = {name for read in reads for name in read.columns}
        limits = [read.limit for read in reads]
        return Wanted(
            columns=tuple(name for name in self.schema.names if name in needed),
            filter=either([translate(read.conditions) for read in reads] or [None]),
            limit=limits[0] if len(limits) == 1 else None,
        )


def _few_or_all(spark: SparkSession, planned: Scan) -> DataFrame:
    """The rows of a scan; those of a filter at once, if they turn out to be few."""
    if planned.wanted.filter is not None and scan.count(planned.snapshot) <= MOST_TRIED_ROWS:
        tried = replace(planned.wanted, limit=MOST_FOUND_ROWS + 1, expects_few=True)
        found = read_few(Scan.of(planned.snapshot, tried))
        if found is not None and found.num_rows <= MOST_FOUND_ROWS:
            return spark.createDataFrame(found, planned.schema)
    return frame(spark, planned)


class _Tables:
    """The tables of a catalog, each version pinned once."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._properties = settings.as_properties()
        self._pinned: dict[tuple[tuple[str, ...], At], Pinned] = {}

    def find_all(self, relations: Sequence[Relation]) -> dict[int, Pinned]:
        """The tables that are named; what only the session knows is missing, and left to it."""
        found = {}
        for number, relation in enumerate(relations):
            try:
                found[number] = self._find(relation.name, self._version(relation))
            except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError) as error:
                if not self._session_knows(relation.name):
                    raise self._explained(error, relation.name) from error
        return found

    def _find(self, name: tuple[str, ...], at: At) -> Pinned:
        if (name, at) not in self._pinned:
            target = Target(id=names.parse_table_id(name), properties=self._properties)
            self._pinned[name, at] = Pinned.of(pin(target, at))
        return self._pinned[name, at]

    def _version(self, relation: Relation) -> At:
        if relation.version is not None:
            number = relation.version.isdecimal()
            return At(int(relation.version)) if number else At(tag=relation.version)
        if relation.moment is not None:
            return At(as_of=self._moment(relation.moment.sql()))
        options = Options(relation.options or {})
        options.refuse_unknown(VERSION_OPTIONS)
        return at_of(options)

    def _moment(self, expression: str) -> datetime:
        row = self._spark.sql(f"SELECT unix_micros(CAST({expression} AS TIMESTAMP))").first()
        if row is None or row[0] is None:
            raise InvalidInputError(f"TIMESTAMP AS OF {expression} is no time")
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row[0])

    def _session_knows(self, name: tuple[str, ...]) -> bool:
        try:
            return self._spark.catalog.tableExists(".".join(map(quoted, name)))
        except PySparkException:
            return False

    def _explained(self, error: TiltyardError, name: tuple[str, ...]) -> TiltyardError:
        if error.hint is None and isinstance(error, TableNotFoundError):
            namespace = Target(id=name, properties=self._properties).namespace()
            known = namespace.list_tables(api.ListTablesRequest(id=list(name[:-1]))).tables
            close = {each.lower(): each for each in known}
            found = difflib.get_close_matches(name[-1].lower(), close, n=1)
            error.hint = f"did you mean {close[found[0]]!r}?" if found else None
        return error
