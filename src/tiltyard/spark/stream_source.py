"""A stream of what comes into a table: each version becomes part of a micro-batch.

The driver reads what every version did and cuts it into shares; executors read the rows. A batch is
told by its two offsets alone, so it holds the same rows whenever it is replayed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
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
from tiltyard.spark.options import Options
from tiltyard.spark.scan import FEWEST_ROWS, pin
from tiltyard.spark.streaming.choices import EARLIEST, LATEST, Choices
from tiltyard.spark.streaming.offsets import Offset, Step, admit, between, shares
from tiltyard.spark.target import Target
from tiltyard.spark.types import to_spark_batch, wire_schema
from tiltyard.tables import changes, history
from tiltyard.tables.changes import CHANGE_TYPE, COMMIT_VERSION, Work
from tiltyard.tables.describe import At
from tiltyard.tables.history import Commit, Kind
from tiltyard.tables.scan import Snapshot

REMEMBERED = 10_000


@dataclass(frozen=True)
class Share:
    """What one task reads."""

    table: Snapshot
    work: tuple[Work, ...]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark asks on the driver, in one process for a query, and for rows on the executors."""

    def __init__(self, target: Target, schema: StructType, options: Options) -> None:
        self._target = target
        self._schema = schema
        self._options = options
        self._beginning: Offset | None = None
        self._last: int | None = None  # the version to stop at, if there is one
        self._newest = 0
        self._known: dict[tuple[str, int, bool], Commit] = {}

    # -- offsets

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        if self._beginning is None:
            self._beginning = self._where_to_begin()
        return self._beginning.as_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """As far as one batch may go. One look at the catalog, and at each new version."""
        done = Offset.parse(start)
        table = self._table()
        newest = self._newest
        self._check(done, table)
        chosen = self._chosen
        most_rows: int | None = None
        if not isinstance(limit, ReadAllAvailable):
            newest = min(newest, done.version + chosen.most_versions)
            most_rows = chosen.most_rows
        return admit(done, self._steps(table, done, newest), most_rows).as_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark can hand one limit back; `latestOffset` holds to both of ours."""
        chosen = self._chosen
        if chosen.most_rows is not None:
            return ReadMaxRows(chosen.most_rows)
        return ReadMaxFiles(chosen.most_versions)

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
        upto = Offset.parse(end)
        done = Offset.parse(start).start_of(upto)
        if done >= upto:
            return []
        table = self._table()
        last = upto.version + (1 if upto.pieces else 0)
        work = between(done, upto, self._steps(table, done, last))
        rows = sum(each.rows for each in work)
        cores = min(os.cpu_count() or 1, -(-rows // FEWEST_ROWS))
        count = self._chosen.num_partitions or max(1, cores)
        return [InputPartition(Share(table, share)) for share in shares(work, count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        share: Share | None = partition.value
        if share is None:
            return
        wire = wire_schema(self._schema)
        columns = [each for each in wire.names if each not in (CHANGE_TYPE, COMMIT_VERSION)]
        found = changes.read(
            share.table,
            share.work,
            columns,
            with_changes=self._chosen.change_kinds,
            batch_size=self._chosen.batch_size,
        )
        for batch in found:
            yield to_spark_batch(batch, wire)

    # -- what the versions did

    @cached_property
    def _chosen(self) -> Choices:
        return Choices.parse(self._options)

    def _table(self) -> Snapshot:
        """The table as it is now; a query that is to end sees no version that came since."""
        table = pin(self._target, At())
        newest = table.at.version or 0
        self._newest = newest if self._last is None else min(newest, self._last)
        return table

    def _where_to_begin(self) -> Offset:
        table = self._table()
        name, newest = _name(table), self._newest
        starting = self._chosen.starting
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
        if done.table != _name(table) or done.version > newest:
            raise InvalidTableStateError(
                f"{self._target.name} is not the table that this stream has read: it had version "
                f"{done.version}, and now there is another with version {newest}",
                hint="start a new query with a checkpoint of its own",
            )

    def _steps(self, table: Snapshot, done: Offset, last: int) -> list[Step]:
        commits = self._commits(table, done, last)
        plan = changes.all_changes if self._chosen.change_kinds else changes.inserts
        return [
            self._step(each, work, table) for each, work in zip(commits, plan(commits), strict=True)
        ]

    def _commits(self, table: Snapshot, done: Offset, last: int) -> list[Commit]:
        """What the versions after an offset did. Each is read once, as long as it is remembered."""
        versions = range(done.version + 1, last + 1)
        first = done.began if done.snapshot else None
        wanted = [(table.uri, each, each == first) for each in versions]
        if any(key not in self._known for key in wanted):
            if len(self._known) + len(wanted) > REMEMBERED:
                self._known.clear()
            missing = [key for key in wanted if key not in self._known]
            plain = [version for _, version, is_snapshot in missing if not is_snapshot]
            found = history.read_commits(table, plain)
            found += [history.read_snapshot(table, each[1]) for each in missing if each[2]]
            for each in found:
                self._known[table.uri, each.version, each.version == first] = each
        return [self._known[key] for key in wanted]

    def _step(self, commit: Commit, work: Sequence[Work], table: Snapshot) -> Step:
        chosen, version = self._chosen, commit.version
        is_gone = commit.kind is Kind.GONE or (chosen.change_kinds and commit.went is None)
        if is_gone:
            return Step(version, (), self._data_loss(version) if chosen.fail_on_data_loss else None)
        if commit.kind in (Kind.NOTHING, Kind.APPEND):
            return Step(version, work)
        if chosen.skip_changes:
            return Step(version)
        if not chosen.change_kinds:
            return Step(version, (), self._has_changed(commit))
        if commit.kind is Kind.UNKNOWN or (
            commit.kind is Kind.UPDATE and not table.open().has_stable_row_ids
        ):
            return Step(version, (), self._cannot_tell(commit))
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

    def _cannot_tell(self, commit: Commit) -> TiltyardError:
        return UnsupportedOperationError(
            f"which rows version {commit.version} of {self._target.name} changed can't be told: "
            f"{commit.operation}",
            hint="updates can be told in a table with stable row ids; skip_changes=true brings "
            "inserts alone",
        )


def _name(table: Snapshot) -> str:
    """What stays the same when a table is renamed, and differs in another of its name."""
    return table.uri.rstrip("/").rpartition("/")[2]
