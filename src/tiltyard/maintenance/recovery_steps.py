"""The steps of a recovery: observe the changes of an operation, decide, roll forward, roll back.

A change is known by its transaction, never by its version number: a head one above the base may be
the version of another writer. Each step may be done twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import lance

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.rows import TRANSACTION
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, TableNotFoundError, TiltyardError
from tiltyard.maintenance.sidecars import CoveredTable, Sidecar, SidecarState
from tiltyard.store import NotThere
from tiltyard.versions.base import NewVersion
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.lance_format import transaction_of
from tiltyard.versions.table_versions import TableVersions

log = logging.getLogger(__name__)

# How often Lance puts a fence on top of versions of others that came first.
FENCE_RETRIES = 8


# -- deciding: no requests


@dataclass(frozen=True, slots=True)
class Observation:
    """What was read of one table: its latest version, and who wrote the version of the change.

    `writer` is the transaction of that version, None if it does not exist; `undone` says that the
    version after it takes it back.
    """

    exists: bool
    head: int = 0
    writer: str | None = None
    undone: bool = False
    staged: bool = False


class ChangeState(StrEnum):
    """The state of one change of an operation."""

    LANDED = "landed"
    UNDONE = "undone"  # landed, and was taken back by a recovery
    TAKEN = "taken"  # another writer has its version number, so it never lands
    PASSED = "passed"  # its number is behind the head and the version deleted: it may have landed
    FREE = "free"  # it has not landed, and still can
    STUCK = "stuck"  # it has not landed, and its staged manifest is gone
    GONE = "gone"  # the table is


class Decision(StrEnum):
    """What a recovery does about an operation."""

    DONE = "done"  # all of it has landed
    FORWARD = "forward"  # let the rest land
    BACK = "back"  # take back what landed
    DISCARD = "discard"  # nothing has to be done


# A version that was deleted may have been the change: it is not undone.
_LANDED = (ChangeState.LANDED, ChangeState.PASSED)


def classify(covered: CoveredTable, seen: Observation) -> ChangeState:
    """The state of the change of one table."""
    if seen.writer == covered.transaction:
        return ChangeState.UNDONE if seen.undone else ChangeState.LANDED
    if seen.writer is not None:
        return ChangeState.TAKEN
    if not seen.exists or seen.head < covered.base_head:
        return ChangeState.GONE
    if seen.head > covered.base_head:
        return ChangeState.PASSED
    return ChangeState.FREE if seen.staged else ChangeState.STUCK


def decide(sidecar: Sidecar, changes: Sequence[ChangeState]) -> Decision:
    """What to do about an operation, given the states of all of its changes.

    An operation whose changes have all landed is done, whatever the sidecar says. A compaction that
    landed in part is left as it is, since no row differs.
    """
    if all(change in _LANDED for change in changes):
        return Decision.DONE
    if sidecar.kind.preserves_rows or not sidecar.published:
        return Decision.DISCARD
    can_land = all(change in (*_LANDED, ChangeState.FREE) for change in changes)
    if can_land and sidecar.state is SidecarState.PUBLISHING:
        return Decision.FORWARD
    return Decision.BACK


def undo_transaction(operation: str, location: str) -> str:
    """The transaction that takes back the change of one table: the same, whoever makes it."""
    return str(uuid5(NAMESPACE_OID, f"tiltyard undo {operation} {location}"))


def fence_transaction(operation: str, location: str) -> str:
    """The transaction that keeps the change of one table from landing any more."""
    return str(uuid5(NAMESPACE_OID, f"tiltyard fence {operation} {location}"))


# -- reading and committing


class RecoverySteps:
    """Observes, rolls forward and rolls back operations on the tables of one catalog."""

    def __init__(
        self,
        context: CatalogContext,
        versions: TableVersions,
        client: Callable[[Table], CommitClient],
    ) -> None:
        self._context = context
        self._versions = versions
        self._client = client

    def observe(self, sidecar: Sidecar) -> tuple[Sequence[Observation], Sequence[ChangeState]]:
        """What is to be seen of the tables of an operation, and the states of its changes."""
        seen = [self._observe(sidecar, covered) for covered in sidecar.tables]
        return seen, [classify(*pair) for pair in zip(sidecar.tables, seen, strict=True)]

    def _observe(self, sidecar: Sidecar, covered: CoveredTable) -> Observation:
        # The staged manifest first: it is deleted after its version was made.
        staged = covered.staged is not None and self._exists(covered.staged)
        table = self._find(covered)
        writer = self._writer(table, covered, covered.version)
        undone = False
        if writer == covered.transaction:
            after = self._writer(table, covered, covered.version + 1)
            undone = after == undo_transaction(sidecar.operation, covered.location)
        latest = None if table is None else self._versions.latest(table.id)
        head = latest.version if latest else 0
        return Observation(table is not None, head, writer, undone, staged)

    def _exists(self, key: str) -> bool:
        try:
            self._context.store.head(key)
        except NotThere:
            return False
        return True

    def _find(self, covered: CoveredTable) -> Table | None:
        """The table at its location, whatever its name is now."""
        try:
            table = self._context.catalog.find(covered.id)
        except TiltyardError:
            table = None
        if table is not None and table.location == covered.location:
            return table
        return self._context.manifest.table_at(covered.location)

    def _writer(self, table: Table | None, covered: CoveredTable, version: int) -> str | None:
        """The transaction of a version, None if there is no such version."""
        if table is not None and table.managed:
            row = self._context.manifest.read().version_row(names.object_id(table.id), version)
            if row is None or TRANSACTION in row.metadata:
                return None if row is None else row.metadata[TRANSACTION]
        key = version_files.key_of(covered.location, version, covered.naming)
        try:
            return transaction_of(self._context.store.get(key).body, key)[1]
        except NotThere:
            return None

    def roll_forward(self, sidecar: Sidecar, changes: Sequence[ChangeState]) -> None:
        """Let the changes land that have not. One that is refused shows at the next observation."""
        for covered, change in zip(sidecar.tables, changes, strict=True):
            table = self._find(covered)
            if change is not ChangeState.FREE or table is None or covered.staged is None:
                continue
            try:
                self._versions.create(
                    NewVersion(
                        table.id,
                        covered.version,
                        covered.staged,
                        covered.naming,
                        location=covered.location,
                    )
                )
            except (ConcurrentModificationError, TableNotFoundError) as refused:
                log.info("%s could not go forward: %s", names.display(table.id), refused)

    def roll_back(
        self, sidecar: Sidecar, changes: Sequence[ChangeState], seen: Sequence[Observation]
    ) -> bool:
        """Undo what landed, and fence what has not; whether there was anything to do."""
        acted = False
        for covered, change, of_table in zip(sidecar.tables, changes, seen, strict=True):
            table = self._find(covered)
            if table is None:
                continue
            if change is ChangeState.LANDED and of_table.head == covered.version:
                self._undo(sidecar, covered, table)
                acted = True
            elif change in (ChangeState.FREE, ChangeState.STUCK) and covered.base_head:
                # A table without a version can't be fenced: a change that lands there is undone by
                # its owner.
                self._fence(sidecar, covered, table)
                acted = True
        return acted

    def _undo(self, sidecar: Sidecar, covered: CoveredTable, table: Table) -> None:
        """Commit what was there before, exactly after the version that is taken back."""
        uuid = undo_transaction(sidecar.operation, covered.location)

        def operation(dataset: lance.LanceDataset) -> Any:
            if covered.expected_version:
                return lance.LanceOperation.Restore(covered.expected_version)
            return lance.LanceOperation.Overwrite(dataset.schema, [])

        self._commit(table, covered.version, uuid, operation, retries=0)

    def _fence(self, sidecar: Sidecar, covered: CoveredTable, table: Table) -> None:
        """Take the version number of a change that has not landed, and leave all rows as they
        are."""
        uuid = fence_transaction(sidecar.operation, covered.location)
        config = lance.LanceOperation.UpdateMap({"tiltyard.fence": sidecar.operation})

        def operation(dataset: lance.LanceDataset) -> Any:
            return lance.LanceOperation.UpdateConfig(config_updates=config)

        self._commit(table, covered.base_head, uuid, operation, retries=FENCE_RETRIES)

    def _commit(
        self,
        table: Table,
        onto: int,
        uuid: str,
        operation: Callable[[lance.LanceDataset], Any],
        *,
        retries: int,
    ) -> None:
        client = self._client(table)
        try:
            with client.raising_refusals():
                dataset = client.open(onto)
                transaction = lance.Transaction(onto, operation(dataset), uuid=uuid)
                lance.LanceDataset.commit(dataset, transaction, max_retries=retries)
        except TiltyardError:
            raise
        except FAILURES as error:
            raise ConcurrentModificationError(
                f"could not commit to table {names.display(table.id)}: {error}"
            ) from error
