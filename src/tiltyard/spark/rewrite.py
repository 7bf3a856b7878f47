"""How rows of a table are changed by many tasks in one commit.

Rows come with what is to be done and the address of the row that it is done to. All of a fragment
go to one task, which marks them as deleted in a file of its own and writes the rows that come
instead into new fragments. The driver commits all of it, or nothing.

An updated row is a new row to Lance: it gets a row id of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiltyard import names
from tiltyard.catalog.base import no_such_table
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, TiltyardError
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.spark.batches import fit_for
from tiltyard.spark.columns import Columns
from tiltyard.spark.target import Target
from tiltyard.spark.write import as_stored, write_files
from tiltyard.tables import rewrites
from tiltyard.tables.fragments import DEFAULT_LIMITS, FileLimits
from tiltyard.tables.rewrites import Kind, Rewrite
from tiltyard.tables.scan import ROWS_PER_ADDRESS

log = logging.getLogger(__name__)

T = TypeVar("T")

# How often a change begins anew after others committed first; the rows are computed again.
TRIES = 3

# The columns before those of the table.
OPERATION, ADDRESS = "__operation", "__address"
NOTHING, UPDATE, INSERT, DELETE = range(4)

_ANSWER = "kind string, text string, rows long"
_NEW, _TOUCHED, _TWICE = "new", "touched", "twice"


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of a table's rows, and the version that shows it."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class Job:
    """What every task has to know. `keys` must not come twice among the rows that are inserted."""

    target: Target
    pending: PendingWrite
    kind: Kind
    columns: Columns
    keys: tuple[str, ...] = ()
    predicate: str = ""
    limits: FileLimits = DEFAULT_LIMITS


def begin(target: Target) -> PendingWrite:
    """The table as it is now, which has to exist."""
    if target.id is None:
        raise InvalidInputError(
            f"rows of {target.name} can't be changed: it belongs to no catalog",
            hint="pass the option 'root' and the table's name",
        )
    pending = target.namespace().writes.begin(target.id, WriteMode.APPEND)
    if not pending.read_version:
        raise no_such_table(target.id)
    return pending


def persistently(change: Callable[[], T]) -> T:
    """Begin anew after a commit of others came first."""
    for attempt in range(TRIES - 1):
        try:
            return change()
        except ConcurrentModificationError as lost:
            log.info("try %d: %s", attempt + 1, lost)
    return change()


def rewrite(rows: DataFrame, job: Job) -> Changed:
    """Carry out what the rows say. Whatever goes wrong, no file that was written stays behind."""
    namespace = job.target.namespace()
    new: list[str] = []
    try:
        with fit_for(rows):
            answers = _spread(rows, job).mapInArrow(_task(job), _ANSWER).collect()
        twice = [each.text for each in answers if each.kind == _TWICE]
        if twice:
            raise InvalidInputError(
                f"two rows are to become one in table {names.display(job.pending.id)}: {twice[0]}",
                hint="leave one row for each key, for instance with dropDuplicates()",
            )
        new = [each.text for each in answers if each.kind == _NEW]
        touched = [each.text for each in answers if each.kind == _TOUCHED]
        done = [sum(e.rows for e in answers if e.kind == str(at)) for at in range(DELETE + 1)]
        version = job.pending.read_version
        if new or touched:
            change = Rewrite(job.kind, touched, new, job.predicate)
            version = namespace.writes.rewrite(job.pending, change).version
    except BaseException:
        _sweep(job, [], close=True)
        raise
    _sweep(job, new)
    return Changed(version, done[INSERT], done[UPDATE], done[DELETE])


def _sweep(job: Job, new: Sequence[str], *, close: bool = False) -> None:
    try:
        job.target.namespace().writes.sweep(job.pending, new, close=close)
    except TiltyardError as error:
        log.warning("could not remove what failed tasks left: %s", error)


def _spread(rows: DataFrame, job: Job) -> DataFrame:
    """All rows of a fragment in one task, and all that are inserted with the same key."""
    fragment = f.shiftright(f.col(ADDRESS), 32)
    keys = [f.col(f"`{key.replace('`', '``')}`") for key in job.keys]
    other = f.xxhash64(*keys) if keys else f.lit(0)
    return rows.repartition(f.coalesce(fragment, other))


def _task(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    return lambda batches: _Task(job).run(batches)


@dataclass
class _Task:
    """The rows of one task, on an executor."""

    job: Job
    counts: list[int] = field(default_factory=lambda: [0] * (DELETE + 1))
    addresses: list[pa.Array] = field(default_factory=list)
    inserted: list[pa.RecordBatch] = field(default_factory=list)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        answers = [(_NEW, text, 0) for text in self._write(batches)]
        twice = self._twice()
        if twice is not None:
            answers.append((_TWICE, twice, 0))
        else:
            answers += [(_TOUCHED, text, 0) for text in self._delete()]
        answers += [(str(at), "", count) for at, count in enumerate(self.counts) if count]
        if answers:
            kinds, texts, rows = zip(*answers, strict=True)
            yield pa.record_batch(
                [pa.array(kinds), pa.array(texts), pa.array(rows, pa.int64())],
                names=["kind", "text", "rows"],
            )

    def _write(self, batches: Iterable[pa.RecordBatch]) -> list[str]:
        coming = (each for each in map(self._sort, batches) if each is not None)
        first = next(coming, None)
        if first is None:
            return []
        rows = as_stored(_with_first(first, coming), self.job.columns)
        return write_files(self.job.target, self.job.pending, rows, self.job.limits)

    def _sort(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Note what goes, and return what comes."""
        operation = batch.column(OPERATION)
        for each in pc.value_counts(operation).to_pylist():
            self.counts[each["values"]] += each["counts"]
        self.addresses.append(batch.column(ADDRESS).filter(pc.not_equal(operation, INSERT)))
        coming = batch.filter(pc.not_equal(operation, DELETE))
        if self.job.keys and coming.num_rows:
            new = coming.filter(pc.equal(coming.column(OPERATION), INSERT))
            self.inserted.append(new.select(list(self.job.keys)))
        return coming if coming.num_rows else None

    def _twice(self) -> str | None:
        """What comes twice: an address of a row of the table, or a key that is inserted."""
        every = pa.chunked_array(self.addresses, pa.int64())
        if len(pc.unique(every)) < len(every):
            return "both belong to the same row"
        if not self.inserted:
            return None
        keys = pa.Table.from_batches(self.inserted).drop_null()
        counted = keys.group_by(list(self.job.keys)).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).drop(["count_all"])
        return str(twice.slice(0, 1).to_pylist()[0]) if twice.num_rows else None

    def _delete(self) -> list[str]:
        every = pa.chunked_array(self.addresses, pa.int64())
        numbers = pc.shift_right(every, 32)
        places = pc.bit_wise_and(every, ROWS_PER_ADDRESS - 1)
        found = pa.table({"number": numbers, "place": places})
        return [
            rewrites.delete_rows(
                self.job.pending,
                number,
                found.filter(pc.equal(found["number"], number))["place"].to_pylist(),
            )
            for number in sorted(pc.unique(numbers).to_pylist())
        ]


def _with_first(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
