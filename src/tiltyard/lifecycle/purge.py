"""Deleting for good what lies in the trash: plans, receipts, and the steps of a purge.

A purge acts on a dropped table only, never on a live one. It can be interrupted anywhere: the
table stays "purging", and the next run goes on. What stops one table does not stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tiltyard.catalog import names
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.clock import moment
from tiltyard.errors import InvalidTableStateError, TableNotFoundError, TiltyardError
from tiltyard.lifecycle.arbiter import Arbiters, PurgeClaim
from tiltyard.lifecycle.trash import DroppedTable, TrashReader
from tiltyard.store import Progress

RECEIPTS = "purge"


class PurgeOutcome(StrEnum):
    """How the purge of one table ended."""

    PURGED = "purged"
    PLANNED = "planned"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge would delete, bound to the very drops it was made for."""

    made_at: datetime
    tables: tuple[DroppedTable, ...]

    @property
    def bytes(self) -> int:
        return sum(table.bytes or 0 for table in self.tables)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one table: what was deleted, when and by whom, or why not."""

    id: TableId
    generation: str
    location: str
    outcome: PurgeOutcome
    objects: int
    bytes: int
    at: datetime
    by: str
    error: str | None = None


TableProgress = Callable[[Receipt, int, int], None]


class Purge:
    """Empties the trash of one catalog. Receipts name the actor of the context's settings."""

    def __init__(self, context: CatalogContext, arbiters: Arbiters, trash: TrashReader) -> None:
        self._store = context.store
        self._clock = context.clock
        self._actor = context.settings.actor
        self._arbiters = arbiters
        self._trash = trash

    def purgable(self, deleted_before: datetime | None = None) -> list[DroppedTable]:
        """What may go now: not held, and its time has run out or it was dropped before a cutoff."""
        return list(self.plan(None, deleted_before, with_bytes=False).tables)

    def plan(
        self,
        tables: Sequence[TableId] | None = None,
        deleted_before: datetime | None = None,
        *,
        with_bytes: bool = True,
    ) -> PurgePlan:
        """What would be deleted: everything whose time has come, or exactly the given tables."""
        now = moment(self._clock.now_ms())
        listed = self._trash.list_tables(with_bytes=with_bytes)
        if tables is None:
            chosen = [table for table in listed if table.is_purgable(now, deleted_before)]
        else:
            chosen = [table for table in listed if table.id in tables]
            missing = set(tables) - {table.id for table in chosen}
            for table in (table for table in tables if table in missing):
                raise TableNotFoundError(
                    f"table {names.display(table)} is not in the trash",
                    hint="a purge deletes dropped tables only",
                )
        return PurgePlan(now, tuple(chosen))

    def apply(self, plan: PurgePlan, progress: TableProgress | None = None) -> list[Receipt]:
        """Purge what was planned; whatever moved since is skipped and told."""
        self._store.require_conditions()
        present = {(table.id, table.generation): table for table in self._trash.list_tables()}
        receipts = []
        for planned in plan.tables:
            receipts.append(self._apply(planned, present.get((planned.id, planned.generation))))
            if progress:
                progress(receipts[-1], len(receipts), len(plan.tables))
        return receipts

    def _apply(self, planned: DroppedTable, present: DroppedTable | None) -> Receipt:
        if present is None:
            return self._receipt(planned, PurgeOutcome.SKIPPED, "it is no longer in the trash")
        if present.held:
            return self.held(planned)
        try:
            return self._purge(present)
        except TiltyardError as error:
            return self.refused(planned, error)

    def purge(
        self, table: TableId, generation: str | None = None, progress: Progress | None = None
    ) -> Receipt:
        """Delete one dropped table, whether or not its time has come.

        If two do so at once, both may delete, but only the one that ends it has purged the table.
        """
        self._store.require_conditions()
        return self._purge(self._trash.find(table, generation), progress)

    def _purge(self, dropped: DroppedTable, progress: Progress | None = None) -> Receipt:
        claim = self.claim(dropped)
        if claim.keys is None:
            entries = list(self._store.walk(dropped.location))
            keys = tuple(entry.key for entry in entries)
            claim = replace(claim, keys=keys, bytes=sum(entry.size for entry in entries))
        self._store.delete_many(claim.keys or (), progress)
        return self.finish(claim, len(claim.keys or ()), claim.bytes)

    # -- the steps, for whoever spreads them over processes

    def weigh(self, dropped: DroppedTable) -> tuple[int, int]:
        """How many objects a dropped table has, and their bytes. Changes nothing."""
        sizes = [entry.size for entry in self._store.walk(dropped.location)]
        return len(sizes), sum(sizes)

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        """Take a dropped table: from here on there is no way back. Safe to repeat, by anyone."""
        self._store.require_conditions()
        return self._arbiters.arbiter_for(dropped).claim(dropped)

    def delete(self, keys: Sequence[str]) -> None:
        """Delete some of what a claim has listed, in bulk requests. Safe to repeat."""
        self._store.delete_many(keys)

    def delete_directory(self, claim: PurgeClaim) -> None:
        """Delete what a claim without a list has. Safe to repeat."""
        assert claim.keys is None
        self._store.delete_many(entry.key for entry in self._store.walk(claim.dropped.location))

    def finish(self, claim: PurgeClaim, objects: int, size: int) -> Receipt:
        """Note that nothing is left of a table whose objects were deleted."""
        if not self._arbiters.arbiter_for(claim.dropped).finish(claim):
            why = "another purge has taken it over"
            return self._receipt(claim.dropped, PurgeOutcome.SKIPPED, why)
        return self._receipt(claim.dropped, PurgeOutcome.PURGED, None, objects, size)

    # -- receipts

    def refused(self, dropped: DroppedTable, error: TiltyardError) -> Receipt:
        """The receipt of a table that is still there, and why."""
        is_moved = isinstance(error, InvalidTableStateError | TableNotFoundError)
        outcome = PurgeOutcome.SKIPPED if is_moved else PurgeOutcome.FAILED
        return self._receipt(dropped, outcome, str(error))

    def held(self, dropped: DroppedTable) -> Receipt:
        """The receipt of a table that may not go."""
        return self._receipt(dropped, PurgeOutcome.SKIPPED, "it is held")

    def planned(self, dropped: DroppedTable, objects: int, size: int) -> Receipt:
        """The receipt of a table that would go."""
        return self._receipt(dropped, PurgeOutcome.PLANNED, None, objects, size)

    def as_planned(self, plan: PurgePlan) -> list[Receipt]:
        """A plan in the form of receipts, for a dry run."""
        return [self.planned(table, 0, table.bytes or 0) for table in plan.tables]

    def _receipt(
        self,
        dropped: DroppedTable,
        outcome: PurgeOutcome,
        error: str | None,
        objects: int = 0,
        size: int = 0,
    ) -> Receipt:
        return Receipt(
            dropped.id,
            dropped.generation,
            dropped.location,
            outcome,
            objects,
            size,
            moment(self._clock.now_ms()),
            self._actor,
            error,
        )

    def keep_receipts(self, receipts: Sequence[Receipt]) -> str | None:
        """Write receipts into a file of JSON lines, and return its key; no file for none.

        One request.
        """
        if not receipts:
            return None
        key = f"{names.AUDIT}/{RECEIPTS}-{self._clock.generation()}.jsonl"
        lines = (f"{json.dumps(_as_json(receipt))}\n" for receipt in receipts)
        self._store.put(key, "".join(lines).encode())
        return key


def _as_json(receipt: Receipt) -> dict[str, object]:
    return {
        "table": names.dotted(receipt.id),
        "generation": receipt.generation,
        "location": receipt.location,
        "outcome": receipt.outcome.value,
        "objects": receipt.objects,
        "bytes": receipt.bytes,
        "at": receipt.at.isoformat(),
        "by": receipt.by,
        "error": receipt.error,
    }
