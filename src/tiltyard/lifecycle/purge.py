"""Deleting for good what lies in the trash: plans, receipts, and the steps for either arbiter.

A purge acts on a dropped table only, never on a live one. It can be interrupted anywhere: the
table stays "purging", and the next run goes on. What stops one table does not stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from tiltyard import names
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import ClaimPurge, FinishPurge
from tiltyard.clock import Clock, moment
from tiltyard.errors import InvalidTableStateError, TableNotFoundError, TiltyardError
from tiltyard.lifecycle.marker_purge import Claim, MarkerPurge
from tiltyard.lifecycle.moves import Moves
from tiltyard.lifecycle.trash import Trashed
from tiltyard.lifecycle.trash_reader import TrashReader
from tiltyard.names import TableId
from tiltyard.store import Progress, Store

RECEIPTS = "purge"


class Outcome(StrEnum):
    """How the purge of one table ended."""

    PURGED = "purged"
    PLANNED = "planned"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge would delete, bound to the very drops it was made for."""

    made_at: datetime
    tables: tuple[Trashed, ...]

    @property
    def bytes(self) -> int:
        return sum(each.bytes or 0 for each in self.tables)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of one table: what was deleted, when and by whom, or why not."""

    id: TableId
    generation: str
    location: str
    outcome: Outcome
    objects: int
    bytes: int
    at: datetime
    by: str
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """A purge that nobody can undo any more.

    `keys` were listed before the claim, the versions last, and nothing else may be deleted. Without
    them the directory is never used again, so it can be listed after the claim, by anyone.
    """

    dropped: Trashed
    keys: tuple[str, ...] | None
    bytes: int = 0
    claim: Claim | None = None

    def halves(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys that go first, and the versions, which go once all of those are gone."""
        keys, folder = self.keys or (), f"/{names.VERSIONS_DIRECTORY}/"
        first = next((at for at, key in enumerate(keys) if folder in key), len(keys))
        return keys[:first], keys[first:]


TableProgress = Callable[[Receipt, int, int], None]


class Purge:
    """Empties the trash of one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        trash: TrashReader,
        markers: MarkerPurge,
        manifest: ManifestCatalog | None,
        moves: Moves | None,
        actor: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._trash = trash
        self._markers = markers
        self._manifest = manifest
        self._moves = moves
        self._actor = actor

    def purgable(self, deleted_before: datetime | None = None) -> list[Trashed]:
        """What may go now: not held, and its time has run out or it was dropped before a cutoff."""
        now = moment(self._clock.now_ms())
        return [each for each in self._trash.everything() if each.is_purgable(now, deleted_before)]

    def plan(
        self,
        tables: Sequence[TableId] | None = None,
        deleted_before: datetime | None = None,
        *,
        with_bytes: bool = True,
    ) -> PurgePlan:
        """What would be deleted: everything whose time has come, or exactly the given tables."""
        now = moment(self._clock.now_ms())
        listed = self._trash.everything(with_bytes=with_bytes)
        if tables is None:
            chosen = [each for each in listed if each.is_purgable(now, deleted_before)]
        else:
            chosen = [each for each in listed if each.id in tables]
            missing = [table for table in tables if table not in {each.id for each in chosen}]
            if missing:
                raise TableNotFoundError(
                    f"table {names.display(missing[0])} is not in the trash",
                    hint="a purge deletes dropped tables only",
                )
        return PurgePlan(now, tuple(chosen))

    def apply(self, plan: PurgePlan, progress: TableProgress | None = None) -> list[Receipt]:
        """Purge what was planned; whatever moved since is skipped and told."""
        present = {(each.id, each.generation): each for each in self._trash.everything()}
        receipts = []
        for planned in plan.tables:
            found = present.get((planned.id, planned.generation))
            receipts.append(self._apply(planned, found))
            if progress:
                progress(receipts[-1], len(receipts), len(plan.tables))
        return receipts

    def _apply(self, planned: Trashed, found: Trashed | None) -> Receipt:
        if found is None:
            return self._receipt(planned, Outcome.SKIPPED, "it is no longer in the trash")
        if found.held:
            return self.held(planned)
        try:
            return self.purge(found)
        except TiltyardError as error:
            return self.refused(planned, error)

    def purge(self, dropped: Trashed, progress: Progress | None = None) -> Receipt:
        """Delete one dropped table, whether or not its time has come.

        If two do so at once, both may delete, but only the one that ends it has purged the table.
        """
        claimed = self.claim(dropped)
        if claimed.keys is None:
            entries = list(self._store.walk(dropped.location))
            keys = tuple(each.key for each in entries)
            claimed = replace(claimed, keys=keys, bytes=sum(each.size for each in entries))
        self._store.delete_many(claimed.keys or (), progress)
        return self.finish(claimed, len(claimed.keys or ()), claimed.bytes)

    # -- the steps, for whoever spreads them over processes

    def weigh(self, dropped: Trashed) -> tuple[int, int]:
        """How many objects a dropped table has, and their bytes. Changes nothing."""
        sizes = [each.size for each in self._store.walk(dropped.location)]
        return len(sizes), sum(sizes)

    def claim(self, dropped: Trashed) -> Claimed:
        """Take a dropped table: from here on there is no way back. Safe to repeat, by anyone.

        A renamed table still lies at a V1 location: there, its marker has the last word.
        """
        if self._manifest is None or self._trash.is_marked(dropped):
            claim = self._markers.claim(dropped.id[0], dropped.generation)
            return Claimed(dropped, claim.keys, claim.bytes, claim)
        assert self._moves is not None
        claimed = self._manifest.submit(ClaimPurge(dropped.id, dropped.generation)).answer
        return Claimed(dropped, None if self._moves.bury(claimed) else ())

    def delete(self, keys: Sequence[str]) -> None:
        """Delete some of what a claim has listed, in bulk requests. Safe to repeat."""
        self._store.delete_many(keys)

    def delete_directory(self, claimed: Claimed) -> None:
        """Delete what a claim without a list has. Safe to repeat."""
        assert claimed.keys is None
        self._store.delete_many(each.key for each in self._store.walk(claimed.dropped.location))

    def finish(self, claimed: Claimed, objects: int, size: int) -> Receipt:
        """Note that nothing is left of a table whose objects were deleted."""
        dropped = claimed.dropped
        if claimed.claim is not None:
            ended = self._markers.finish(claimed.claim)
        else:
            assert self._manifest is not None
            ended = self._manifest.submit(FinishPurge(dropped.id, dropped.generation)).answer
        if not ended:
            return self._receipt(dropped, Outcome.SKIPPED, "another purge has taken it over")
        return self._receipt(dropped, Outcome.PURGED, None, objects, size)

    def refused(self, dropped: Trashed, error: TiltyardError) -> Receipt:
        """The receipt of a table that is still there, and why."""
        moved = isinstance(error, InvalidTableStateError | TableNotFoundError)
        return self._receipt(dropped, Outcome.SKIPPED if moved else Outcome.FAILED, str(error))

    def _receipt(
        self,
        dropped: Trashed,
        outcome: Outcome,
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

    def held(self, dropped: Trashed) -> Receipt:
        """The receipt of a table that may not go."""
        return self._receipt(dropped, Outcome.SKIPPED, "it is held")

    def planned(self, dropped: Trashed, objects: int, size: int) -> Receipt:
        """The receipt of a table that would go."""
        return self._receipt(dropped, Outcome.PLANNED, None, objects, size)

    def as_planned(self, plan: PurgePlan) -> list[Receipt]:
        """A plan in the form of receipts, for a dry run."""
        return [self.planned(each, 0, each.bytes or 0) for each in plan.tables]


def write_receipts(store: Store, clock: Clock, receipts: Sequence[Receipt]) -> str | None:
    """Keep receipts as a file of JSON lines, and return its key; no file for none. One request."""
    if not receipts:
        return None
    key = f"{names.AUDIT}/{RECEIPTS}-{clock.generation()}.jsonl"
    store.put(key, "".join(f"{json.dumps(_as_json(each))}\n" for each in receipts).encode())
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
