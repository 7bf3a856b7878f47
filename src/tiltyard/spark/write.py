"""Writing a DataFrame into a table: executors write data files, the driver makes one commit.

Spark makes a `Writer` once, on the driver, and pickles it; each task writes with a copy of its own,
and commit and abort run in processes of their own too. So everything that they share is in the
`PendingWrite`, and in the messages of the tasks that count: what a retried or a speculative task
wrote besides is in no message, and never in a commit.

Of Spark's modes a data source is only asked for `append` and `overwrite`. The others are the option
`if_exists`, or an argument of `write`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.spark import columns
from tiltyard.spark.catalyst.jvm import activate
from tiltyard.spark.columns import Columns
from tiltyard.spark.options import ChangeOptions, WriteOptions
from tiltyard.spark.path_table import PathTable, PendingPathWrite
from tiltyard.spark.session import bounded_batches, freeze_gc
from tiltyard.spark.target import Target
from tiltyard.spark.types import to_lance_batch
from tiltyard.tables import fragments
from tiltyard.tables.fragments import DEFAULT_LIMITS, FileLimits

log = logging.getLogger(__name__)

_IF_EXISTS = {
    "append": WriteMode.APPEND,
    "error": WriteMode.CREATE,
    "ignore": WriteMode.EXIST_OK,
}

# Spark's modes: that of its writer, and the option `if_exists`.
_MODES = {
    "append": ("append", None),
    "overwrite": ("overwrite", None),
    "ignore": ("append", "ignore"),
    "errorifexists": ("append", "error"),
    "error": ("append", "error"),
    "default": ("append", "error"),
}

# Spark sends batches of some thousand rows, and each costs Lance some time.
ROWS_PER_BATCH = 64 * 1024
DECIMAL_BYTES = 16
# A batch of wide rows is large enough as it comes.
LARGE_BATCH = 4 * 1024 * 1024


def write(df: DataFrame, table: str, *, mode: str = "errorifexists", **options: Any) -> None:
    """Write a DataFrame in any of Spark's modes; `df.write` knows only append and overwrite.

    `options` are those of the data source: `root`, `mergeSchema`, `max_rows_per_file` and so on.
    """
    if mode.lower() not in _MODES:
        known = "append, overwrite, ignore, errorifexists"
        raise InvalidInputError(f"unknown mode {mode!r}", hint=f"one of {known}")
    spark_mode, if_exists = _MODES[mode.lower()]
    if if_exists is not None:
        options["if_exists"] = if_exists
    activate(df.sparkSession)
    with bounded_batches(df):
        df.write.format("tiltyard").mode(spark_mode).options(**options).save(table)


@dataclass(frozen=True)
class WriteMessage(WriterCommitMessage):
    """What one task wrote."""

    fragments: tuple[str, ...] = ()


class Writer(DataSourceArrowWriter):
    """One write of one DataFrame."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._target = Target.of(options)
        self._limits = limits_of(options)
        self._rows_per_batch = options.batch_size or ROWS_PER_BATCH
        pending = _begin(self._target, _mode(overwrite, options))
        self._columns = _columns(pending, schema, options)
        if self._columns.adds:
            pending = replace(pending, evolves=True)
        self._pending = pending

    @property
    def pending(self) -> PendingWrite | PendingPathWrite:
        """The write, as it began."""
        return self._pending

    @property
    def schema(self) -> pa.Schema:
        """The rows as they are stored."""
        return self._columns.schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteMessage:
        """On an executor: one task's rows, in files of their own."""
        if self._pending.is_done:
            return WriteMessage()
        rows = as_stored(iterator, self._columns, self._rows_per_batch)
        return WriteMessage(tuple(write_files(self._target, self._pending, rows, self._limits)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks."""
        written = _fragments(messages)
        if not self._pending.is_done and (written or self._pending.replaces):
            writes_of(self._target).finish(self._pending, written, self._columns.schema)
        self._sweep(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: after a task failed for good, or after a commit that raised.

        The commit may have landed all the same, so only files that none can have are removed.
        """
        written = _fragments(messages)
        with logged("remove what was written"):
            writes_of(self._target).abandon(self._pending, written)
        self._sweep(written, close=True)

    def _sweep(self, written: Sequence[str], *, close: bool = False) -> None:
        """Remove what tasks left that were killed, or were not the first to end."""
        with logged("remove what failed tasks left"):
            writes_of(self._target).sweep(self._pending, written, close=close)


def write_files(
    target: Target,
    pending: PendingWrite | PendingPathWrite,
    rows: pa.RecordBatchReader,
    limits: FileLimits,
) -> list[str]:
    """On an executor: write rows into files. Each is noted by name, in case this task is killed."""
    freeze_gc()
    if isinstance(pending, PendingPathWrite):
        return fragments.write(pending, rows, limits)
    writes = target.namespace().writes
    written = fragments.write(
        pending, rows, limits, note=lambda name: writes.note_file(pending, name)
    )
    if writes.is_closed(pending):  # the job failed while this task ran
        writes.abandon(pending, written)
        return []
    return written


def limits_of(options: ChangeOptions) -> FileLimits:
    """How large files may get, from the options of a write."""
    return FileLimits(
        options.max_rows_per_file or DEFAULT_LIMITS.rows,
        options.max_bytes_per_file or DEFAULT_LIMITS.bytes,
        options.storage_version if isinstance(options, WriteOptions) else None,
    )


def as_stored(
    batches: Iterable[pa.RecordBatch], chosen: Columns, rows_per_batch: int = ROWS_PER_BATCH
) -> pa.RecordBatchReader:
    """Batches of Spark as the table stores them, small ones combined."""
    stored = (to_lance_batch(aligned(chosen.take(batch)), chosen.schema) for batch in batches)
    return pa.RecordBatchReader.from_batches(chosen.schema, _combined(stored, rows_per_batch))


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose decimals are aligned to 16 bytes: Lance panics over others.

    What comes from Spark is aligned to 8 bytes; such columns are copied, the others are not.
    """
    columns = [
        pa.concat_arrays([column, column.slice(0, 0)]) if _is_unaligned(column) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_unaligned(column: pa.Array) -> bool:
    return _has_decimals(column.type) and any(
        buffer is not None and buffer.address % DECIMAL_BYTES for buffer in column.buffers()
    )


def _has_decimals(kind: pa.DataType) -> bool:
    inner = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimals, inner))


def _combined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    small: list[pa.RecordBatch] = []
    collected = 0
    for batch in batches:
        if not small and (batch.num_rows >= rows or batch.nbytes >= LARGE_BATCH):
            yield batch
            continue
        small.append(batch)
        collected += batch.num_rows
        if collected >= rows:
            yield pa.concat_batches(small)
            small, collected = [], 0
    if small:
        yield pa.concat_batches(small)


def _mode(overwrite: bool, options: WriteOptions) -> WriteMode:
    if not overwrite:
        return _IF_EXISTS[options.if_exists or "append"]
    if options.if_exists is not None:
        raise InvalidInputError(
            "the option 'if_exists' has no meaning in mode overwrite", hint="use mode append"
        )
    return WriteMode.OVERWRITE


def _columns(
    pending: PendingWrite | PendingPathWrite, given: StructType, options: WriteOptions
) -> Columns:
    case_sensitive, merge = options.case_sensitive, options.mergeschema
    if pending.schema is None or pending.is_done:
        return columns.for_new_table(given)
    if pending.mode is WriteMode.OVERWRITE:
        return columns.for_replacing(given, pending.schema, case_sensitive=case_sensitive)
    return columns.for_adding(given, pending.schema, merge=merge, case_sensitive=case_sensitive)


def _begin(target: Target, mode: WriteMode) -> PendingWrite | PendingPathWrite:
    if target.id is None:
        return _path_table(target).begin(mode)
    return target.namespace().writes.begin(target.id, mode)


def writes_of(target: Target) -> Any:
    """What finishes, abandons and sweeps writes of a table: its catalog's, or its directory's."""
    return _path_table(target) if target.id is None else target.namespace().writes


def _path_table(target: Target) -> PathTable:
    assert target.path is not None
    return PathTable(target.path, target.storage)


def _fragments(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [
        fragment
        for message in messages
        if isinstance(message, WriteMessage)
        for fragment in message.fragments
    ]


@contextmanager
def logged(doing: str) -> Iterator[None]:
    """Log an error instead of raising it: a write does not fail because files are left over."""
    try:
        yield
    except TiltyardError as error:
        log.warning("could not %s: %s", doing, error)
