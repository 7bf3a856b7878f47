"""Deleting for good what lies in the trash: plans, receipts, and the steps for either arbiter.

A purge acts on a dropped table only, never on a live one. It can be interrupted anywhere: the
table stays "purging", and the next run goes on. What stops one table does not stop the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiltyard import names
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.errors import InvalidTableStateError, TableNotFoundError, TiltyardError
from tiltyard.lifecycle import rows
from tiltyard.lifecycle.bin import Bin
from tiltyard.lifecycle.marker_purge import MarkerPurge
from tiltyard.lifecycle.moves import Moves
from tiltyard.lifecycle.trash import Trashed
from tiltyard.names import TableId
from tiltyard.store import Progress, Store
from tiltyard.world import World, moment


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


TableProgress = Callable[[Receipt, int, int], None]


class Purge:
    """Empties the trash of one catalog."""

    def __init__(
        self,
        store: Store,
        world: World,
        trash: Bin,
        markers: MarkerPurge,
        manifest: ManifestCatalog | None,
        moves: Moves | None,
        actor: str,
    ) -> None:
        self._store = store
        self._world = world
        self._trash = trash
        self._markers = markers
        self._manifest = manifest
        self._moves = moves
        self._actor = actor

    def purgable(self, deleted_before: datetime | None = None) -> list[Trashed]:
        """What may go now: not held, and its time has run out or it was dropped before a cutoff."""
        now = moment(self._world.now_ms())
        return [each for each in self._trash.everything() if each.is_purgable(now, deleted_before)]

    def plan(
        self, tables: Sequence[TableId] | None = None, deleted_before: datetime | None = None
    ) -> PurgePlan:
        """What would be deleted: everything whose time has come, or exactly the given tables."""
        now = moment(self._world.now_ms())
        listed = self._trash.everything(with_bytes=True)
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
            return self._receipt(planned, Outcome.SKIPPED, "it is held")
        try:
            return self.purge(found)
        except (InvalidTableStateError, TableNotFoundError) as error:
            return self._receipt(planned, Outcome.SKIPPED, str(error))
        except TiltyardError as error:
            return self._receipt(planned, Outcome.FAILED, str(error))

    def purge(self, dropped: Trashed, progress: Progress | None = None) -> Receipt:
        """Delete one dropped table, whether or not its time has come.

        If two do so at once, both may delete, but only the one that ends it has purged the table.
        """
        if self._manifest is None or self._trash.is_marked(dropped):
            claim = self._markers.claim(dropped.id[0], dropped.generation)
            self._markers.delete(claim, progress)
            ended = self._markers.finish(claim)
            objects, size = len(claim.keys), claim.bytes
        else:
            ended, objects, size = self._purge_row(dropped, progress)
        if not ended:
            return self._receipt(dropped, Outcome.SKIPPED, "another purge has taken it over")
        return self._receipt(dropped, Outcome.PURGED, None, objects, size)

    def _purge_row(self, dropped: Trashed, progress: Progress | None) -> tuple[bool, int, int]:
        """The directory is never used again, so it can be listed after the claim, by anyone.

        A renamed table still lies at a V1 location: there, its marker has the last word.
        """
        assert self._manifest is not None
        assert self._moves is not None
        claimed = self._manifest.submit(rows.claim(dropped.id, dropped.generation)).answer
        mine = self._moves.bury(claimed)
        entries = list(self._store.walk(dropped.location)) if mine else []
        self._store.delete_many((each.key for each in entries), progress)
        ended = self._manifest.submit(rows.finish(dropped.id, dropped.generation)).answer
        return ended, len(entries), sum(each.size for each in entries)

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
            moment(self._world.now_ms()),
            self._actor,
            error,
        )

    def as_planned(self, plan: PurgePlan) -> list[Receipt]:
        """A plan in the form of receipts, for a dry run."""
        return [
            self._receipt(each, Outcome.PLANNED, None, 0, each.bytes or 0) for each in plan.tables
        ]
