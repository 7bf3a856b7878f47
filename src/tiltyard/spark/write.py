"""Writing a DataFrame into a table: executors write data files, the driver makes one commit.

Spark makes a `Writer` once, on the driver, and pickles it; each task writes with a copy of its own,
and commit and abort run in processes of their own too. So everything that they share is in the
`PendingWrite`, and in the messages of the tasks that count: what a retried or a speculative task
wrote besides is in no message, and never in a commit.

Only `append` and `overwrite` get as far as here. The other modes of Spark are options, or an
argument of `write`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.spark import columns
from tiltyard.spark.batches import fit_for
from tiltyard.spark.columns import Columns
from tiltyard.spark.jvm import shows_plans
from tiltyard.spark.options import Options, refuse_partial_write
from tiltyard.spark.plain import Directory, PlainWrite
from tiltyard.spark.target import TARGET_OPTIONS, Target
from tiltyard.spark.types import to_lance_batch
from tiltyard.spark.worker import settle
from tiltyard.tables import fragments
from tiltyard.tables.fragments import DEFAULT_LIMITS, FileLimits

log = logging.getLogger(__name__)

KNOWN = TARGET_OPTIONS | {
    "batch_size",
    "case_sensitive",
    "if_exists",
    "max_bytes_per_file",
    "max_rows_per_file",
    "mergeschema",
    "storage_version",
}

_IF_EXISTS = {
    "append": WriteMode.APPEND,
    "error": WriteMode.CREATE,
    "ignore": WriteMode.EXIST_OK,
}

# Spark's own words, and what its writer is told: whether to overwrite, and the option `if_exists`.
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
# The bytes of a decimal.
WIDEST = 16
# A batch of wide rows is large enough as it comes.
LARGE_BATCH = 4 * 1024 * 1024


def write(df: DataFrame, table: str, *, mode: str = "errorifexists", **options: Any) -> None:
    """Write a DataFrame in any of Spark's modes; `df.write` knows only append and overwrite.

    `options` are those of the data source: `root`, `mergeSchema`, `max_rows_per_file` and so on.
    """
    if mode.lower() not in _MODES:
        known = "append, overwrite, ignore, errorifexists"
        raise InvalidInputError(f"unknown mode {mode!r}", hint=f"one of {known}")
    known_to_spark, if_exists = _MODES[mode.lower()]
    if if_exists is not None:
        options["if_exists"] = if_exists
    _activate(df.sparkSession)
    with fit_for(df):
        df.write.format("tiltyard").mode(known_to_spark).options(**options).save(table)


def _activate(spark: SparkSession) -> None:
    """Spark looks for a Python source in the session of the thread, which a new thread lacks."""
    if shows_plans(spark):
        java = SparkSession._get_j_spark_session_class(spark._jvm)
        java.setActiveSession(spark._jsparkSession)


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """What one task wrote."""

    fragments: tuple[str, ...] = ()


class Writer(DataSourceArrowWriter):
    """One write of one DataFrame."""

    def __init__(
        self, target: Target, schema: StructType, overwrite: bool, options: Options
    ) -> None:
        options.refuse_unknown(KNOWN)
        refuse_partial_write(options)
        self._target = target
        self._limits = limits_of(options)
        self._rows_per_batch = options.integer("batch_size", ROWS_PER_BATCH, least=1) or 1
        pending = _begin(target, _mode(overwrite, options))
        self._columns = _choose(pending, schema, options)
        if self._columns.adds:
            pending = replace(pending, evolves=True)
        self._pending = pending

    @property
    def pending(self) -> PendingWrite | PlainWrite:
        """The write, as it began."""
        return self._pending

    @property
    def schema(self) -> pa.Schema:
        """The rows as they are stored."""
        return self._columns.schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """On an executor: one task's rows, in files of their own."""
        if self._pending.is_done:
            return Message()
        rows = as_stored(iterator, self._columns, self._rows_per_batch)
        return Message(tuple(write_files(self._target, self._pending, rows, self._limits)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, after all tasks."""
        written = _fragments(messages)
        if not self._pending.is_done and (written or self._pending.replaces):
            _finish(self._target, self._pending, written, self._columns.schema)
        self._sweep(written)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver: after a task failed for good, or after a commit that raised.

        The commit may have landed all the same, so only files that none can have are removed.
        """
        written = _fragments(messages)
        with _told("remove what was written"):
            if not isinstance(self._pending, PlainWrite):
                self._target.namespace().writes.abandon(self._pending, written)
            else:
                _directory(self._target).abandon(self._pending, written)
        self._sweep(written, close=True)

    def _sweep(self, written: Sequence[str], *, close: bool = False) -> None:
        """What tasks left that were killed, or were not the first to end."""
        if isinstance(self._pending, PlainWrite):
            return
        with _told("remove what failed tasks left"):
            self._target.namespace().writes.sweep(self._pending, written, close=close)


def write_files(
    target: Target,
    pending: PendingWrite | PlainWrite,
    rows: pa.RecordBatchReader,
    limits: FileLimits,
) -> list[str]:
    """On an executor: write rows into files that are known by name should it be killed."""
    settle()
    if isinstance(pending, PlainWrite):
        return fragments.write(pending, rows, limits)
    namespace = target.namespace()
    written = fragments.write(
        pending, rows, limits, note=lambda name: namespace.writes.note_file(pending, name)
    )
    if namespace.writes.is_closed(pending):  # the job failed while this task ran
        namespace.writes.abandon(pending, written)
        return []
    return written


def limits_of(options: Options) -> FileLimits:
    """How large files may get, from the options of a write."""
    return FileLimits(
        options.integer("max_rows_per_file", DEFAULT_LIMITS.rows, least=1) or 1,
        options.integer("max_bytes_per_file", DEFAULT_LIMITS.bytes, least=1) or 1,
        options.text("storage_version"),
    )


def as_stored(
    batches: Iterable[pa.RecordBatch], chosen: Columns, rows_per_batch: int = ROWS_PER_BATCH
) -> pa.RecordBatchReader:
    """Batches of Spark as the table stores them, small ones put together."""
    stored = (to_lance_batch(aligned(chosen.take(batch)), chosen.schema) for batch in batches)
    return pa.RecordBatchReader.from_batches(chosen.schema, _joined(stored, rows_per_batch))


def aligned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose numbers of 16 bytes lie where Lance expects them: elsewhere it panics.

    What comes from Spark is aligned to 8 bytes; such columns are copied, the others are not.
    """
    columns = [
        pa.concat_arrays([each, each.slice(0, 0)]) if _is_askew(each) else each
        for each in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _is_askew(column: pa.Array) -> bool:
    return _has_decimals(column.type) and any(
        each is not None and each.address % WIDEST for each in column.buffers()
    )


def _has_decimals(kind: pa.DataType) -> bool:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return pa.types.is_decimal(kind) or any(map(_has_decimals, inside))


def _joined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    small: list[pa.RecordBatch] = []
    waiting = 0
    for batch in batches:
        if not small and (batch.num_rows >= rows or batch.nbytes >= LARGE_BATCH):
            yield batch
            continue
        small.append(batch)
        waiting += batch.num_rows
        if waiting >= rows:
            yield pa.concat_batches(small)
            small, waiting = [], 0
    if small:
        yield pa.concat_batches(small)


def _mode(overwrite: bool, options: Options) -> WriteMode:
    if_exists = options.text("if_exists")
    if overwrite:
        if if_exists is not None:
            raise InvalidInputError(
                "the option 'if_exists' has no meaning in mode overwrite", hint="use mode append"
            )
        return WriteMode.OVERWRITE
    mode = _IF_EXISTS.get((if_exists or "append").strip().lower())
    if mode is None:
        raise InvalidInputError(
            f"option 'if_exists' must be one of {', '.join(_IF_EXISTS)}, not {if_exists!r}"
        )
    return mode


def _choose(pending: PendingWrite | PlainWrite, given: StructType, options: Options) -> Columns:
    case_sensitive = options.boolean("case_sensitive")
    merge = options.boolean("mergeSchema")
    if pending.schema is None or pending.is_done:
        return columns.for_new_table(given)
    if pending.mode is WriteMode.OVERWRITE:
        return columns.for_replacing(given, pending.schema, case_sensitive=case_sensitive)
    return columns.for_adding(given, pending.schema, merge=merge, case_sensitive=case_sensitive)


# -- a table of a catalog, or a path


def _directory(target: Target) -> Directory:
    assert target.path is not None
    return Directory(target.path, target.storage)


def _begin(target: Target, mode: WriteMode) -> PendingWrite | PlainWrite:
    if target.id is None:
        return _directory(target).begin(mode)
    return target.namespace().writes.begin(target.id, mode)


def _finish(
    target: Target,
    pending: PendingWrite | PlainWrite,
    written: Sequence[str],
    schema: pa.Schema,
) -> None:
    if isinstance(pending, PlainWrite):
        _directory(target).finish(pending, written, schema)
    else:
        target.namespace().writes.finish(pending, written, schema)


def _fragments(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    return [
        each for message in messages if isinstance(message, Message) for each in message.fragments
    ]


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """Tidying up is not worth a failed write: what goes wrong is only logged."""
    try:
        yield
    except TiltyardError as error:
        log.warning("could not %s: %s", doing, error)
