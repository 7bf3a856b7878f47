"""Queries over a catalog, planned before anything is read.

Spark plans the query over stubs with the tables' schemas, and its plan tells which columns and
which rows of each table it needs. Only those are then read, of versions that were pinned before,
and the query runs over them. Spark applies every condition again: what Lance leaves out is a gift.
Only where a query groups the rows of one table is the first part of the work done in Arrow.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.settings import Settings
from tiltyard.spark.aggregates import Grouped
from tiltyard.spark.jvm import Java
from tiltyard.spark.pinned import Pinned, Tables, few_of_all
from tiltyard.spark.plans import Planned, Read, plan_of
from tiltyard.spark.predicates import translate, translate_exactly
from tiltyard.spark.queries import Query
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

    A query that only counts rows reads no column of them. Of a table that is `grouped`, the groups
    are sent to Spark, and not the rows.
    """

    table: str
    version: int | None
    columns: tuple[str, ...]
    filter: str | None
    limit: int | None
    grouped: bool = False


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
        self._tables = Tables(spark, settings).find_all(self._query.relations)

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
        return _Begun.of(self._tables[number], grouped, self._reads.get(number, ()))

    def answer(self) -> DataFrame:
        if self._query.counts is not None and self._tables:
            return self._counted(0, self._query.counts)
        counted = self._planned.counted()
        if counted is not None:
            return self._counted(counted, self._planned.schema.names)
        grouped = self._grouped
        if grouped is not None:
            return grouped.answer(self._spark, self._planned.analyzed)
        few = few_of_all(self._tables, self._reads)
        return self._query.answer(
            {
                number: table.bound(self._spark, self._reads.get(number, ()), few[number])
                for number, table in self._tables.items()
            }
        )

    def _counted(self, number: int, names: Sequence[str]) -> DataFrame:
        """The rows of a table under these names, from its metadata."""
        rows = scan.count(self._tables[number].snapshot)
        listed = ", ".join(f"{rows}L AS {quoted(name)}" for name in names)
        return self._spark.sql(f"SELECT {listed}")

    def scans(self) -> list[Scanned]:
        begun = self._grouped
        found = []
        for number, table in self._tables.items():
            wanted = table.wanted(self._reads.get(number, ())) if begun is None else begun.wanted
            name = names.dotted(self._query.relations[number].name)
            version, columns = table.snapshot.at.version, wanted.columns or ()
            found.append(
                Scanned(name, version, columns, wanted.filter, wanted.limit, begun is not None)
            )
        return found


@dataclass(frozen=True)
class _Begun:
    """An aggregate that is begun where the rows of its table are read."""

    grouped: Grouped
    snapshot: Snapshot
    wanted: Wanted

    @classmethod
    def of(cls, table: Pinned, grouped: Grouped, reads: Sequence[Read]) -> _Begun | None:
        """None if the table is small, or has to be read for the conditions of the query."""
        if len(reads) != 1 or scan.count(table.snapshot) <= FEW_ROWS:
            return None
        (read,) = reads
        columns = grouped.grouping.columns or read.columns
        text = (translate_exactly if grouped.chooses else translate)(read.conditions)
        if not columns or (grouped.chooses and text is None):
            return None
        ordered = tuple(name for name in table.schema.names if name in columns)
        wanted = Wanted(columns=ordered, filter=text, batch_size=ROWS_PER_GROUPING)
        return cls(grouped, table.snapshot, wanted)

    def answer(self, spark: SparkSession, analyzed: Java) -> DataFrame:
        planned = Scan.of(self.snapshot, self.wanted)
        partials = partial_frame(spark, planned, self.grouped.grouping)
        return self.grouped.answer(spark, analyzed, partials)
