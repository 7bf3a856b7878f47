"""Reading a table: what is read is settled once, on the driver; its pieces are read anywhere."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from tiltyard.errors import InvalidInputError
from tiltyard.spark.options import Options
from tiltyard.spark.target import TARGET_OPTIONS, Target
from tiltyard.spark.types import (
    bytes_of,
    check_schema,
    to_spark_batch,
    to_spark_schema,
    wire_schema,
)
from tiltyard.spark.worker import settle
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Piece, Snapshot, Wanted

READ_OPTIONS = TARGET_OPTIONS | {
    "as_of",
    "batch_size",
    "branch",
    "columns",
    "filter",
    "fragments_per_partition",
    "full_text",
    "limit",
    "nearest",
    "num_partitions",
    "tag",
    "version",
    "with_row_address",
    "with_row_id",
}

# Each batch costs both sides something, so wide rows come in large ones; several are on their way
# at once, so not in huge ones.
BATCH_BYTES = 8 * 1024 * 1024
FEWEST_ROWS_PER_BATCH, ROWS_PER_BATCH = 1024, 32 * 1024
ROW_BYTES = 8  # what Spark adds for each row to an estimate
# A task costs some hundredths of a second, so one of fewer rows does not pay; one of more holds
# back the cores that are done.
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
    def plan(cls, target: Target, options: Options) -> Scan:
        """Check the options, pin the version, and find out the schema."""
        options.refuse_unknown(READ_OPTIONS)
        partitions = options.integer("num_partitions", least=1)
        fragments = options.integer("fragments_per_partition", least=1)
        if partitions is not None and fragments is not None:
            raise InvalidInputError(
                "num_partitions and fragments_per_partition can't both be given"
            )
        return cls.of(pin(target, at_of(options)), wanted_of(options), partitions, fragments)

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
    def as_given(cls, schema: StructType, target: Target, options: Options) -> Scan:
        """A scan for a schema that Spark got elsewhere: of `SELECT ... FROM t WITH (...)`, of
        `read.schema(...)`. Spark then asks anew for each use, so the version has to be named."""
        options.refuse_unknown(READ_OPTIONS)
        if options.text("version") is None or options.text("columns") is not None:
            raise InvalidInputError(
                "a Lance table has a schema of its own",
                hint="read without a schema, and choose by 'columns'; or name the version, so "
                "that every use of the schema reads the same",
            )
        columns = {"columns": json.dumps(schema.names)}
        planned = cls.plan(target, Options({**options, **columns}))
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
        settle()
        # An empty table has no pieces, and Spark then asks for one partition without a value.
        return iter(()) if partition.value is None else self._scan.read(partition.value)


def pin(target: Target, at: At) -> Snapshot:
    """The version that is meant, fixed from now on."""
    if target.path is not None:
        return scan.snapshot_of_path(target.path, at, target.storage)
    assert target.id is not None
    return target.namespace().versions.snapshot_table(target.id, at)


def at_of(options: Options) -> At:
    return At(
        options.integer("version", least=1),
        options.text("tag"),
        options.text("branch"),
        options.time("as_of"),
    )


def wanted_of(options: Options) -> Wanted:
    columns = options.names("columns")
    return Wanted(
        columns=None if columns is None else tuple(columns),
        filter=options.text("filter"),
        limit=options.integer("limit", least=1),
        batch_size=options.integer("batch_size", least=1),
        with_row_id=options.boolean("with_row_id"),
        with_row_address=options.boolean("with_row_address"),
        nearest=_nearest(options),
        full_text=_full_text(options),
    )


def _nearest(options: Options) -> dict[str, object] | None:
    """A vector search, with the words of pylance: {"column": "v", "q": [0.1, 0.2], "k": 10}."""
    found = options.json("nearest")
    if found is None:
        return None
    if not isinstance(found, dict) or not {"column", "q"} <= found.keys():
        raise InvalidInputError(
            "option 'nearest' needs a column and a vector",
            hint='like {"column": "v", "q": [0.1, 0.2], "k": 10}',
        )
    return found


def _full_text(options: Options) -> str | dict[str, object] | None:
    """Words to search for, or a query as JSON: {"query": "words", "columns": ["title"]}."""
    text = options.text("full_text")
    if text is None or not text.lstrip().startswith("{"):
        return text
    found = options.json("full_text")
    if "query" not in found:
        raise InvalidInputError(
            "option 'full_text' needs a query", hint='like {"query": "words", "columns": ["a"]}'
        )
    return dict(found)
