"""The designs that lose data, each as a small change of the real classes.

A checker that can't fail proves nothing: for every rule of the protocols there is a mutant that
leaves it out, and a scenario in which the explorer must find the loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.actors import Code, Tokens, mutated
from tests.simulation.files import PlainFiles, Staged, Written
from tests.simulation.scenarios import Scenario
from tests.simulation.search import Bounds
from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import Edit, RemoveIndex
from tiltyard.catalog.manifest.rows import Row
from tiltyard.catalog.manifest.snapshot import ManifestSnapshot
from tiltyard.catalog.marker import Marker, State
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import TableAlreadyExistsError
from tiltyard.lifecycle.arbiter import PurgeClaim
from tiltyard.lifecycle.marker_arbiter import MarkerArbiter, versions_last
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.lifecycle.renames import Renames
from tiltyard.lifecycle.row_arbiter import RowArbiter
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.store import NotThere


@dataclass(frozen=True)
class Mutant:
    """A rule left out, and where that shows."""

    name: str
    code: Code
    scenario: Scenario
    blocks: bool = False  # what goes wrong is that a newcomer can't go on


# -- purging


class ListsAfterClaim(MarkerArbiter):
    """Rule: what may be deleted is listed before the claim."""

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        return replace(super().claim(dropped), keys=None)


class ChecksThenDeletes(MarkerArbiter):
    """Rule: a purge begins with a swap. This one looks, deletes, and swaps at the end."""

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        present = self._recreation.decided_marker(dropped.id[0])
        if present.state is not State.DELETED:
            raise no_such_table(dropped.id)
        entries = list(self._store.walk(dropped.location))
        return PurgeClaim(dropped, versions_last(entries), 0, present)


class ForgetsFloor(MarkerArbiter):
    """Rule: whoever takes a purge over copies its floor and its last manifest."""

    def _claim(self, dropped: DroppedTable) -> PurgeClaim:
        name = dropped.id[0]
        present = self._recreation.decided_marker(name)
        if present.state not in (State.DELETED, State.PURGING):
            raise no_such_table(dropped.id)
        entries = list(self._store.walk(dropped.location))
        fresh = replace(present, floor=0, last_manifest=None, version_at_drop=None)
        kept = self._last_manifest(fresh, entries)
        following = replace(
            fresh, state=State.PURGING, floor=kept.version if kept else 0, last_manifest=kept
        )
        claimed = marker.swap(self._store, name, present, following, self._clock)
        return PurgeClaim(dropped, versions_last(entries), 0, claimed)


class DeletesMarker(MarkerArbiter):
    """Rule: a marker is never deleted."""

    def _undrop(self, name: str, generation: str, keep_newer: bool) -> Marker:
        present = self._restorable(name, generation, keep_newer)
        self._store.delete(names.marker_key(name))
        return present


class EqualTokens(Tokens):
    """Rule: no two bodies of a marker are equal. Here nonces and generations never change."""

    def __call__(self, digits: int) -> str:
        unique = super().__call__(digits)
        return unique if digits == 6 else "0" * digits


# -- creating


class Restarts(Recreation):
    """Rule: versions go on counting from the highest that a purged table reached."""

    def _begin(self, name: str, present: Marker, dropped: Marker) -> Marker:
        if dropped.state is State.PURGED:
            dropped = replace(dropped, floor=0, version_at_drop=None, last_manifest=None)
        return super()._begin(name, present, dropped)


class ReusesData(Recreation):
    """Rule: a create that starts over writes its data again, under fresh names."""

    _first: Any = None

    def _write_next(self, location: str, reviving: Marker, rows: Any) -> int | None:
        assert reviving.base is not None
        try:
            self._first = self._first or self._files.stage(location, rows, reviving.base)
        except NotThere:
            return None
        staged = replace(self._first, base=reviving.base)
        try:
            version = self._files.commit(staged, reviving.nonce)
        except LostRaceError:
            return None
        return version if version == reviving.base + 1 else None


class RebasingFiles(PlainFiles):
    """Rule: a commit never rebases. This one takes the next free number, whatever came between."""

    def commit(self, staged: Staged, nonce: str) -> int:
        for _ in range(4):
            newest = version_files.latest(self._store, staged.location)
            version = newest.version + 1 if newest else 1
            with suppress(LostRaceError):
                return self._put(staged, version, nonce)
        raise LostRaceError(staged.location)


class TrustsRebase(Recreation):
    """What goes with it: whatever version was written is taken for the one that was wanted."""

    def _write_next(self, location: str, reviving: Marker, rows: Any) -> int | None:
        assert reviving.base is not None
        staged = self._files.stage(location, rows, reviving.base)
        return self._files.commit(staged, reviving.nonce)


class SkipsLandedVersion(Recreation):
    """Rule: the version that was written must be the one after the base."""

    def _write_next(self, location: str, reviving: Marker, rows: Any) -> int | None:
        assert reviving.base is not None
        try:
            staged = self._files.stage(location, rows, reviving.base)
            return self._files.commit(staged, reviving.nonce)
        except Exception:
            return super()._write_next(location, reviving, rows)


class SkipsFence(Recreation):
    """Rule: a create over a dropped table is only rolled back behind a fence."""

    def _finish_stalled(self, name: str, reviving: Marker) -> None:
        files, self._files = self._files, _NoFence(self._files)
        try:
            super()._finish_stalled(name, reviving)
        finally:
            self._files = files


class _NoFence:
    def __init__(self, files: Any) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def fence(self, location: str, base: int) -> None:
        """Nothing."""


class LooksOnce(Recreation):
    """Rule: a create that found no marker reads it again once its version is there."""

    def _create_first(self, name: str, location: str, present: Marker, rows: Any) -> int:
        staged = self._files.stage(location, rows, 0)
        try:
            return self._files.commit(staged, self._clock.token(marker.NONCE_DIGITS))
        except LostRaceError as lost:
            raise TableAlreadyExistsError(name) from lost


class WritesOverHeld(Recreation):
    """Rule: a held table is not written over, also if it was not held when the create looked."""

    def decided_marker(self, name: str) -> Marker:
        return replace(super().decided_marker(name), hold=False)


class GoesLiveWithoutFloor(Recreation):
    """Rule: a live marker keeps the floor of the purges before it."""

    def _go_live(self, name: str, reviving: Marker) -> bool:
        return super()._go_live(name, replace(reviving, floor=0))


# -- renaming


class NeverArrives(Renames):
    """Rule: a rename is final by a swap of the marker. This one only looks."""

    def _arrive(self, name: str, row: Row) -> bool:
        return marker.read(self._store, name).given_to(row)


class TrustsLanded(Renames):
    """Rule: whoever changes the row of a rename first sees to it that the rename is final."""

    def guarded(self, table: Table, edit: Edit) -> Edit:
        return edit


class ReturnsByMarker(Renames):
    """Rule: a table gets the name of its directory back by its row first. Here the marker goes
    first."""

    def rename_back(self, table: Table, target: TableId) -> Table:
        present = marker.read(self._store, target[0])
        marker.swap(self._store, target[0], present, present.cleared(), self._clock)
        self._manifest.submit(RemoveIndex(table.id, table.location))
        return replace(table, id=target)


class DeletesWithoutTombstone(Renames):
    """Rule: the purge of a renamed table swaps its marker before it deletes. This one looks."""

    def tombstone(self, trashed: Row) -> bool:
        return self._manifest.is_trusted(trashed)


class LeavesRowsOver(ManifestCatalog):
    """Rule: the row of a rename that was undone makes way."""

    def remove_stale_rows(
        self, snapshot: ManifestSnapshot, tables: Iterable[str]
    ) -> ManifestSnapshot:
        return snapshot


# -- writing in two halves


class OverlooksTheMarker(Recreation):
    """Rule: files that are there before the claim count only if the marker is as it was before
    them."""

    def create(self, name: str, rows: Any, guard: TableGuard | None = None) -> int:
        return super().create(name, rows)


class StagesAgain(PlainFiles):
    """Rule: files that are there before the claim are staged once."""

    def stage(self, location: str, rows: str | Written, base: int) -> Staged:
        if isinstance(rows, Written):
            rows.is_staged = False
        return super().stage(location, rows, base)


# -- rows


class PurgesWithoutClaim(RowArbiter):
    """Rule: a row is marked as being purged before anything is deleted."""

    def claim(self, dropped: DroppedTable) -> PurgeClaim:
        return PurgeClaim(dropped, None)


_DROPPED = ("create", "drop")
_PURGED = ("create", "drop", "purge")
_RENAMED = ("create", "rename")


def _of_marker(
    start: tuple[str, ...], *actors: tuple[str, ...], faults: int = 0, switches: int | None = None
) -> Scenario:
    return Scenario("marker", start, actors, Bounds(faults, switches))


MUTANTS = [
    Mutant(
        "lists after the claim",
        mutated(marker_arbiter_type=ListsAfterClaim),
        _of_marker(_DROPPED, ("purge",), ("purge", "create")),
    ),
    Mutant(
        "equal bodies",
        mutated(tokens_type=EqualTokens),
        _of_marker(("create", "drop", "undrop"), ("drop", "undrop"), faults=1),
    ),
    Mutant(
        "deletes the marker",
        mutated(marker_arbiter_type=DeletesMarker),
        _of_marker(_DROPPED, ("undrop", "drop"), faults=1),
    ),
    Mutant(
        "checks, then deletes",
        mutated(marker_arbiter_type=ChecksThenDeletes),
        _of_marker(_DROPPED, ("purge",), ("create",)),
    ),
    Mutant(
        "versions restart",
        mutated(recreation_type=Restarts),
        _of_marker(_DROPPED, ("purge",), ("purge", "create")),
    ),
    Mutant(
        "forgets the floor",
        mutated(marker_arbiter_type=ForgetsFloor),
        _of_marker(_DROPPED, ("purge",), ("purge", "create"), faults=1),
    ),
    Mutant(
        "reuses data files",
        mutated(recreation_type=ReusesData),
        _of_marker(_DROPPED, ("create",), ("purge",)),
    ),
    Mutant(
        "rebases",
        mutated(recreation_type=TrustsRebase, files_type=RebasingFiles),
        _of_marker(_DROPPED, ("create",), ("purge", "create")),
    ),
    Mutant(
        "skips the landed version",
        mutated(recreation_type=SkipsLandedVersion),
        _of_marker(_DROPPED, ("purge",), ("purge", "create"), faults=1),
    ),
    Mutant(
        "skips the fence",
        mutated(recreation_type=SkipsFence),
        _of_marker(_DROPPED, ("create",), ("undrop",)),
    ),
    Mutant(
        "looks once",
        mutated(recreation_type=LooksOnce),
        _of_marker((), ("create",), ("create", "drop", "purge")),
    ),
    Mutant(
        "writes over a held table",
        mutated(recreation_type=WritesOverHeld),
        _of_marker(_DROPPED, ("hold",), ("create",)),
    ),
    Mutant(
        "goes live without the floor",
        mutated(recreation_type=GoesLiveWithoutFloor),
        _of_marker(_DROPPED, ("purge",), ("purge", "create"), ("peer", "create"), switches=3),
    ),
    Mutant(
        "renames never arrive",
        mutated(renames_type=NeverArrives),
        _of_marker(("create",), ("rename",), ("register",)),
    ),
    Mutant(
        "trusts a row that has landed",
        mutated(renames_type=TrustsLanded),
        _of_marker(("create",), ("rename",), ("drop_other",), ("register",)),
    ),
    Mutant(
        "returns by the marker",
        mutated(renames_type=ReturnsByMarker),
        _of_marker(_RENAMED, ("rename_back",), ("drop_other",)),
    ),
    Mutant(
        "deletes without a tombstone",
        mutated(renames_type=DeletesWithoutTombstone),
        _of_marker(
            (*_RENAMED, "drop_other"), ("purge_other",), ("purge_other", "zombie", "register")
        ),
    ),
    Mutant(
        "leaves rows over",
        mutated(manifest_type=LeavesRowsOver),
        _of_marker(("create",), ("rename",), ("deregister",), faults=1),
        blocks=True,
    ),
    Mutant(
        "overlooks the marker",
        mutated(recreation_type=OverlooksTheMarker),
        _of_marker(_DROPPED, ("write",), ("purge",)),
    ),
    Mutant(
        "stages files again",
        mutated(files_type=StagesAgain),
        _of_marker(_DROPPED, ("write",), ("zombie",)),
    ),
    Mutant(
        "purges a row without a claim",
        mutated(row_arbiter_type=PurgesWithoutClaim),
        Scenario("rows", _DROPPED, (("purge",), ("undrop",)), Bounds(0)),
    ),
]
