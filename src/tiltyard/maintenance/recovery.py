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

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES, in_a_thread
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.maintenance.recovery_log import Resolution, read_outcome, write_record
from tiltyard.maintenance.recovery_steps import (
    ChangeState,
    Decision,
    Observation,
    RecoverySteps,
    decide,
)
from tiltyard.maintenance.sidecars import Sidecar, Sidecars, SidecarState, UnreadableSidecar
from tiltyard.store import NotThere, Outcome, Retry
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.table_versions import TableVersions

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
