"""The compaction of one table in parts: planned once, each part executed anywhere, committed once.

Executing a part commits nothing. The commit names the version that was planned for, so a change to
the same rows in between is a conflict, and rows that were deleted never come back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import lance
from lance.optimize import (
    Compaction,
    CompactionOptions,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)

from tiltyard.catalog.base import Table
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES
from tiltyard.catalog.version_files import Naming
from tiltyard.errors import TiltyardError
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind
from tiltyard.tables.fragments import abandon

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CompactionPart:
    """Some fragments of a table that are rewritten together. Picklable."""

    table: TableId
    version: int
    task: CompactionTask
    bytes: int


@dataclass(frozen=True)
class PlannedCompaction:
    """All parts of a compaction of one table, and the version that they were planned for."""

    table: TableId
    version: int
    parts: tuple[CompactionPart, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


@dataclass(frozen=True)
class RewrittenPart:
    """The new files of one part, which no version refers to yet. Picklable."""

    result: RewriteResult

    @property
    def files(self) -> set[str]:
        return {file.path for new in self.result.new_fragments for file in new.files}


def plan(
    dataset: lance.LanceDataset, table: TableId, options: CompactionOptions
) -> PlannedCompaction:
    """What Lance would compact in a version of a table; no parts if that is nothing."""
    planned: CompactionPlan = Compaction.plan(dataset, options)
    parts = (
        CompactionPart(
            table,
            dataset.version,
            task,
            sum(file.file_size_bytes or 0 for old in task.fragments for file in old.files),
        )
        for task in planned.tasks
    )
    return PlannedCompaction(table, dataset.version, tuple(parts))


def commit(
    dataset: lance.LanceDataset,
    rewritten: Sequence[RewrittenPart],
    options: CompactionOptions,
    transaction: str | None = None,
) -> lance.LanceDataset:
    """Make the rewritten parts the next version, from the version that `dataset` has open.

    With an index, Lance first reserves ids for the new fragments by a commit of its own, because
    the index has to name them. Without one, a single commit assigns them, and carries the given
    `transaction`.
    """
    results = [part.result for part in rewritten]
    if dataset.describe_indices():
        Compaction.commit(dataset, results, options)
        return dataset
    groups = [
        lance.LanceOperation.RewriteGroup(
            result.original_fragments,  # type: ignore[attr-defined] # its stub has another name
            result.new_fragments,
        )
        for result in results
    ]
    operation = lance.LanceOperation.Rewrite(groups, [])
    planned = lance.Transaction(dataset.version, operation, uuid=transaction or str(uuid4()))
    return lance.LanceDataset.commit(dataset, planned)


@contextmanager
def covered(maintenance: MaintenanceContext, table: Table) -> Iterator[str]:
    """Keep a sidecar while a compaction is committed; yields the transaction for the commit.

    A recovery has nothing to undo, since no row changes whether the commit lands or not. Writers
    of the table wait while the sidecar exists, so it covers the commit alone.
    """
    head = maintenance.context.catalog.latest(table)
    number, naming = (0, Naming.NEWEST_FIRST) if head is None else (head.version, head.naming)
    sidecars = maintenance.recovery.sidecars
    change = CoveredTable(table.id, table.location, number, number, str(uuid4()), naming=naming)
    sidecar = sidecars.publishing(sidecars.arm(OperationKind.COMPACTION, [change]))
    try:
        yield change.transaction
    finally:
        sidecars.done(sidecar)


def discard(
    maintenance: MaintenanceContext, location: str, version: int, files: set[str], *, certain: bool
) -> None:
    """Remove files of a compaction from `version` that was not committed.

    `certain` says that no commit landed. Otherwise files stay that a commit which was tried refers
    to.
    """
    if not files:
        return
    store = maintenance.context.store
    try:
        if certain:
            store.delete_many(f"{location}/data/{file}" for file in sorted(files))
        else:
            abandon(maintenance.context.lance, store, location, version, files)
    except (*FAILURES, TiltyardError) as error:
        log.warning("%s: files of a compaction are left over: %s", location, error)
