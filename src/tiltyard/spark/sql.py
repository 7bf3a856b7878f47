"""Queries over a catalog, planned before anything is read.

Spark plans the query over stubs with the tables' schemas, and its plan tells which columns and
which rows of each table it needs. Only those are then read, of versions that were pinned before,
and the query runs over them. Spark applies every condition again, so Lance may leave out fewer rows
than it could. Only where a query groups the rows of one table is the aggregate begun in Arrow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.settings import Settings
from tiltyard.spark.catalyst.aggregates import GroupedQuery
from tiltyard.spark.catalyst.parsing import ParsedQuery
from tiltyard.spark.catalyst.planning import QueryPlan, RelationScan, plan_query
from tiltyard.spark.lance_filters import translate, translate_exactly
from tiltyard.spark.query_tables import QueryTable, QueryTables, few_rows_of_all
from tiltyard.spark.scan import Scan
from tiltyard.spark.table import FEW_ROWS, partial_frame
from tiltyard.spark.types import quoted, wire_schema
from tiltyard.tables import scan
from tiltyard.tables.scan import Snapshot, Wanted

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
    return _Query(spark, root, query, args, properties).run()


def explain(
    spark: SparkSession,
    root: str | os.PathLike[str],
    query: str,
    args: Mapping[str, Any] | Sequence[Any] | None = None,
    **properties: Any,
) -> list[TableScan]:
    """What `sql` would read for a query, table by table as the query names them."""
    return _Query(spark, root, query, args, properties).explain()


@dataclass(frozen=True)
class TableScan:
    """What is read of one table: of which version, which columns, and by which filter of Lance's.

    A query that only counts rows reads no column of them. Of a table that is `grouped`, the groups
    are sent to Spark, and not the rows.
    """

    table: str
    version: int | None
    columns: tuple[str, ...]
    filter: str | None
    limit: int | None
    grouped: bool = False


class _Query:
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
        self._parsed = ParsedQuery(spark, query, args)
        settings = Settings.from_properties({"root": root, **properties})
        self._tables = QueryTables(spark, settings).pin_all(self._parsed.tables)

    @cached_property
    def _plan(self) -> QueryPlan:
        schemas = {number: table.schema for number, table in self._tables.items()}
        return plan_query(self._spark, self._parsed, schemas)

    @cached_property
    def _scans(self) -> dict[int, list[RelationScan]]:
        return self._plan.scans({number: table.types for number, table in self._tables.items()})

    @cached_property
    def _grouped(self) -> _GroupedScan | None:
        types = {number: wire_schema(table.schema) for number, table in self._tables.items()}
        grouped = self._plan.grouped_table(types)
        if grouped is None:
            return None
        number, query = grouped
        return _GroupedScan.of(self._tables[number], query, self._scans.get(number, ()))

    def run(self) -> DataFrame:
        if self._parsed.count_columns is not None and self._tables:
            return self._count(0, self._parsed.count_columns)
        counted = self._plan.counted_table()
        if counted is not None:
            return self._count(counted, self._plan.schema.names)
        grouped = self._grouped
        if grouped is not None:
            return grouped.run(self._spark)
        few_rows = few_rows_of_all(self._tables, self._scans)
        return self._parsed.run(
            {
                number: table.frame(self._spark, self._scans.get(number, ()), few_rows[number])
                for number, table in self._tables.items()
            }
        )

    def _count(self, number: int, names: Sequence[str]) -> DataFrame:
        """The number of a table's rows, from its metadata, in columns of these names."""
        rows = scan.count(self._tables[number].snapshot)
        columns = ", ".join(f"{rows}L AS {quoted(name)}" for name in names)
        return self._spark.sql(f"SELECT {columns}")

    def explain(self) -> list[TableScan]:
        grouped = self._grouped
        scans = []
        for number, table in self._tables.items():
            if grouped is None:
                wanted = table.wanted(self._scans.get(number, ()))
            else:
                wanted = grouped.wanted
            name = names.dotted(self._parsed.tables[number].name)
            version, columns = table.snapshot.at.version, wanted.columns or ()
            scans.append(
                TableScan(name, version, columns, wanted.filter, wanted.limit, grouped is not None)
            )
        return scans


@dataclass(frozen=True)
class _GroupedScan:
    """A query that groups the rows of a table, and what is read of it."""

    query: GroupedQuery
    snapshot: Snapshot
    wanted: Wanted

    @classmethod
    def of(
        cls, table: QueryTable, query: GroupedQuery, scans: Sequence[RelationScan]
    ) -> _GroupedScan | None:
        """None if the table is small, or if Lance can't apply the conditions of the query."""
        if len(scans) != 1 or scan.count(table.snapshot) <= FEW_ROWS:
            return None
        (planned,) = scans
        has_conditions = query.aggregate.has_conditions
        columns = query.aggregate.grouping.columns or planned.columns
        text = (translate_exactly if has_conditions else translate)(planned.conditions)
        if not columns or (has_conditions and text is None):
            return None
        ordered = tuple(name for name in table.schema.names if name in columns)
        wanted = Wanted(columns=ordered, filter=text, batch_size=ROWS_PER_GROUPING)
        return cls(query, table.snapshot, wanted)

    def run(self, spark: SparkSession) -> DataFrame:
        planned = Scan.of(self.snapshot, self.wanted)
        partials = partial_frame(spark, planned, self.query.aggregate.grouping)
        return self.query.run(spark, partials)
