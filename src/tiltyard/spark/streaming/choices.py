"""The options of a stream that reads a table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from tiltyard.errors import InvalidInputError
from tiltyard.spark.options import Options
from tiltyard.spark.scan import READ_OPTIONS, ROWS_PER_BATCH, Scan, pin
from tiltyard.spark.target import TARGET_OPTIONS, Target
from tiltyard.spark.types import to_spark_schema
from tiltyard.tables.changes import CHANGE_FIELDS
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Wanted

EARLIEST = "earliest"
LATEST = "latest"
MOST_VERSIONS = 1000

# What only a stream knows.
STREAM_ONLY = frozenset(
    {
        "change_kinds",
        "fail_on_data_loss",
        "max_rows_per_batch",
        "max_versions_per_batch",
        "skip_changes",
        "starting_version",
    }
)
STREAM_OPTIONS = TARGET_OPTIONS | STREAM_ONLY | {"batch_size", "columns", "num_partitions"}


@dataclass(frozen=True)
class Choices:
    """What a stream brings, where it starts, and how much it takes at once."""

    starting: int | str = EARLIEST
    columns: tuple[str, ...] | None = None
    change_kinds: bool = False
    skip_changes: bool = False
    fail_on_data_loss: bool = True
    most_versions: int = MOST_VERSIONS
    most_rows: int | None = None
    num_partitions: int | None = None
    batch_size: int = ROWS_PER_BATCH

    @classmethod
    def parse(cls, options: Options) -> Choices:
        for name in sorted(READ_OPTIONS - STREAM_OPTIONS):
            if name in options:
                raise InvalidInputError(
                    f"option {name!r} has no meaning in a stream",
                    hint="a stream brings every row of every version; filter its DataFrame",
                )
        options.refuse_unknown(STREAM_OPTIONS)
        columns = options.names("columns")
        chosen = cls(
            starting=_starting(options),
            columns=None if columns is None else tuple(columns),
            change_kinds=options.boolean("change_kinds"),
            skip_changes=options.boolean("skip_changes"),
            fail_on_data_loss=options.boolean("fail_on_data_loss", True),
            most_versions=options.integer("max_versions_per_batch", least=1) or MOST_VERSIONS,
            most_rows=options.integer("max_rows_per_batch", least=1),
            num_partitions=options.integer("num_partitions", least=1),
            batch_size=options.integer("batch_size", least=1) or ROWS_PER_BATCH,
        )
        if chosen.change_kinds and chosen.skip_changes:
            raise InvalidInputError(
                "change_kinds brings changes and skip_changes leaves them out",
                hint="choose one of them",
            )
        return chosen


def _starting(options: Options) -> int | str:
    text = (options.text("starting_version") or EARLIEST).strip().lower()
    if text in (EARLIEST, LATEST):
        return text
    if not text.isdecimal() or int(text) < 1:
        raise InvalidInputError(
            f"option 'starting_version' can't be {text!r}",
            hint=f"a version from 1 on, {LATEST!r}, or {EARLIEST!r}",
        )
    return int(text)


def schema_of(target: Target, options: Options) -> StructType:
    """The columns that a stream brings: those of the table as it is now, and what changed."""
    chosen = Choices.parse(options)
    wanted = Wanted(columns=chosen.columns)
    schema = Scan.of(pin(target, At()), wanted).schema
    if not chosen.change_kinds:
        return schema
    return StructType([*schema.fields, *to_spark_schema(pa.schema(CHANGE_FIELDS)).fields])
