"""A stream into a table: each micro-batch is committed once, however often it is run.

The commit of a batch carries the ids of its query and of the batch. Before a batch is committed,
the versions since the last look are searched for the newest batch of the query; batches of a query
only grow, so that one tells. The commit then counts only if no row was touched after the version up
to which was looked: whoever comes second, be it a driver that was thought dead, looks again and
finds the other's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tiltyard.errors import ConcurrentModificationError, InvalidInputError, TiltyardError
from tiltyard.lifecycle.writing import PendingWrite
from tiltyard.spark.options import Options
from tiltyard.spark.plain import Directory, PlainWrite
from tiltyard.spark.scan import pin
from tiltyard.spark.target import Target
from tiltyard.spark.write import Writer
from tiltyard.tables import history
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Snapshot

log = logging.getLogger(__name__)

QUERY = "tiltyard.stream.query"
BATCH = "tiltyard.stream.batch"
TRIES = 100

# Spark sets this for the tasks of a micro-batch; it stays the same as long as the checkpoint does.
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class Message(WriterCommitMessage):
    """What one task wrote, for which query, and what all tasks of the batch were told."""

    query: str
    pending: PendingWrite | PlainWrite
    schema: pa.Schema
    fragments: tuple[str, ...]


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch. Spark makes one of these to write it, and another to commit or abort it."""

    def __init__(
        self, target: Target, schema: StructType, overwrite: bool, options: Options
    ) -> None:
        self._target = target
        self._writer = Writer(target, schema, overwrite, _of_the_write(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Message:
        """On an executor: the rows of one task."""
        query = _query_of_this_task()
        written = self._writer.write(iterator)
        return Message(query, self._writer.pending, self._writer.schema, written.fragments)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, after all tasks: one commit, unless this batch has one already."""
        batch = _Batch.of(self._target, messages, batchId)
        if batch is not None:
            batch.commit()
            batch.sweep()

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: after a task failed for good, or after a commit that raised.

        The commit may have landed all the same, so only files that none can have are removed.
        """
        batch = _Batch.of(self._target, messages, batchId)
        if batch is not None:
            batch.abandon()
            batch.sweep(close=True)


# Up to which version this process has looked for a query's batches, and the newest it knows of.
_looked: dict[tuple[str, str], tuple[int, int]] = {}
NONE = -1


@dataclass(frozen=True)
class _Batch:
    """A micro-batch whose rows are in files: what is to be committed, and how it is known."""

    target: Target
    query: str
    number: int
    pending: Any
    schema: pa.Schema
    fragments: tuple[str, ...]

    @classmethod
    def of(
        cls, target: Target, messages: Sequence[WriterCommitMessage | None], number: int
    ) -> _Batch | None:
        """What the tasks sent; None if no task came so far as to send anything."""
        found = [each for each in messages if isinstance(each, Message)]
        if not found:
            return None
        first = found[0]
        fragments = tuple(text for each in found for text in each.fragments)
        return cls(target, first.query, number, first.pending, first.schema, fragments)

    def commit(self) -> None:
        if not self.fragments and not self.pending.replaces:
            return
        if not self.pending.read_version:  # there is no table yet, and one program can create it
            self._finish(None)
            return
        for _ in range(TRIES):
            table = pin(self.target, At())
            if self._newest_batch(table) >= self.number:
                log.info("batch %d of query %s is committed already", self.number, self.query)
                self.abandon()
                return
            try:
                version = self._finish(table.at.version)
            except ConcurrentModificationError:
                if pin(self.target, At()).at == table.at:
                    raise  # it was not another commit that came first
                continue
            _looked[table.uri, self.query] = version, self.number
            return
        raise ConcurrentModificationError(
            f"others committed to {self.target.name} first, {TRIES} times",
            hint="restart the query: no row is lost, and none will come twice",
        )

    def _newest_batch(self, table: Snapshot) -> int:
        """The newest batch of the query that is in the table. Looks at no version twice."""
        after, known = _looked.get((table.uri, self.query), (0, NONE))
        found = history.find_commit(table, QUERY, self.query, after)
        newest = known if found is None else int(found[1][BATCH])
        _looked[table.uri, self.query] = table.at.version or 0, newest
        return newest

    def _finish(self, expected: int | None) -> int:
        finished = self._writes.finish(
            self.pending,
            self.fragments,
            self.schema,
            transaction_properties={QUERY: self.query, BATCH: str(self.number)},
            expected_version=expected,
        )
        return finished if isinstance(finished, int) else int(finished.version)

    def abandon(self) -> None:
        self._tidy(lambda: self._writes.abandon(self.pending, self.fragments))

    def sweep(self, *, close: bool = False) -> None:
        """What tasks left that were killed, or were not the first to end; `close` tells those that
        still run to take back what they wrote."""
        if isinstance(self.pending, PendingWrite):
            self._tidy(lambda: self._writes.sweep(self.pending, self.fragments, close=close))

    def _tidy(self, remove: Callable[[], object]) -> None:
        """Tidying up is not worth a failed batch: what goes wrong is only logged."""
        try:
            remove()
        except TiltyardError as error:
            log.warning("could not remove files of batch %d: %s", self.number, error)

    @property
    def _writes(self) -> Any:
        if self.target.path is not None:
            return Directory(self.target.path, self.target.storage)
        return self.target.namespace().writes


def _of_the_write(options: Options) -> Options:
    """The options that a write of one batch knows."""
    if "if_exists" in options:
        raise InvalidInputError(
            "the option 'if_exists' has no meaning in a stream", hint="use another output mode"
        )
    return Options({name: value for name, value in options.items() if name not in _OF_SPARK})


_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def _query_of_this_task() -> str:
    task = TaskContext.get()
    query = task.getLocalProperty(_QUERY_ID) if task is not None else None
    if not query:
        raise InvalidInputError(
            "nothing tells which query this batch belongs to, so it could not be committed once",
            hint="a stream is started by writeStream.start(), in micro-batches",
        )
    return query
