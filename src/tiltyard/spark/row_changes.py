"""Changing rows of a table by many tasks in one commit.

Each row of the input has an operation, the address of the table's row that it concerns, and new
values. All rows for one fragment go to one task, which writes a deletion file for the fragment, and
new rows into new fragments. The driver commits all of it, or nothing.

An updated row is a new row to Lance: it gets a row id of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tiltyard.catalog import names
from tiltyard.catalog.base import no_such_table
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.spark.columns import Columns
from tiltyard.spark.session import bounded_batches
from tiltyard.spark.target import Target
from tiltyard.spark.types import quoted
from tiltyard.spark.write import as_stored, logged, write_files
from tiltyard.tables import rewrites
from tiltyard.tables.fragments import DEFAULT_LIMITS, FileLimits
from tiltyard.tables.rewrites import Kind, Rewrite
from tiltyard.tables.scan import ROWS_PER_ADDRESS

log = logging.getLogger(__name__)

T = TypeVar("T")

# How often a change starts over after another commit came first; its rows are computed again.
TRIES = 3

# The columns before those of the table.
OPERATION, ADDRESS = "__operation", "__address"
NOTHING, UPDATE, INSERT, DELETE = range(4)

# What a task sends back: rows of a kind, each with a text or a count.
_RESULT = "kind string, text string, rows long"
_NEW, _CHANGED, _DUPLICATE = "new fragment", "changed fragment", "duplicate"


@dataclass(frozen=True, slots=True)
class RowChanges:
    """How many rows of a table were changed, and the version that has the changes."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class ChangeJob:
    """What every task has to know. No two rows with the same `keys` can be inserted."""

    target: Target
    pending: PendingWrite
    kind: Kind
    columns: Columns
    keys: tuple[str, ...] = ()
    predicate: str = ""
    limits: FileLimits = DEFAULT_LIMITS


def begin_change(target: Target) -> PendingWrite:
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


def retry_on_conflict(change: Callable[[], T]) -> T:
    """Run a change, and again after another commit came first."""
    for attempt in range(TRIES - 1):
        try:
            return change()
        except ConcurrentModificationError as lost:
            log.info("try %d: %s", attempt + 1, lost)
    return change()


def apply_changes(rows: DataFrame, job: ChangeJob) -> RowChanges:
    """Change the table as the rows say. Whatever fails, no file that was written stays behind."""
    new: list[str] = []
    try:
        with bounded_batches(rows):
            results = _spread(rows, job).mapInArrow(_task(job), _RESULT).collect()
        duplicates = [result.text for result in results if result.kind == _DUPLICATE]
        if duplicates:
            table = names.display(job.pending.id)
            raise InvalidInputError(
                f"two rows are to become one in table {table}: {duplicates[0]}",
                hint="leave one row for each key, for instance with dropDuplicates()",
            )
        new = [result.text for result in results if result.kind == _NEW]
        changed = [result.text for result in results if result.kind == _CHANGED]
        version = job.pending.read_version
        if new or changed:
            rewrite = Rewrite(job.kind, changed, new, job.predicate)
            version = job.target.namespace().writes.rewrite(job.pending, rewrite).version
    except BaseException:
        _sweep(job, [], close=True)
        raise
    _sweep(job, new)
    inserted, updated, deleted = (
        sum(result.rows for result in results if result.kind == str(operation))
        for operation in (INSERT, UPDATE, DELETE)
    )
    return RowChanges(version, inserted, updated, deleted)


def _sweep(job: ChangeJob, new: Sequence[str], *, close: bool = False) -> None:
    with logged("remove what failed tasks left"):
        job.target.namespace().writes.sweep(job.pending, new, close=close)


def _spread(rows: DataFrame, job: ChangeJob) -> DataFrame:
    """Bring all rows of a fragment into one task, and all that are inserted with the same key."""
    fragment = f.shiftright(f.col(ADDRESS), 32)
    keys = [f.col(quoted(key)) for key in job.keys]
    other = f.xxhash64(*keys) if keys else f.lit(0)
    return rows.repartition(f.coalesce(fragment, other))


def _task(job: ChangeJob) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    return lambda batches: _Task(job).run(batches)


@dataclass
class _Task:
    """The rows of one task, on an executor."""

    job: ChangeJob
    counts: list[int] = field(default_factory=lambda: [0] * (DELETE + 1))
    addresses: list[pa.Array] = field(default_factory=list)
    inserted: list[pa.RecordBatch] = field(default_factory=list)

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        results = [(_NEW, text, 0) for text in self._write(batches)]
        duplicate = self._duplicate()
        if duplicate is not None:
            results.append((_DUPLICATE, duplicate, 0))
        else:
            results += [(_CHANGED, text, 0) for text in self._delete()]
        counted = enumerate(self.counts)
        results += [(str(operation), "", count) for operation, count in counted if count]
        if results:
            kinds, texts, rows = zip(*results, strict=True)
            yield pa.record_batch(
                [pa.array(kinds), pa.array(texts), pa.array(rows, pa.int64())],
                names=["kind", "text", "rows"],
            )

    def _write(self, batches: Iterable[pa.RecordBatch]) -> list[str]:
        new = (batch for batch in map(self._take, batches) if batch is not None)
        first = next(new, None)
        if first is None:
            return []
        rows = as_stored(chain([first], new), self.job.columns)
        return write_files(self.job.target, self.job.pending, rows, self.job.limits)

    def _take(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Keep the addresses of rows to delete, and return the rows to write."""
        operation = batch.column(OPERATION)
        for counted in pc.value_counts(operation).to_pylist():
            self.counts[counted["values"]] += counted["counts"]
        self.addresses.append(batch.column(ADDRESS).filter(pc.not_equal(operation, INSERT)))
        new = batch.filter(pc.not_equal(operation, DELETE))
        if self.job.keys and new.num_rows:
            inserted = new.filter(pc.equal(new.column(OPERATION), INSERT))
            self.inserted.append(inserted.select(list(self.job.keys)))
        return new if new.num_rows else None

    def _duplicate(self) -> str | None:
        """What is there twice: an address of a row of the table, or a key that is inserted."""
        addresses = pa.chunked_array(self.addresses, pa.int64())
        if len(pc.unique(addresses)) < len(addresses):
            return "both belong to the same row"
        if not self.inserted:
            return None
        keys = pa.Table.from_batches(self.inserted).drop_null()
        counted = keys.group_by(list(self.job.keys)).aggregate([([], "count_all")])
        duplicates = counted.filter(pc.greater(counted["count_all"], 1)).drop(["count_all"])
        return str(duplicates.slice(0, 1).to_pylist()[0]) if duplicates.num_rows else None

    def _delete(self) -> list[str]:
        """The fragments as they are without the rows to delete."""
        addresses = pa.chunked_array(self.addresses, pa.int64())
        fragments = pc.shift_right(addresses, 32)
        offsets = pc.bit_wise_and(addresses, ROWS_PER_ADDRESS - 1)
        rows = pa.table({"fragment": fragments, "offset": offsets})
        return [
            rewrites.delete_rows(
                self.job.pending,
                fragment,
                rows.filter(pc.equal(rows["fragment"], fragment))["offset"].to_pylist(),
            )
            for fragment in sorted(pc.unique(fragments).to_pylist())
        ]
