"""Optimizing a table: few large files in place of many small ones, no rows that are only marked as
deleted, and every row in the indexes.

No row changes. Files that are replaced belong to older versions until those are cleaned up.
`Optimizer` does it in one process; `SplitCompaction` has the steps by which several processes
share the compaction of one table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import lance
from lance.optimize import CompactionOptions

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, TiltyardError
from tiltyard.maintenance import compaction
from tiltyard.maintenance.compaction import CompactionPart, PlannedCompaction, RewrittenPart
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.policy import auto_cleanup_warning

if TYPE_CHECKING:
    from lance.lance.indices import IndexDescription

log = logging.getLogger(__name__)

# How the names of indexes begin that Lance keeps for itself.
_SYSTEM_INDEX = "__lance"
NO_VERSION = "it has no version yet"
TOO_BIG = "it is too big for one process"


@dataclass(frozen=True, slots=True)
class OptimizeOptions:
    """What is worth rewriting: fragments with fewer rows than this, or with a larger share of
    deleted rows. None leaves it to the table's own `lance.compaction.*`, or to Lance."""

    target_rows_per_fragment: int | None = None
    deleted_share: float | None = None

    def __post_init__(self) -> None:
        if self.target_rows_per_fragment is not None and self.target_rows_per_fragment < 1:
            raise InvalidInputError("target_rows_per_fragment must be at least 1")
        if self.deleted_share is not None and not 0 <= self.deleted_share <= 1:
            raise InvalidInputError("deleted_share is a share, from 0 to 1")

    def for_lance(self, config: dict[str, str]) -> CompactionOptions:
        """Lance's options, given the table's config. Bytes are copied without decoding where files
        allow it, unless the table says otherwise."""
        chosen: dict[str, Any] = {
            "target_rows_per_fragment": self.target_rows_per_fragment,
            "materialize_deletions_threshold": self.deleted_share,
        }
        if "lance.compaction.compaction_mode" not in config:
            chosen["compaction_mode"] = "try_binary_copy"
        given: Any = {name: value for name, value in chosen.items() if value is not None}
        options: CompactionOptions = given
        return options


@dataclass(frozen=True, slots=True)
class Optimized:
    """What was done to one table, or would be. `committed` tells whether it has a new version,
    `skipped` why nothing was done; a `warning` is about its settings."""

    table: str
    fragments_removed: int = 0
    fragments_added: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    bytes_rewritten: int = 0
    version: int | None = None
    committed: bool = False
    skipped: str | None = None
    warning: str | None = None
    error: str | None = None


class Optimizer:
    """Optimizes tables of one catalog, one at a time."""

    def __init__(
        self, maintenance: MaintenanceContext, options: OptimizeOptions | None = None
    ) -> None:
        self._maintenance = maintenance
        self._context = maintenance.context
        self._options = options or OptimizeOptions()

    def plan(self, id: TableId) -> Optimized:
        """What would be compacted now, and how many bytes would be rewritten. Changes nothing."""
        table = self._context.catalog.find(id)
        row = Optimized(names.dotted(id))
        if self._context.catalog.latest(table) is None:
            return replace(row, skipped=NO_VERSION)
        try:
            dataset = self._maintenance.client(table).open()
            files, size = _measure(dataset)
            planned = compaction.plan(dataset, id, self._options.for_lance(dataset.config()))
        except FAILURES as error:
            raise self._context.lance.explain(error, f"plan for {names.display(id)}") from error
        return replace(
            row,
            fragments_removed=sum(len(part.task.fragments) for part in planned.parts),
            files_before=files,
            bytes_before=size,
            bytes_rewritten=planned.bytes,
            version=dataset.version,
            warning=auto_cleanup_warning(dataset),
        )

    def run(self, id: TableId, most_bytes: int | None = None) -> Optimized:
        """Optimize one table. Without anything to do it costs no commit.

        A writer that changes the same rows meanwhile wins, and the work is done again;
        ConcurrentModificationError if that happens too often. A compaction of several parts that
        would rewrite more than `most_bytes` is skipped: `TOO_BIG`.
        """
        self._context.store.require_conditions()
        retry = self._maintenance.retry
        row = Optimized(names.dotted(id))
        with self._maintenance.lock_table(id):
            for _ in retry:
                table = self._context.catalog.find(id)
                if self._context.catalog.latest(table) is None:
                    return replace(row, skipped=NO_VERSION)
                try:
                    return _Attempt(self._maintenance, table, self._options, row, most_bytes).run()
                except _OvertakenError as overtaken:
                    row = overtaken.row
                    log.info("table %s: another writer was first", names.display(id))
        raise ConcurrentModificationError(
            f"others changed table {names.display(id)} first, {retry.attempts} times in a row",
            hint="nothing is broken; optimize it when it is written to less",
        )


class _OvertakenError(Exception):
    """Another writer has changed the same rows first. `row` has what was committed before that."""

    def __init__(self, row: Optimized) -> None:
        super().__init__()
        self.row = row


class _Attempt:
    """One attempt to optimize a table, from the version that is the latest when it begins."""

    def __init__(
        self,
        maintenance: MaintenanceContext,
        table: Table,
        options: OptimizeOptions,
        row: Optimized,
        most_bytes: int | None,
    ) -> None:
        self._maintenance = maintenance
        self._table = table
        self._options = options
        self._row = row
        self._most_bytes = most_bytes
        self._version = 0
        self._uncommitted: set[str] = set()

    def run(self) -> Optimized:
        client = self._maintenance.client(self._table)
        try:
            with client.raising_refusals():
                dataset = client.open()
                self._version = dataset.version
                if not self._row.committed:
                    files, size = _measure(dataset)
                    warning = auto_cleanup_warning(dataset)
                    self._row = replace(
                        self._row, files_before=files, bytes_before=size, warning=warning
                    )
                self._update_indexes(dataset)
                dataset = self._compact(dataset)
        except (*FAILURES, TiltyardError) as error:
            doing = f"optimize table {names.display(self._table.id)}"
            ours = self._maintenance.context.lance.explain(error, doing)
            overtaken = isinstance(ours, ConcurrentModificationError)
            compaction.discard(
                self._maintenance,
                self._table.location,
                self._version,
                self._uncommitted,
                certain=overtaken and not client.in_doubt,
            )
            if overtaken:
                raise _OvertakenError(self._row) from error
            raise ours from error
        files, size = _measure(dataset)
        return replace(self._row, files_after=files, bytes_after=size, version=dataset.version)

    def _update_indexes(self, dataset: lance.LanceDataset) -> None:
        """Before the compaction: Lance joins no fragment that is in an index with one that is
        not."""
        outdated = _outdated_indexes(dataset)
        if outdated:
            dataset.optimize.optimize_indices(index_names=outdated)
            self._row = replace(self._row, committed=True)

    def _compact(self, dataset: lance.LanceDataset) -> lance.LanceDataset:
        """Rewrite and commit all parts; returns the table as it is after that."""
        options = self._options.for_lance(dataset.config())
        planned = compaction.plan(dataset, self._table.id, options)
        if not planned.parts:
            return dataset
        is_big = self._most_bytes is not None and planned.bytes > self._most_bytes
        if is_big and len(planned.parts) > 1:
            self._row = replace(self._row, skipped=TOO_BIG)
            return dataset
        rewritten: list[RewrittenPart] = []
        for part in planned.parts:
            rewritten.append(RewrittenPart(part.task.execute(dataset)))
            self._uncommitted |= rewritten[-1].files
        dataset = compaction.commit(dataset, rewritten, options)
        self._uncommitted = set()
        self._row = _compacted(self._row, planned, rewritten)
        return dataset


class SplitCompaction:
    """The steps by which several processes share the compaction of one table: plan, execute each
    part, commit. Executing a part twice leaves files that nothing refers to, and no other harm.

    Indexes are for the `Optimizer`.
    """

    def __init__(
        self, maintenance: MaintenanceContext, options: OptimizeOptions | None = None
    ) -> None:
        self._maintenance = maintenance
        self._context = maintenance.context
        self._options = options or OptimizeOptions()

    def plan(self, id: TableId) -> PlannedCompaction:
        """The parts of the latest version. ConcurrentModificationError if an operation of several
        steps on the table has not ended."""
        self._context.store.require_conditions()
        self._maintenance.recovery.require_uncovered([id])
        table = self._context.catalog.find(id)
        try:
            dataset = self._maintenance.client(table).open()
            return compaction.plan(dataset, id, self._options.for_lance(dataset.config()))
        except FAILURES as error:
            doing = f"plan the compaction of table {names.display(id)}"
            raise self._context.lance.explain(error, doing) from error

    def execute(self, part: CompactionPart) -> RewrittenPart:
        """Write the files of one part, from the version that was planned for."""
        table = self._context.catalog.find(part.table)
        try:
            dataset = self._maintenance.client(table).open(part.version)
            return RewrittenPart(part.task.execute(dataset))
        except FAILURES as error:
            doing = f"compact a part of table {names.display(part.table)}"
            raise self._context.lance.explain(error, doing) from error

    def commit(self, planned: PlannedCompaction, rewritten: Sequence[RewrittenPart]) -> Optimized:
        """Make all parts one version. ConcurrentModificationError if another writer changed the
        same rows since: then nothing was committed, and the new files are deleted."""
        table = self._context.catalog.find(planned.table)
        client = self._maintenance.client(table)
        try:
            with self._maintenance.lock_table(planned.table), client.raising_refusals():
                dataset = client.open(planned.version)
                options = self._options.for_lance(dataset.config())
                files, size = _measure(dataset)
                with compaction.covered(self._maintenance, table) as transaction:
                    dataset = compaction.commit(dataset, rewritten, options, transaction)
        except (*FAILURES, TiltyardError) as error:
            doing = f"compact table {names.display(planned.table)}"
            ours = self._context.lance.explain(error, doing)
            overtaken = isinstance(ours, ConcurrentModificationError)
            self.discard(planned, rewritten, certain=overtaken and not client.in_doubt)
            raise ours from error
        row = Optimized(names.dotted(planned.table), files_before=files, bytes_before=size)
        files, size = _measure(dataset)
        row = replace(row, files_after=files, bytes_after=size, version=dataset.version)
        return replace(_compacted(row, planned, rewritten), warning=auto_cleanup_warning(dataset))

    def discard(
        self, planned: PlannedCompaction, rewritten: Sequence[RewrittenPart], *, certain: bool
    ) -> None:
        """Remove what was written and not committed. `certain` says that no commit of it landed;
        otherwise files stay that a commit which was tried refers to."""
        location = self._context.catalog.find(planned.table).location
        files = {file for part in rewritten for file in part.files}
        compaction.discard(self._maintenance, location, planned.version, files, certain=certain)


def _compacted(
    row: Optimized, planned: PlannedCompaction, rewritten: Sequence[RewrittenPart]
) -> Optimized:
    """A row with what a committed compaction did."""
    metrics = [part.result.metrics for part in rewritten]
    return replace(
        row,
        committed=True,
        fragments_removed=row.fragments_removed + sum(part.fragments_removed for part in metrics),
        fragments_added=row.fragments_added + sum(part.fragments_added for part in metrics),
        bytes_rewritten=row.bytes_rewritten + planned.bytes,
    )


def _measure(dataset: lance.LanceDataset) -> tuple[int, int]:
    """How many files a reader of all rows opens, and the bytes of the data files among them."""
    fragments = [fragment.metadata for fragment in dataset.get_fragments()]
    files = [file for fragment in fragments for file in fragment.files]
    deletions = sum(fragment.deletion_file is not None for fragment in fragments)
    return len(files) + deletions, sum(file.file_size_bytes or 0 for file in files)


def _outdated_indexes(dataset: lance.LanceDataset) -> list[str]:
    """The indexes that lack fragments of the table."""
    present = {fragment.fragment_id for fragment in dataset.get_fragments()}
    return [index.name for index in user_indexes(dataset) if present - indexed_fragments(index)]


def user_indexes(dataset: lance.LanceDataset) -> Iterator[IndexDescription]:
    """The indexes of a table, without those that Lance keeps for itself."""
    for index in dataset.describe_indices():
        if not index.name.startswith(_SYSTEM_INDEX):
            yield index


def indexed_fragments(index: IndexDescription) -> set[int]:
    """The ids of the fragments that an index covers."""
    return {fragment for segment in index.segments for fragment in segment.fragment_ids}
