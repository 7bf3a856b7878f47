"""A stream into a table: each micro-batch is committed once, however often it is run.

The commit of a batch carries the ids of its query and of the batch. Before a batch is committed,
the versions since the last search are searched for the newest batch of the query; the numbers of
batches only grow, so that one decides. The commit is refused if any row was changed after the last
version that was searched: of two drivers, one of which was thought dead, the second then searches
again and finds the batch of the first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.lifecycle.writing import PendingWrite
from tiltyard.spark.options import StreamWriteOptions
from tiltyard.spark.path_table import PendingPathWrite
from tiltyard.spark.scan import pin
from tiltyard.spark.target import Target
from tiltyard.spark.write import Writer, logged, writes_of
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
class StreamMessage(WriterCommitMessage):
    """What one task wrote, for which query, and the write that all tasks of the batch share."""

    query: str
    pending: PendingWrite | PendingPathWrite
    schema: pa.Schema
    fragments: tuple[str, ...]


class StreamWriter(DataSourceStreamArrowWriter):
    """One micro-batch. Spark makes one writer to write it, and another to commit or abort it."""

    def __init__(self, options: StreamWriteOptions, schema: StructType, overwrite: bool) -> None:
        self._target = Target.of(options)
        self._writer = Writer(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamMessage:
        """On an executor: the rows of one task."""
        query = query_of_task()
        written = self._writer.write(iterator)
        return StreamMessage(query, self._writer.pending, self._writer.schema, written.fragments)

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


# By table and query: the last version that this process has searched for batches of the query, and
# the newest batch that it knows of.
searched: dict[tuple[str, str], tuple[int, int]] = {}
NO_BATCH = -1


@dataclass(frozen=True)
class _Batch:
    """A micro-batch whose rows are in files: what is to be committed, and its ids."""

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
        """What the tasks sent; None if no task sent anything."""
        sent = [message for message in messages if isinstance(message, StreamMessage)]
        if not sent:
            return None
        first = sent[0]
        fragments = tuple(text for message in sent for text in message.fragments)
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
            searched[table.uri, self.query] = version, self.number
            return
        raise ConcurrentModificationError(
            f"other commits to {self.target.name} came first, {TRIES} times",
            hint="restart the query: no row is lost, and none will be there twice",
        )

    def _newest_batch(self, table: Snapshot) -> int:
        """The newest batch of the query that is in the table. Searches no version twice."""
        after, known = searched.get((table.uri, self.query), (0, NO_BATCH))
        commit = history.find_commit(table, QUERY, self.query, after)
        newest = known if commit is None else int(commit[1][BATCH])
        searched[table.uri, self.query] = table.at.version or 0, newest
        return newest

    def _finish(self, expected: int | None) -> int:
        finished = writes_of(self.target).finish(
            self.pending,
            self.fragments,
            self.schema,
            transaction_properties={QUERY: self.query, BATCH: str(self.number)},
            expected_version=expected,
        )
        return finished if isinstance(finished, int) else int(finished.version)

    def abandon(self) -> None:
        with logged(f"remove files of batch {self.number}"):
            writes_of(self.target).abandon(self.pending, self.fragments)

    def sweep(self, *, close: bool = False) -> None:
        """Remove what tasks left that were killed, or were not the first to end; `close` tells
        tasks that still run to remove what they wrote."""
        with logged(f"remove files that failed tasks of batch {self.number} left"):
            writes_of(self.target).sweep(self.pending, self.fragments, close=close)


def query_of_task() -> str:
    """The id of the query that this task belongs to."""
    task = TaskContext.get()
    query = task.getLocalProperty(_QUERY_ID) if task is not None else None
    if not query:
        raise InvalidInputError(
            "it is not known which query this batch belongs to, so it could not be committed once",
            hint="a stream is started by writeStream.start(), in micro-batches",
        )
    return query
