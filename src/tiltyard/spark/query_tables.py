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

from tiltyard import names
from tiltyard.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    TiltyardError,
)
from tiltyard.settings import Settings
from tiltyard.spark.handed import handed
from tiltyard.spark.options import Options
from tiltyard.spark.plans import Read
from tiltyard.spark.predicates import either, translate
from tiltyard.spark.queries import Relation
from tiltyard.spark.scan import Scan, at_of, pin
from tiltyard.spark.table import frame, read_few
from tiltyard.spark.target import Target
from tiltyard.spark.types import quoted, to_spark_schema
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Snapshot, Wanted

VERSION_OPTIONS = {"version", "tag", "branch", "as_of"}

# A filter is tried out on the driver if the whole table is no more than this: that takes less time
# than starting tasks, and where few rows pass, they are the answer.
MOST_TRIED_ROWS = 10_000_000
MOST_FOUND_ROWS = 100_000
MOST_THREADS = 4


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

    def few(self, reads: Sequence[Read]) -> pa.Table | None:
        """What a filter leaves of the table, if that is tried out and turns out to be little."""
        wanted = self.wanted(reads)
        if wanted.filter is None or not wanted.columns:
            return None
        if scan.count(self.snapshot) > MOST_TRIED_ROWS:
            return None
        tried = replace(wanted, limit=MOST_FOUND_ROWS + 1, expects_few=True)
        found = read_few(Scan.of(self.snapshot, tried))
        return found if found is not None and found.num_rows <= MOST_FOUND_ROWS else None

    def bound(self, spark: SparkSession, reads: Sequence[Read], few: pa.Table | None) -> DataFrame:
        """All columns of the table, and in those that the reads need what is in them.

        No row of the answer depends on the others, which are null.
        """
        wanted = self.wanted(reads)
        needed = wanted.columns or ()
        if not needed:
            rows = spark.range(scan.count(self.snapshot) if reads else 0).select()
        else:
            planned = Scan.of(self.snapshot, wanted)
            if few is None:
                rows = frame(spark, planned)
            else:
                rows = handed(spark, few, planned.schema, planned.row_bytes)
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


def few_of_all(
    tables: Mapping[int, Pinned], reads: Mapping[int, Sequence[Read]]
) -> dict[int, pa.Table | None]:
    """What filters leave of the tables, tried out at the same time."""
    with ThreadPoolExecutor(max(1, min(len(tables), MOST_THREADS))) as pool:
        found = pool.map(lambda number: tables[number].few(reads.get(number, ())), tables)
        return dict(zip(tables, found, strict=True))


class Tables:
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
