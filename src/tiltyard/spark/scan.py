"""Reading a table: the driver decides once what is read; the pieces are read anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from tiltyard.errors import InvalidInputError
from tiltyard.spark.options import (
    STREAM_ONLY,
    ReadOptions,
    StreamReadOptions,
    StreamWriteOptions,
    VersionOptions,
    WriteOptions,
)
from tiltyard.spark.session import freeze_gc
from tiltyard.spark.target import Target
from tiltyard.spark.types import (
    bytes_of,
    check_schema,
    to_spark_batch,
    to_spark_schema,
    wire_schema,
)
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Piece, Snapshot, Wanted

# Each batch costs both sides something, so wide rows come in large ones; several are in memory at
# once, so not in huge ones.
BATCH_BYTES = 8 * 1024 * 1024
FEWEST_ROWS_PER_BATCH, ROWS_PER_BATCH = 1024, 32 * 1024
ROW_BYTES = 8  # what Spark adds for each row to an estimate
# A task costs some hundredths of a second, so one of fewer rows does not pay; while one of more
# runs, other cores may have nothing left to do.
FEWEST_ROWS = 32 * 1024
MOST_ROWS = 4 * 1024 * 1024


@dataclass(frozen=True)
class Scan:
    """A pinned version, what is wanted of it, and its schema in Spark. Picklable."""

    snapshot: Snapshot
    wanted: Wanted
    schema: StructType
    row_bytes: int
    num_partitions: int | None = None
    fragments_per_partition: int | None = None

    @classmethod
    def plan(cls, options: ReadOptions) -> Scan:
        """Pin the version that the options name, and read its schema."""
        return cls.of(
            pin(Target.of(options), at_of(options)),
            _wanted(options),
            options.num_partitions,
            options.fragments_per_partition,
        )

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        wanted: Wanted,
        num_partitions: int | None = None,
        fragments_per_partition: int | None = None,
    ) -> Scan:
        """A scan of a version that is pinned already."""
        arrow = scan.schema_of(snapshot, wanted)
        schema = to_spark_schema(arrow)
        width = ROW_BYTES + sum(bytes_of(field.type) for field in arrow)
        if wanted.batch_size is None:
            wanted = replace(wanted, batch_size=_rows_per_batch(width))
        return cls(snapshot, wanted, schema, width, num_partitions, fragments_per_partition)

    @classmethod
    def with_schema(cls, schema: StructType, options: ReadOptions) -> Scan:
        """A scan for a schema that Spark got elsewhere: of `SELECT ... FROM t WITH (...)`, of
        `read.schema(...)`. Spark then asks anew for each use, so the version has to be named."""
        if options.version is None or options.columns is not None:
            raise InvalidInputError(
                "a Lance table has a schema of its own",
                hint="read without a schema, and choose by 'columns'; or name the version, so "
                "that every use of the schema reads the same",
            )
        planned = cls.plan(options.model_copy(update={"columns": tuple(schema.names)}))
        check_schema(schema, planned.schema)
        return replace(planned, schema=schema)

    def pieces(self, cores: int | None = None) -> list[Piece]:
        """The partitions: as asked for, else enough for every core."""
        if self.fragments_per_partition is not None and self.wanted.is_divisible:
            return scan.groups_of(self.snapshot, self.fragments_per_partition)
        count = self.num_partitions or self._partitions(cores or os.cpu_count() or 1)
        return scan.pieces_of(self.snapshot, self.wanted, count)

    def _partitions(self, cores: int) -> int:
        rows = scan.count(self.snapshot)
        rounds = -(-rows // (cores * MOST_ROWS))
        return min(cores * max(1, rounds), -(-rows // FEWEST_ROWS))

    def read(self, piece: Piece, timezone: str = "UTC") -> Iterator[pa.RecordBatch]:
        """The batches of one piece, as Spark wants them."""
        wire = wire_schema(self.schema, timezone)
        for batch in scan.read(self.snapshot, self.wanted, piece):
            yield to_spark_batch(batch, wire)


def _rows_per_batch(width: int) -> int:
    return min(ROWS_PER_BATCH, max(FEWEST_ROWS_PER_BATCH, BATCH_BYTES // width))


class Reader(DataSourceReader):
    """What Spark asks for partitions on the driver, and for their rows on the executors."""

    def __init__(self, planned: Scan) -> None:
        self._scan = planned

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(piece) for piece in self._scan.pieces()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        freeze_gc()
        # An empty table has no pieces, and Spark then asks for one partition without a value.
        return iter(()) if partition.value is None else self._scan.read(partition.value)


def pin(target: Target, at: At) -> Snapshot:
    """The version that is meant, fixed from now on."""
    if target.path is not None:
        return scan.snapshot_of_path(target.path, at, target.storage)
    assert target.id is not None
    return target.namespace().versions.snapshot_table(target.id, at)


def at_of(options: VersionOptions) -> At:
    return At(options.version, options.tag, options.branch, options.as_of)


def _wanted(options: ReadOptions) -> Wanted:
    return Wanted(
        columns=options.columns,
        filter=options.filter,
        limit=options.limit,
        batch_size=options.batch_size,
        with_row_id=options.with_row_id,
        with_row_address=options.with_row_address,
        nearest=options.nearest,
        full_text=options.full_text,
    )


# -- the data source

NAME = "tiltyard"


class TiltyardSource(DataSource):
    """`spark.read.format("tiltyard")` and its counterparts.

    Spark makes one on the driver for every relation, asks it for the schema, and keeps it pickled:
    what `schema` pins then holds for every use of the relation, on every executor.
    """

    _scan: Scan | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from tiltyard.spark import stream_source

        if STREAM_ONLY.intersection(name.lower() for name in self.options):
            return stream_source.schema_of(StreamReadOptions.parse(self.options))
        self._scan = Scan.plan(ReadOptions.parse(self.options))
        return self._scan.schema

    def reader(self, schema: StructType) -> DataSourceReader:

        if self._scan is None:
            self._scan = Scan.with_schema(schema, ReadOptions.parse(self.options))
        return Reader(self._scan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tiltyard.spark.write import Writer

        return Writer(WriteOptions.parse(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from tiltyard.spark.stream_source import StreamReader

        return StreamReader(StreamReadOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from tiltyard.spark.stream_sink import StreamWriter

        return StreamWriter(StreamWriteOptions.parse(self.options), schema, overwrite)
