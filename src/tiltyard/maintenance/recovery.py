"""Bringing operations of which a crash left a sidecar to an end: forward, or back.

Whatever a recovery does may be done twice, by two sweeps or by a sweep and an owner that was only
slow: the versions that it puts have the bytes that the owner staged, and those that take something
back have a transaction that follows from the operation. So both see each other's work as their own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tiltyard import names
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.pylance import FAILURES, in_a_thread
from tiltyard.clock import Clock
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.maintenance.effects import Effects
from tiltyard.maintenance.sidecars import (
    Sidecar,
    Sidecars,
    State,
    Unreadable,
    read_audit,
    write_audit,
)
from tiltyard.maintenance.verdicts import Found, Sight, Verdict, classify, decide
from tiltyard.names import TableId
from tiltyard.store import NotThere, Outcome, Store
from tiltyard.versions.client import CommitClient
from tiltyard.versions.room import TableVersions

log = logging.getLogger(__name__)

# A younger sidecar has an owner who is at work, as a rule. Taking it over is safe, but rude.
PATIENCE_MS = 60_000
TRIES = 8


class Resolution(StrEnum):
    """How a recovery ended."""

    FORWARD = "rolled forward"
    BACK = "rolled back"
    DISCARDED = "discarded"
    DEFERRED = "deferred"
    REFUSED = "refused"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (Resolution.FORWARD, Resolution.BACK, Resolution.DISCARDED)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of one operation."""

    operation: str
    kind: str
    outcome: Resolution
    tables: tuple[TableId, ...] = ()
    detail: str | None = None


class Recovery:
    """Resolves the sidecars of one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        manifest: ManifestCatalog | None,
        versions: TableVersions,
        client_of: Callable[[Table], CommitClient],
        actor: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._effects = Effects(store, catalog, manifest, versions, client_of)
        self._actor = actor
        self.sidecars = Sidecars(store, clock, actor)
        self._lock = threading.Lock()
        self._unresolved: tuple[Sidecar, ...] | None = None

    # -- sweeping

    def sweep(self, *, patience_ms: int = PATIENCE_MS) -> list[Recovered]:
        """Resolve every sidecar that is older than its owner can be expected to need.

        One request if there is none. One that can't be understood is kept, and told of.
        """
        return [self._swept(each, patience_ms) for each in self.sidecars.every()]

    def sweep_compactions(
        self, tables: Collection[TableId], *, patience_ms: int
    ) -> list[Recovered]:
        """Resolve those of compactions of some tables. Rows are the same whatever of one landed,
        and its sidecar is there only while it commits: so its owner needs less time than others.
        """
        return [
            self._swept(each, patience_ms)
            for each in self.sidecars.every()
            if isinstance(each, Sidecar) and each.kind.preserves_rows
            if any(covered.id in tables for covered in each.tables)
        ]

    def _swept(self, found: Sidecar | Unreadable, patience_ms: int) -> Recovered:
        if isinstance(found, Unreadable):
            log.error("%s", found.reason)
            return Recovered(found.key, "unknown", Resolution.REFUSED, detail=found.reason)
        if self._clock.now_ms() - found.started_at_ms < patience_ms:
            return _recovered(found, Resolution.DEFERRED, "its owner may be at work")
        try:
            return self.resolve(found)
        except (TiltyardError, Outcome, *FAILURES) as error:
            log.warning("operation %s could not be recovered: %s", found.operation, error)
            return _recovered(found, Resolution.FAILED, str(error))

    def before_write(self, tables: Sequence[TableId]) -> None:
        """Sweep before the first write of a client, and keep off what could not be resolved.

        ConcurrentModificationError for a table that another's sidecar covers: try again later. One
        request for the first write of a client, none after it unless something was left.
        """
        with self._lock:
            if self._unresolved is None or self._unresolved:
                self._unresolved = in_a_thread(lambda: tuple(self._left()))
            unresolved = self._unresolved
        self._refuse_covered(unresolved, tables)

    def _left(self) -> Iterator[Sidecar]:
        for each in self.sidecars.every():
            ended = self._swept(each, PATIENCE_MS)
            if not ended.outcome.is_final and isinstance(each, Sidecar):
                yield each

    def require_uncovered(self, tables: Sequence[TableId], *, but: str | None = None) -> None:
        """ConcurrentModificationError for a table that the sidecar of another run covers.

        `but` is the caller's own operation. One request, and one for each sidecar.
        """
        every = (each for each in self.sidecars.every() if isinstance(each, Sidecar))
        self._refuse_covered([each for each in every if each.operation != but], tables)

    def pinned(self, location: str) -> set[int]:
        """Versions of a table that a recovery may still look at or return to, and that a clean-up
        has to leave. One request, and one for each sidecar."""
        every = (each for each in self.sidecars.every() if isinstance(each, Sidecar))
        tables = (table for sidecar in every for table in sidecar.tables)
        found = (
            (table.expected_version, table.base_head, table.version)
            for table in tables
            if table.location == location
        )
        return {number for numbers in found for number in numbers if number}

    def _refuse_covered(self, sidecars: Sequence[Sidecar], tables: Sequence[TableId]) -> None:
        for sidecar in sidecars:
            for table in tables:
                if any(each.id == table for each in sidecar.tables):
                    raise ConcurrentModificationError(
                        f"operation {sidecar.operation} of {sidecar.actor} on table "
                        f"{names.display(table)} has not ended",
                        hint="try again in a minute; `tiltyard recover` ends what a crash left",
                    )

    # -- one operation

    def resolve(self, sidecar: Sidecar) -> Recovered:
        """Bring one operation to an end, from whatever state it is in now. Safe to repeat."""
        for _ in range(TRIES):
            try:
                sidecar = self.sidecars.read(sidecar.operation)
            except NotThere:
                return self._resolved_by_another(sidecar)
            sights = [self._effects.look(sidecar, each) for each in sidecar.tables]
            found = [classify(*each) for each in zip(sidecar.tables, sights, strict=True)]
            verdict = decide(sidecar, found)
            try:
                if verdict is Verdict.DONE:
                    return self._end(sidecar, Resolution.FORWARD, found)
                if verdict is Verdict.FORWARD:
                    self._effects.put_rest(sidecar, found)
                    continue
                if sidecar.state is not State.ABORTED:
                    self.sidecars.abort(sidecar)
                    continue  # and look again: only from here on nobody goes forward
                if verdict is Verdict.DISCARD:
                    return self._end(sidecar, Resolution.DISCARDED, found)
                if not self._effects.take_back(sidecar, found, sights):
                    return self._end(sidecar, Resolution.BACK, found, sights)
            except ConcurrentModificationError as lost:
                log.info("operation %s: %s; looking again", sidecar.operation, lost)
        raise ConcurrentModificationError(
            f"others changed the tables of operation {sidecar.operation} first, {TRIES} times",
            hint="recover again",
        )

    def _resolved_by_another(self, sidecar: Sidecar) -> Recovered:
        record = read_audit(self._store, sidecar.operation) or {}
        outcome = Resolution(record.get("outcome", Resolution.DISCARDED))
        return _recovered(sidecar, outcome, "by another recovery")

    def undo_own(self, sidecar: Sidecar) -> None:
        """Take back what its owner let land after a sweep had stopped it."""
        for _ in range(TRIES):
            sights = [self._effects.look(sidecar, each) for each in sidecar.tables]
            found = [classify(*each) for each in zip(sidecar.tables, sights, strict=True)]
            landed = [what if what is Found.LANDED else Found.GONE for what in found]
            if not self._effects.take_back(sidecar, landed, sights):
                return

    # -- the end

    def _end(
        self,
        sidecar: Sidecar,
        outcome: Resolution,
        found: Sequence[Found],
        sights: Sequence[Sight] = (),
    ) -> Recovered:
        """Leave a record, then remove the sidecar."""
        kept = [
            names.display(covered.id)
            for covered, what, sight in zip(sidecar.tables, found, sights, strict=False)
            if what is Found.LANDED and sight.head > covered.version
        ]
        detail = f"others have built on it already: {', '.join(kept)}" if kept else None
        write_audit(
            self._store,
            sidecar.operation,
            {
                "operation": sidecar.operation,
                "kind": sidecar.kind.value,
                "outcome": outcome.value,
                "detail": detail,
                "actor": sidecar.actor,
                "started_at_ms": sidecar.started_at_ms,
                "by": self._actor,
                "at_ms": self._clock.now_ms(),
                "tables": [
                    {
                        "id": list(covered.id),
                        "location": covered.location,
                        "version": covered.version,
                        "found": what.value,
                    }
                    for covered, what in zip(sidecar.tables, found, strict=True)
                ],
            },
        )
        self.sidecars.done(sidecar)
        log.warning("operation %s was %s", sidecar.operation, outcome.value)
        return _recovered(sidecar, outcome, detail)


def _recovered(sidecar: Sidecar, outcome: Resolution, detail: str | None = None) -> Recovered:
    return Recovered(
        sidecar.operation,
        sidecar.kind.value,
        outcome,
        tuple(each.id for each in sidecar.tables),
        detail,
    )
