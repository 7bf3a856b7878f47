"""A table as a DataFrame, by the fastest way that is safe in any plan.

Spark's data source API takes batches more slowly than `mapInArrow` does, and tells the planner
nothing about a table's size. So a scan is a `mapInArrow` over a range of numbers, one of them per
piece. Spark estimates the result to be as large as that range, which is made as large as the table:
by more numbers, which are filtered out again in the JVM, and a wide column of nulls. So a join
broadcasts a small table and never a large one. A table of a few rows is read on the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tiltyard.errors import InvalidInputError
from tiltyard.spark.catalyst.jvm import has_jvm
from tiltyard.spark.catalyst.planning import columns_of_condition, plan_condition
from tiltyard.spark.lance_filters import translate
from tiltyard.spark.options import ReadOptions
from tiltyard.spark.partial_aggregates import Grouping
from tiltyard.spark.scan import Scan
from tiltyard.spark.session import freeze_gc
from tiltyard.spark.types import ROW_ADDRESS, ROW_ID, quoted, to_spark_schema, wire_schema
from tiltyard.tables import scan
from tiltyard.tables.scan import Piece, Snapshot, Wanted

# Up to here a table is read on the driver: that takes less than starting a task.
FEW_ROWS = 10_000
FEW_BYTES = 4 * 1024 * 1024

# Spark counts 8 bytes for each number of a range, 100 for each binary, and 8 for each row; the wide
# column stretches a range by (8 + 8 + 3200) / (8 + 8).
WIDE = f"STRUCT<{', '.join(f'c{number}: BINARY' for number in range(32))}>"
NUMBER_BYTES = 8 * 201


def table(
    spark: SparkSession,
    name: str,
    *,
    root: str | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    as_of: datetime | str | None = None,
    limit: int | None = None,
    **options: Any,
) -> DataFrame:
    """Read a table by its dotted name in the catalog at `root`, or by the path of its directory.

    `where` is a condition in Spark's SQL over any column: Lance applies what it can before rows are
    sent, and Spark the rest. A limit counts the rows that are left; of a search, `where` chooses
    among the results. Other options are those of the data source.
    """
    given = {
        "table" if root is not None else "path": name,
        "root": root,
        "version": version,
        "tag": tag,
        "branch": branch,
        "as_of": as_of,
        "limit": limit,
        "columns": None if columns is None else _json_list(columns),
        **options,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    planned = Scan.plan(ReadOptions.parse(chosen))
    return frame(spark, planned) if where is None else _filtered(spark, planned, where)


def _filtered(spark: SparkSession, planned: Scan, where: str) -> DataFrame:
    if planned.wanted.is_search:  # the best rows are those of the whole table
        return frame(spark, planned).where(where)
    names, limit = planned.schema.names, planned.wanted.limit
    wanted = replace(planned.wanted, limit=None)
    if has_jvm(spark):  # in Spark Connect, `where` reads the columns that are wanted only
        wanted = _narrowed(spark, planned.snapshot, wanted, where)
    scanned = Scan.of(
        planned.snapshot, wanted, planned.num_partitions, planned.fragments_per_partition
    )
    rows = frame(spark, scanned).where(where).select(*map(quoted, names))
    return rows if limit is None else rows.limit(limit)


def _narrowed(spark: SparkSession, snapshot: Snapshot, wanted: Wanted, where: str) -> Wanted:
    """What is wanted, and the columns that a condition reads, without the rows it leaves out."""
    schema = to_spark_schema(scan.schema_of(snapshot, replace(wanted, columns=None)))
    conditions = plan_condition(spark, schema, scan.stored_schema(snapshot), where)
    pushed = "false" if conditions is None else translate(conditions)
    filters = [f"({text})" for text in (wanted.filter, pushed) if text is not None]
    columns = wanted.columns
    if columns is not None:
        read = columns_of_condition(spark, schema, where)
        columns = (*columns, *sorted(read - {*columns, ROW_ID, ROW_ADDRESS}))
    return replace(wanted, columns=columns, filter=" AND ".join(filters) or None)


def frame(spark: SparkSession, planned: Scan, *, few: bool = True) -> DataFrame:
    """The rows of a scan. A few are read at once, unless `few` is false; many when Spark runs."""
    rows = _most_rows(planned)
    if few and rows <= FEW_ROWS:
        read = read_few(planned)
        if read is not None:
            return spark.createDataFrame(read, planned.schema)
    pieces = planned.pieces(cores(spark)) or [Piece(())]
    stride = max(1, rows * planned.row_bytes // (NUMBER_BYTES * len(pieces)))
    numbers = spark.sql(
        f"SELECT id, CAST(NULL AS {WIDE}) AS wide "
        f"FROM range(0, {stride * len(pieces)}, 1, {len(pieces)}) WHERE id % {stride} = 0"
    )
    return numbers.mapInArrow(_reader(planned, pieces, stride, _zone(spark)), planned.schema)


def partial_frame(spark: SparkSession, planned: Scan, grouping: Grouping) -> DataFrame:
    """Partial results of an aggregate over the rows of a scan."""
    pieces = planned.pieces(cores(spark)) or [Piece(())]
    schema = grouping.schema(planned.schema)
    zone = _zone(spark)
    rows, wire = _reader(planned, pieces, 1, zone), wire_schema(schema, zone)
    numbers = spark.range(0, len(pieces), 1, len(pieces))
    return numbers.mapInArrow(lambda batches: grouping.aggregate(rows(batches), wire), schema)


def _zone(spark: SparkSession) -> str:
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    return zone


def cores(spark: SparkSession) -> int | None:
    """How many tasks run at once; None in Spark Connect, which does not tell."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except PySparkException:
        return None


def _most_rows(planned: Scan) -> int:
    """The most rows there can be. How many a filter leaves is not known."""
    rows = scan.count(planned.snapshot)
    wanted = planned.wanted
    if wanted.limit is not None and wanted.filter is None and not wanted.is_search:
        return min(rows, wanted.limit)
    return rows


def read_few(planned: Scan) -> pa.Table | None:
    """All rows in one batch; None if they are large."""
    batches, size = [], 0
    for piece in planned.pieces(1):
        for batch in planned.read(piece):
            batches.append(batch)
            size += batch.nbytes
            if size > FEW_BYTES:
                return None
    wire = wire_schema(planned.schema)
    if not batches:  # Spark takes no nested column without a chunk
        return wire.empty_table()
    return pa.Table.from_batches(batches, wire).combine_chunks()


def _reader(
    planned: Scan, pieces: Sequence[Piece], stride: int, zone: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does with its numbers: read the piece of each."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_gc()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from planned.read(pieces[number // stride], zone)

    return read


def _json_list(columns: Sequence[str]) -> str:
    if isinstance(columns, str):
        raise InvalidInputError(
            f"columns are a list of names, not the string {columns!r}",
            hint=f"did you mean [{columns!r}]?",
        )
    return json.dumps(list(columns))
