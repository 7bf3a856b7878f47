"""The tables of a query: each pinned to one version, and read as far as the query needs them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import lance_namespace as api
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from tiltyard.catalog import names
from tiltyard.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    TiltyardError,
)
from tiltyard.settings import Settings
from tiltyard.spark.catalyst.jvm import local_frame
from tiltyard.spark.catalyst.parsing import TableReference
from tiltyard.spark.catalyst.planning import RelationScan
from tiltyard.spark.lance_filters import either, translate
from tiltyard.spark.options import VersionOptions
from tiltyard.spark.scan import Scan, at_of, pin
from tiltyard.spark.table import frame, read_few
from tiltyard.spark.target import Target
from tiltyard.spark.types import quoted, to_spark_schema
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Snapshot, Wanted

# A filter is applied on the driver if the whole table has no more rows than this: that takes less
# time than starting tasks, and if few rows pass, they need not be read again.
MOST_FILTERED_ROWS = 10_000_000
MOST_PASSING_ROWS = 100_000
MOST_THREADS = 4


@dataclass(frozen=True)
class QueryTable:
    """One version of a table, with its types in Lance and in Spark."""

    snapshot: Snapshot
    types: pa.Schema
    schema: StructType

    @classmethod
    def of(cls, snapshot: Snapshot) -> QueryTable:
        schema = to_spark_schema(scan.schema_of(snapshot, Wanted()))
        return cls(snapshot, scan.stored_schema(snapshot), schema)

    def few_rows(self, scans: Sequence[RelationScan]) -> pa.Table | None:
        """The rows that pass the filter of the scans, if they are few and the table is not huge."""
        wanted = self.wanted(scans)
        if wanted.filter is None or not wanted.columns:
            return None
        if scan.count(self.snapshot) > MOST_FILTERED_ROWS:
            return None
        limited = replace(wanted, limit=MOST_PASSING_ROWS + 1, expects_few=True)
        rows = read_few(Scan.of(self.snapshot, limited))
        return rows if rows is not None and rows.num_rows <= MOST_PASSING_ROWS else None

    def frame(
        self, spark: SparkSession, scans: Sequence[RelationScan], few_rows: pa.Table | None
    ) -> DataFrame:
        """All columns of the table; those that no scan reads are null."""
        wanted = self.wanted(scans)
        needed = wanted.columns or ()
        if not needed:
            rows = spark.range(scan.count(self.snapshot) if scans else 0).select()
        else:
            planned = Scan.of(self.snapshot, wanted)
            if few_rows is None:
                rows = frame(spark, planned)
            else:
                rows = local_frame(spark, few_rows, planned.schema, planned.row_bytes)
        return rows if len(needed) == len(self.schema) else rows.to(self._nullable)

    @property
    def _nullable(self) -> StructType:
        """The schema with every column nullable."""
        return StructType(
            [StructField(field.name, field.dataType, True, field.metadata) for field in self.schema]
        )

    def wanted(self, scans: Sequence[RelationScan]) -> Wanted:
        """What one scan has to read for all scans of the plan."""
        needed = {name for planned in scans for name in planned.columns}
        limits = [planned.limit for planned in scans]
        return Wanted(
            columns=tuple(name for name in self.schema.names if name in needed),
            filter=either([translate(planned.conditions) for planned in scans] or [None]),
            limit=limits[0] if len(limits) == 1 else None,
        )


def few_rows_of_all(
    tables: Mapping[int, QueryTable], scans: Mapping[int, Sequence[RelationScan]]
) -> dict[int, pa.Table | None]:
    """The few rows that pass the filters of each table, all read at the same time."""
    with ThreadPoolExecutor(max(1, min(len(tables), MOST_THREADS))) as pool:
        rows = pool.map(lambda number: tables[number].few_rows(scans.get(number, ())), tables)
        return dict(zip(tables, rows, strict=True))


class QueryTables:
    """The tables of a catalog, each version pinned once."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self._spark = spark
        self._properties = settings.as_properties()
        self._pinned: dict[tuple[tuple[str, ...], At], QueryTable] = {}

    def pin_all(self, references: Sequence[TableReference]) -> dict[int, QueryTable]:
        """The tables that are named; views of the session are missing, and left to Spark."""
        tables = {}
        for number, reference in enumerate(references):
            try:
                tables[number] = self._pin(reference.name, self._version(reference))
            except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError) as error:
                if not self._is_in_session(reference.name):
                    raise self._explained(error, reference.name) from error
        return tables

    def _pin(self, name: tuple[str, ...], at: At) -> QueryTable:
        if (name, at) not in self._pinned:
            target = Target(id=names.parse_table_id(name), properties=self._properties)
            self._pinned[name, at] = QueryTable.of(pin(target, at))
        return self._pinned[name, at]

    def _version(self, reference: TableReference) -> At:
        if reference.version is not None:
            is_number = reference.version.isdecimal()
            return At(int(reference.version)) if is_number else At(tag=reference.version)
        if reference.timestamp is not None:
            return At(as_of=self._time(reference.timestamp))
        return at_of(VersionOptions.parse(reference.options or {}))

    def _time(self, expression: str) -> datetime:
        row = self._spark.sql(f"SELECT unix_micros(CAST({expression} AS TIMESTAMP))").first()
        if row is None or row[0] is None:
            raise InvalidInputError(f"TIMESTAMP AS OF {expression} is no time")
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row[0])

    def _is_in_session(self, name: tuple[str, ...]) -> bool:
        try:
            return self._spark.catalog.tableExists(".".join(map(quoted, name)))
        except PySparkException:
            return False

    def _explained(self, error: TiltyardError, name: tuple[str, ...]) -> TiltyardError:
        if error.hint is None and isinstance(error, TableNotFoundError):
            namespace = Target(id=name, properties=self._properties).namespace()
            listed = namespace.list_tables(api.ListTablesRequest(id=list(name[:-1]))).tables
            tables = {table.lower(): table for table in listed}
            close = difflib.get_close_matches(name[-1].lower(), tables, n=1)
            error.hint = f"did you mean {tables[close[0]]!r}?" if close else None
        return error
