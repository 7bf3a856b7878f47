"""The compaction of one table in parts: planned once, executed anywhere, committed once.

Nothing that executes a part commits. The commit names the version that was planned from, so that a
change to the same rows in between is a conflict, and rows that were deleted never come back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import lance
from lance.fragment import FragmentMetadata
from lance.optimize import (
    Compaction,
    CompactionOptions,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)

from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES
from tiltyard.catalog.version_files import Naming
from tiltyard.errors import TiltyardError
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.sidecars import Covered, Kind
from tiltyard.names import TableId
from tiltyard.tables.fragments import abandon

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part:
    """Some fragments of a table that become others. Picklable."""

    table: TableId
    version: int
    task: CompactionTask
    bytes: int


@dataclass(frozen=True)
class Parts:
    """All that a compaction of a table has to do, from the version that it was planned for."""

    table: TableId
    version: int
    parts: tuple[Part, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(each.bytes for each in self.parts)


@dataclass(frozen=True)
class Written:
    """What became of one part: new files that no version has yet. Picklable."""

    result: RewriteResult

    @property
    def files(self) -> set[str]:
        return {file.path for new in self.result.new_fragments for file in new.files}


def parts_of(dataset: lance.LanceDataset, table: TableId, options: CompactionOptions) -> Parts:
    """The plan of Lance for a version of a table. No parts if there is nothing to do."""
    plan: CompactionPlan = Compaction.plan(dataset, options)
    parts = (Part(table, dataset.version, task, _size(task.fragments)) for task in plan.tasks)
    return Parts(table, dataset.version, tuple(parts))


def commit(
    dataset: lance.LanceDataset,
    written: Sequence[Written],
    options: CompactionOptions,
    transaction: str | None = None,
) -> lance.LanceDataset:
    """Make what was written the next version of the one that it was planned for.

    Lance reserves numbers for the new fragments by a commit of its own first, because indexes have
    to name them. Without an index the numbers can as well be given by the commit itself, and then
    it carries the given transaction.
    """
    results = [each.result for each in written]
    if dataset.describe_indices():
        Compaction.commit(dataset, results, options)
        return dataset
    groups = [
        lance.LanceOperation.RewriteGroup(
            each.original_fragments,  # type: ignore[attr-defined] # its stub has another name
            each.new_fragments,
        )
        for each in results
    ]
    operation = lance.LanceOperation.Rewrite(groups, [])
    planned = lance.Transaction(dataset.version, operation, uuid=transaction or str(uuid4()))
    return lance.LanceDataset.commit(dataset, planned)


@contextmanager
def covered(ground: Ground, table: Table) -> Iterator[str]:
    """A sidecar around a commit, which gives the transaction that the commit should carry.

    Rows stay as they are whatever of it lands, so a recovery has nothing to undo: it only tells.
    It is there as long as the commit takes, for it makes writers wait.
    """
    head = ground.catalog.latest(table)
    number, naming = (0, Naming.NEWEST_FIRST) if head is None else (head.version, head.naming)
    sidecars = ground.recovery.sidecars
    change = Covered(table.id, table.location, number, number, str(uuid4()), naming=naming)
    sidecar = sidecars.publishing(sidecars.arm(Kind.COMPACTION, [change]))
    try:
        yield change.transaction
    finally:
        sidecars.done(sidecar)


def discard(ground: Ground, location: str, base: int, files: set[str], *, surely: bool) -> None:
    """Remove files of a compaction that was not committed. Only its owner can have made them.

    If that is not sure, they stay where a commit that was tried names them.
    """
    if not files:
        return
    try:
        if surely:
            ground.store.delete_many(f"{location}/data/{each}" for each in sorted(files))
        else:
            abandon(ground.access, ground.store, location, base, files)
    except (*FAILURES, TiltyardError) as error:
        log.warning("%s: files of a compaction are left over: %s", location, error)


def _size(fragments: Sequence[FragmentMetadata]) -> int:
    return sum(file.file_size_bytes or 0 for each in fragments for file in each.files)
