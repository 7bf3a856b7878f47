"""A table as a stream: each version becomes part of a micro-batch.

The driver reads what every version changed and divides it among tasks; executors read the rows. Two
offsets determine a batch, so it has the same rows whenever it is replayed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from tiltyard.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableVersionNotFoundError,
    TiltyardError,
    UnsupportedOperationError,
)
from tiltyard.spark.options import EARLIEST, LATEST, StreamReadOptions
from tiltyard.spark.scan import FEWEST_ROWS, ROWS_PER_BATCH, Scan, pin
from tiltyard.spark.target import Target
from tiltyard.spark.types import to_spark_batch, to_spark_schema, wire_schema
from tiltyard.tables import changes, history
from tiltyard.tables.changes import (
    CHANGE_FIELDS,
    CHANGE_TYPE,
    COMMIT_VERSION,
    AddedRows,
    Work,
)
from tiltyard.tables.describe import At
from tiltyard.tables.history import Commit, Kind
from tiltyard.tables.scan import Snapshot, Wanted

MOST_COMMITS_KEPT = 10_000


def schema_of(options: StreamReadOptions) -> StructType:
    """The columns of a stream: those of the table as it is now, and those that tell changes."""
    snapshot = pin(Target.of(options), At())
    schema = Scan.of(snapshot, Wanted(columns=options.columns)).schema
    if not options.change_kinds:
        return schema
    return StructType([*schema.fields, *to_spark_schema(pa.schema(CHANGE_FIELDS)).fields])


@dataclass(frozen=True)
class StreamPartition:
    """What one task reads."""

    table: Snapshot
    work: tuple[Work, ...]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets and partitions on the driver, in one process for a query; rows on the executors."""

    def __init__(self, options: StreamReadOptions, schema: StructType) -> None:
        self._target = Target.of(options)
        self._schema = schema
        self._options = options
        self._beginning: Offset | None = None
        self._last: int | None = None  # the version to stop at, if there is one
        self._newest = 0
        self._known: dict[tuple[str, int, bool], Commit] = {}

    # -- offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._beginning is None:
            self._beginning = self._first_offset()
        return self._beginning.as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch. Reads the catalog once, and each new version once."""
        done = Offset.parse(start)
        table = self._table()
        newest = self._newest
        self._check(done, table)
        most_rows: int | None = None
        if not isinstance(limit, ReadAllAvailable):
            newest = min(newest, done.version + self._options.max_versions_per_batch)
            most_rows = self._options.max_rows_per_batch
        return end_of_batch(done, self._steps(table, done, newest), most_rows).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark passes one limit back; `latestOffset` applies both of ours."""
        if self._options.max_rows_per_batch is not None:
            return ReadMaxRows(self._options.max_rows_per_batch)
        return ReadMaxFiles(self._options.max_versions_per_batch)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The newest version that was seen; for the progress that Spark reports."""
        if self._beginning is None and not self._newest:
            return None
        return {"version": self._newest}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._table()
        self._last = self._newest

    # -- rows

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = Offset.parse(end)
        done = Offset.parse(start).start_of(until)
        if done >= until:
            return []
        table = self._table()
        last = until.version + (1 if until.pieces else 0)
        work = work_between(done, until, self._steps(table, done, last))
        rows = sum(piece.rows for piece in work)
        cores = min(os.cpu_count() or 1, -(-rows // FEWEST_ROWS))
        count = self._options.num_partitions or max(1, cores)
        return [InputPartition(StreamPartition(table, share)) for share in divide(work, count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        share: StreamPartition | None = partition.value
        if share is None:
            return
        wire = wire_schema(self._schema)
        columns = [name for name in wire.names if name not in (CHANGE_TYPE, COMMIT_VERSION)]
        batches = changes.read(
            share.table,
            share.work,
            columns,
            with_changes=self._options.change_kinds,
            batch_size=self._options.batch_size or ROWS_PER_BATCH,
        )
        for batch in batches:
            yield to_spark_batch(batch, wire)

    # -- what the versions changed

    def _table(self) -> Snapshot:
        """The table as it is now; a query that is to end sees no version that came after."""
        table = pin(self._target, At())
        newest = table.at.version or 0
        self._newest = newest if self._last is None else min(newest, self._last)
        return table

    def _first_offset(self) -> Offset:
        table = self._table()
        name, newest = _identity(table), self._newest
        starting = self._options.starting_version
        if starting == EARLIEST:
            return Offset.beginning(newest, name, snapshot=True)
        if starting == LATEST:
            return Offset.beginning(newest + 1, name)
        first = int(starting)
        if first > newest + 1:
            raise InvalidInputError(
                f"{self._target.name} has no version {first} yet, but {newest}",
                hint=f"start at {newest + 1} or before, or at {LATEST!r}",
            )
        return Offset.beginning(first, name)

    def _check(self, done: Offset, table: Snapshot) -> None:
        newest = table.at.version or 0
        if done.table != _identity(table) or done.version > newest:
            raise InvalidTableStateError(
                f"{self._target.name} is not the table that this stream has read: it had version "
                f"{done.version}, and now there is another with version {newest}",
                hint="start a new query with a checkpoint of its own",
            )

    def _steps(self, table: Snapshot, done: Offset, last: int) -> list[Step]:
        commits = self._commits(table, done, last)
        plan = changes.all_changes if self._options.change_kinds else changes.inserts
        return [
            self._step(commit, work, table)
            for commit, work in zip(commits, plan(commits), strict=True)
        ]

    def _commits(self, table: Snapshot, done: Offset, last: int) -> list[Commit]:
        """What the versions after an offset changed. Each is read once, while it is kept."""
        versions = range(done.version + 1, last + 1)
        first = done.began if done.snapshot else None
        wanted = [(table.uri, version, version == first) for version in versions]
        if any(key not in self._known for key in wanted):
            if len(self._known) + len(wanted) > MOST_COMMITS_KEPT:
                self._known.clear()
            missing = [key for key in wanted if key not in self._known]
            plain = [version for _, version, is_snapshot in missing if not is_snapshot]
            commits = history.read_commits(table, plain)
            commits += [
                history.read_snapshot(table, version)
                for _, version, is_snapshot in missing
                if is_snapshot
            ]
            for commit in commits:
                self._known[table.uri, commit.version, commit.version == first] = commit
        return [self._known[key] for key in wanted]

    def _step(self, commit: Commit, work: Sequence[Work], table: Snapshot) -> Step:
        options, version = self._options, commit.version
        is_gone = commit.kind is Kind.GONE or (options.change_kinds and commit.went is None)
        if is_gone:
            refusal = self._data_loss(version) if options.fail_on_data_loss else None
            return Step(version, (), refusal)
        if commit.kind in (Kind.NOTHING, Kind.APPEND):
            return Step(version, work)
        if options.skip_changes:
            return Step(version)
        if not options.change_kinds:
            return Step(version, (), self._has_changed(commit))
        if commit.kind is Kind.UNKNOWN or (
            commit.kind is Kind.UPDATE and not table.open().has_stable_row_ids
        ):
            return Step(version, (), self._unknown_changes(commit))
        return Step(version, work)

    # -- refusals

    def _data_loss(self, version: int) -> TiltyardError:
        return TableVersionNotFoundError(
            f"version {version} of {self._target.name} was cleaned up before this stream read it",
            hint="fail_on_data_loss=false goes on with the versions that are left; a new query "
            "starts with all rows that are there",
        )

    def _has_changed(self, commit: Commit) -> TiltyardError:
        return UnsupportedOperationError(
            f"version {commit.version} of {self._target.name} did not only add rows: "
            f"{commit.operation}",
            hint="skip_changes=true leaves such versions out, change_kinds=true brings what they "
            "changed",
        )

    def _unknown_changes(self, commit: Commit) -> TiltyardError:
        return UnsupportedOperationError(
            f"the rows that version {commit.version} of {self._target.name} changed are not known: "
            f"{commit.operation}",
            hint="updates are known in a table with stable row ids; skip_changes=true brings "
            "inserts alone",
        )


def _identity(table: Snapshot) -> str:
    """The directory of a table: a renamed table keeps it, another of its name has another."""
    return table.uri.rstrip("/").rpartition("/")[2]


# -- offsets: how far a stream has come, and how much makes a batch. No I/O.


@dataclass(frozen=True, order=True)
class Offset:
    """Everything up to `version` has been read, and so many pieces of the next one.

    The first version of the stream is `began`; as a snapshot it stands for all rows that it has.
    Both are part of the offset because Spark keeps no start of a first batch: when it is replayed,
    Spark asks again where the stream begins, and the answer may be another by then.
    """

    version: int
    pieces: int
    began: int
    snapshot: bool
    table: str

    @classmethod
    def beginning(cls, began: int, table: str, *, snapshot: bool = False) -> Offset:
        return cls(began - 1, 0, began, snapshot, table)

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Offset:
        try:
            return cls(**given)
        except TypeError:
            raise InvalidInputError(
                f"the checkpoint has an offset that is none of a Lance table: {dict(given)}",
                hint="was it made by a query over another source?",
            ) from None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def at(self, version: int, pieces: int = 0) -> Offset:
        return replace(self, version=version, pieces=pieces)

    def start_of(self, end: Offset) -> Offset:
        """Where a batch that ends at `end` starts, if Spark says that it starts here."""
        if (self.began, self.snapshot) == (end.began, end.snapshot):
            return self
        return Offset.beginning(end.began, end.table, snapshot=end.snapshot)


@dataclass(frozen=True)
class Step:
    """What is to be read of one version, or why the stream can't read past it."""

    version: int
    work: Sequence[Work] = ()
    refusal: TiltyardError | None = None

    @property
    def can_be_cut(self) -> bool:
        """Added rows may be in several batches; a change is in one."""
        return all(isinstance(piece, AddedRows) and not piece.mixed for piece in self.work)


def end_of_batch(start: Offset, steps: Sequence[Step], most_rows: int | None = None) -> Offset:
    """The end of a batch of about so many rows, and of one piece at least.

    It ends before a version that the stream can't read past. A refusal is raised only if that
    version is the first.
    """
    end, rows = start, 0
    for step in steps:
        if step.refusal is not None:
            if end == start:
                raise step.refusal
            return end
        done = end.pieces
        left = [piece.rows for piece in step.work[done:]]
        if not step.can_be_cut:
            left = [sum(left)]
        for taken, more in enumerate(left):
            if most_rows is not None and rows and rows + more > most_rows:
                return end.at(step.version - 1, done + taken)
            rows += more
        end = end.at(step.version)
    return end


def work_between(start: Offset, end: Offset, steps: Sequence[Step]) -> list[Work]:
    """What a batch reads: the steps are those from the version after `start` on."""
    work: list[Work] = []
    for step in steps:
        if step.refusal is not None:
            raise step.refusal
        pieces = list(step.work)
        if step.version == end.version + 1:
            pieces = pieces[: end.pieces]
        if step.version == start.version + 1:
            pieces = pieces[start.pieces :]
        work += pieces
    return work


def divide(work: Sequence[Work], count: int) -> list[tuple[Work, ...]]:
    """Divide work into at most so many shares of about equal numbers of rows, in order."""
    total = sum(piece.rows for piece in work)
    shares: list[list[Work]] = [[]]
    rows = 0
    for piece in work:
        if shares[-1] and len(shares) < count and rows * count >= total * len(shares):
            shares.append([])
        shares[-1].append(piece)
        rows += piece.rows
    return [tuple(share) for share in shares if share]
