"""Bringing operations that a crash interrupted to an end by their sidecars: forward, or back.

Whatever a recovery does may be done twice, by two recoveries or by a recovery and a slow owner: the
versions that it publishes have the bytes that the owner staged, and those that take something back
have a transaction that follows from the operation. So each recognises the other's work. The
rules, and what fails without each, are in docs/design/recovery.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES, in_a_thread
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, ServiceUnavailableError, TiltyardError
from tiltyard.maintenance.recovery_log import Resolution, read_outcome, write_record
from tiltyard.maintenance.recovery_steps import (
    ChangeState,
    Decision,
    Observation,
    RecoverySteps,
    decide,
)
from tiltyard.maintenance.sidecars import (
    CoveredTable,
    OperationKind,
    Sidecar,
    Sidecars,
    SidecarState,
    UnreadableSidecar,
)
from tiltyard.store import NotThere, Outcome, Retry
from tiltyard.versions.base import NewVersion, read_staged
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.lance_format import transaction_of
from tiltyard.versions.table_versions import TableVersions

if TYPE_CHECKING:
    from tiltyard.maintenance.context import MaintenanceContext

log = logging.getLogger(__name__)

# The owner of a younger sidecar is probably at work. Taking it over is safe, but stops the owner.
RECOVERY_MIN_AGE_MS = 60_000
# How often tables are observed because other writers were first.
_ROUNDS = Retry(attempts=8, first_pause=0)


@dataclass(frozen=True, slots=True)
class Recovered:
    """How the recovery of one operation ended."""

    operation: str
    kind: str
    outcome: Resolution
    tables: tuple[TableId, ...] = ()
    detail: str | None = None


class Recovery:
    """Resolves the sidecars of one catalog."""

    def __init__(
        self,
        context: CatalogContext,
        versions: TableVersions,
        client: Callable[[Table], CommitClient],
    ) -> None:
        self._context = context
        self._steps = RecoverySteps(context, versions, client)
        self.sidecars = Sidecars(context)
        self._lock = threading.Lock()
        self._unresolved: tuple[Sidecar, ...] | None = None

    # -- every operation

    def recover(self, *, min_age_ms: int = RECOVERY_MIN_AGE_MS) -> list[Recovered]:
        """Resolve every sidecar that is older than `min_age_ms`.

        One request if there is none. A sidecar that is not understood is kept and reported.
        """
        return [self._recover(sidecar, min_age_ms) for sidecar in self.sidecars.every()]

    def recover_compactions(
        self, tables: Collection[TableId], *, min_age_ms: int
    ) -> list[Recovered]:
        """Resolve the sidecars of compactions of some tables. Such a sidecar exists only during a
        commit, and no row depends on it: so a lower age than for others will do."""
        return [
            self._recover(sidecar, min_age_ms)
            for sidecar in self.sidecars.readable()
            if sidecar.kind.preserves_rows and any(id in tables for id in sidecar.table_ids)
        ]

    def _recover(self, sidecar: Sidecar | UnreadableSidecar, min_age_ms: int) -> Recovered:
        if isinstance(sidecar, UnreadableSidecar):
            log.error("%s", sidecar.reason)
            return Recovered(sidecar.key, "unknown", Resolution.REFUSED, detail=sidecar.reason)
        if self._context.clock.now_ms() - sidecar.started_at_ms < min_age_ms:
            return _recovered(sidecar, Resolution.DEFERRED, "its owner may still be at work")
        try:
            return self.resolve(sidecar)
        except (TiltyardError, Outcome, *FAILURES) as error:
            log.warning("operation %s could not be recovered: %s", sidecar.operation, error)
            return _recovered(sidecar, Resolution.FAILED, str(error))

    # -- for writers

    def before_write(self, tables: Sequence[TableId]) -> None:
        """Recover before the first write of a client, and refuse tables where that failed.

        ConcurrentModificationError for a table that another's sidecar covers: try again later. One
        request for the first write of a client, none after it unless something was left.
        """
        with self._lock:
            if self._unresolved is None or self._unresolved:
                self._unresolved = in_a_thread(lambda: tuple(self._still_unresolved()))
            unresolved = self._unresolved
        _refuse_covered(unresolved, tables)

    def _still_unresolved(self) -> Iterator[Sidecar]:
        for sidecar in self.sidecars.every():
            recovered = self._recover(sidecar, RECOVERY_MIN_AGE_MS)
            if not recovered.outcome.is_final and isinstance(sidecar, Sidecar):
                yield sidecar

    def require_uncovered(self, tables: Sequence[TableId]) -> None:
        """ConcurrentModificationError for a table that a sidecar covers. One request, and one for
        each sidecar."""
        _refuse_covered(list(self.sidecars.readable()), tables)

    # -- one operation

    def resolve(self, sidecar: Sidecar) -> Recovered:
        """Bring one operation to an end, from whatever state it is in now. Safe to repeat."""
        for _ in _ROUNDS:
            try:
                sidecar = self.sidecars.read(sidecar.operation)
            except NotThere:
                outcome = read_outcome(self._context.store, sidecar.operation)
                return _recovered(sidecar, outcome, "by another recovery")
            seen, changes = self._steps.observe(sidecar)
            decision = decide(sidecar, changes)
            try:
                if decision is Decision.DONE:
                    return self._finish(sidecar, Resolution.FORWARD, changes)
                if decision is Decision.FORWARD:
                    self._steps.roll_forward(sidecar, changes)
                    continue
                if sidecar.state is not SidecarState.ABORTED:
                    self.sidecars.abort(sidecar)
                    continue  # and observe again: only from here on nobody rolls forward
                if decision is Decision.DISCARD:
                    return self._finish(sidecar, Resolution.DISCARDED, changes)
                if not self._steps.roll_back(sidecar, changes, seen):
                    return self._finish(sidecar, Resolution.BACK, changes, seen)
            except ConcurrentModificationError as lost:
                log.info("operation %s: %s; looking again", sidecar.operation, lost)
        raise ConcurrentModificationError(
            f"others changed the tables of operation {sidecar.operation} first, "
            f"{_ROUNDS.attempts} times",
            hint="recover again",
        )

    def undo_own(self, sidecar: Sidecar) -> None:
        """Take back what the owner let land after a recovery had stopped it."""
        for _ in _ROUNDS:
            seen, changes = self._steps.observe(sidecar)
            landed = [
                change if change is ChangeState.LANDED else ChangeState.GONE for change in changes
            ]
            if not self._steps.roll_back(sidecar, landed, seen):
                return

    def _finish(
        self,
        sidecar: Sidecar,
        outcome: Resolution,
        changes: Sequence[ChangeState],
        seen: Sequence[Observation] = (),
    ) -> Recovered:
        """Write a record, then remove the sidecar."""
        kept = [
            names.display(covered.id)
            for covered, change, of_table in zip(sidecar.tables, changes, seen, strict=False)
            if change is ChangeState.LANDED and of_table.head > covered.version
        ]
        detail = f"others have built on it already: {', '.join(kept)}" if kept else None
        write_record(self._context, sidecar, outcome, changes, detail)
        self.sidecars.done(sidecar)
        log.warning("operation %s was %s", sidecar.operation, outcome.value)
        return _recovered(sidecar, outcome, detail)


def _refuse_covered(sidecars: Sequence[Sidecar], tables: Sequence[TableId]) -> None:
    for sidecar in sidecars:
        for table in tables:
            if table in sidecar.table_ids:
                raise ConcurrentModificationError(
                    f"operation {sidecar.operation} of {sidecar.actor} on table "
                    f"{names.display(table)} has not ended",
                    hint="try again in a minute; `tiltyard recover` ends what a crash left",
                )


def _recovered(sidecar: Sidecar, outcome: Resolution, detail: str | None = None) -> Recovered:
    return Recovered(sidecar.operation, sidecar.kind.value, outcome, sidecar.table_ids, detail)


# -- commits to several tables


class BatchCommits:
    """Publishes versions of several tables of one catalog."""

    def __init__(self, maintenance: MaintenanceContext) -> None:
        self._context = maintenance.context
        self._versions = maintenance.versions
        self._recovery = maintenance.recovery

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish staged manifests as versions: all of them, or none.

        A sidecar costs four requests, and checking each table before it three or four. Branches are
        not covered: a batch with one of them is published one by one.
        """
        if not self._needs_sidecar(wanted):
            return self._versions.create_all(wanted)
        sidecars = self._recovery.sidecars
        sidecar = sidecars.arm(OperationKind.BATCH, [self.check(new) for new in wanted])
        sidecar = sidecars.publishing(sidecar)
        try:
            created = self._versions.create_all(wanted)
        except (TiltyardError, Outcome) as error:
            if self._resolve(sidecar, error) is not Resolution.FORWARD:
                raise ConcurrentModificationError(
                    f"no table of the batch was changed: {error}", hint="look, and try again"
                ) from error
            return [self._landed(covered) for covered in sidecar.tables]
        self._confirm(sidecar)
        return created

    def _needs_sidecar(self, wanted: Sequence[NewVersion]) -> bool:
        if len(wanted) < 2 or any(new.branch is not None for new in wanted):
            return False
        return not self._versions.are_rows(wanted)

    def check(self, new: NewVersion) -> CoveredTable:
        """Refuse what can't be published, before a sidecar is written: by the number, the base and
        the bytes of a staged manifest."""
        table = self._context.catalog.find(new.table)
        body = read_staged(self._context.store, new, table.location)
        base, transaction = transaction_of(body, new.staged)
        latest = self._versions.latest(new.table)
        head = latest.version if latest else 0
        if new.version != head + 1:
            raise ConcurrentModificationError(
                f"version {new.version} of table {names.display(new.table)} can't follow {head}",
                hint="rebase onto it and commit again",
            )
        if head:
            self._versions.check_base(table, base)
        return CoveredTable(
            new.table, table.location, head, head, transaction, new.staged, new.naming
        )

    def _confirm(self, sidecar: Sidecar) -> None:
        """Check that no recovery has rolled the batch back. One that does writes so into the
        sidecar first; one that has not by now finds every version, and leaves them alone."""
        try:
            present = self._recovery.sidecars.read(sidecar.operation)
            if present.nonce == sidecar.nonce:
                self._recovery.sidecars.done(sidecar)
                return
        except NotThere:
            pass
        if self._recovery.resolve(sidecar).outcome is not Resolution.FORWARD:
            self._recovery.undo_own(sidecar)
            raise ConcurrentModificationError(
                "the batch was rolled back by a recovery while it went on",
                hint="look at the tables before trying again",
            )

    def _resolve(self, sidecar: Sidecar, error: Exception) -> Resolution:
        try:
            return self._recovery.resolve(sidecar).outcome
        except (TiltyardError, Outcome) as another:
            raise ServiceUnavailableError(
                f"the batch was interrupted, and could not be ended: {another}",
                hint="`tiltyard recover` ends it, one way or the other",
            ) from error

    def _landed(self, covered: CoveredTable) -> VersionFile:
        key = version_files.key_of(covered.location, covered.version, covered.naming)
        try:
            file = version_files.parse(self._context.store.head(key))
        except NotThere:
            file = None
        return file or VersionFile(covered.version, key)
