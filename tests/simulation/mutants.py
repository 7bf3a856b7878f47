"""The designs that lose data, each as a small change of the real classes.

A checker that can't fail proves nothing: for every rule of the protocols there is a mutant that
leaves it out, and a scenario in which the explorer must find the loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tests.simulation.actors import Code, Tokens
from tests.simulation.files import PlainFiles, Staged, Written
from tests.simulation.scenarios import Scenario
from tests.simulation.search import Bounds
from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import Edit, RemoveIndex
from tiltyard.catalog.manifest.rows import Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import Marker, State
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import TableAlreadyExistsError
from tiltyard.lifecycle.marker_purge import Claim, MarkerPurge, _versions_last
from tiltyard.lifecycle.markers import Markers, not_there
from tiltyard.lifecycle.moves import Moves
from tiltyard.lifecycle.purge import Claimed, Purge
from tiltyard.lifecycle.recreation import Recreation, Seen
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.names import TableId
from tiltyard.store import NotThere, Progress


@dataclass(frozen=True)
class Mutant:
    """A rule left out, and where that shows."""

    name: str
    code: Code
    scenario: Scenario
    settles: bool = False  # what goes wrong is that a newcomer can't go on


# -- purging


class ListsAfterClaim(MarkerPurge):
    """Rule: what may be deleted is listed before the claim."""

    def delete(self, claim: Claim, progress: Progress | None = None) -> None:
        entries = list(self._store.walk(names.table_directory(claim.name)))
        self._store.delete_many(_versions_last(entries), progress)


class ChecksThenDeletes(MarkerPurge):
    """Rule: a purge begins with a swap. This one looks, deletes, and swaps at the end."""

    def claim(self, name: str, generation: str | None = None) -> Claim:
        present = self._recreation.settled(name)
        if present.state is not State.DELETED:
            raise not_there(name, present)
        entries = list(self._store.walk(names.table_directory(name)))
        return Claim(name, present, tuple(_versions_last(entries)), 0)


class ForgetsFloor(MarkerPurge):
    """Rule: whoever takes a purge over copies its floor and its last manifest."""

    def _claim(self, name: str, generation: str | None) -> Claim:
        present = self._recreation.settled(name)
        if present.state not in (State.DELETED, State.PURGING):
            raise not_there(name, present)
        entries = list(self._store.walk(names.table_directory(name)))
        fresh = replace(present, floor=0, last_manifest=None, version_at_drop=None)
        kept = self._last_manifest(fresh, entries)
        following = replace(
            fresh, state=State.PURGING, floor=kept.version if kept else 0, last_manifest=kept
        )
        claimed = marker.swap(self._store, name, present, following, self._clock)
        return Claim(name, claimed, tuple(_versions_last(entries)), 0)


class DeletesMarker(Markers):
    """Rule: a marker is never deleted."""

    def _undrop(self, name: str, generation: str | None, keep_newer: bool) -> Marker:
        present = self.restorable(name, generation, keep_newer)
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

    def _finish_revival(self, name: str, reviving: Marker) -> None:
        files, self._files = self._files, _NoFence(self._files)
        try:
            super()._finish_revival(name, reviving)
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


class GoesLiveWithoutFloor(Recreation):
    """Rule: a live marker keeps the floor of the purges before it."""

    def _go_live(self, name: str, reviving: Marker) -> bool:
        return super()._go_live(name, replace(reviving, floor=0))


# -- renaming


class NeverArrives(Moves):
    """Rule: a rename is final by a swap of the marker. This one only looks."""

    def _arrive(self, name: str, row: Row) -> bool:
        return marker.read(self._store, name).handed_to(row)


class TrustsLanded(Moves):
    """Rule: whoever changes the row of a rename first sees to it that the rename is final."""

    def guarded(self, table: Table, edit: Edit) -> Edit:
        return edit


class ComesHomeByMarker(Moves):
    """Rule: a renamed table comes home by its row first. Here the marker goes first."""

    def come_home(self, found: Table, target: TableId) -> Table:
        present = marker.read(self._store, target[0])
        marker.swap(self._store, target[0], present, present.forgotten(), self._clock)
        self._manifest.submit(RemoveIndex(found.id, found.location))
        return replace(found, id=target)


class DeletesUnburied(Moves):
    """Rule: the purge of a renamed table swaps its marker before it deletes. This one looks."""

    def bury(self, trashed: Row) -> bool:
        return self._manifest.is_trusted(trashed)


class LeavesRowsOver(ManifestCatalog):
    """Rule: the row of a rename that was undone makes way."""

    def without_left_over(self, snapshot: Snapshot, tables: Iterable[str]) -> Snapshot:
        return snapshot


class OverlooksTheMarker(Recreation):
    """Rule: files that are there before the claim count only if the marker is as it was before
    them."""

    def create(self, name: str, rows: Any, seen: Seen | None = None) -> int:
        return super().create(name, rows)


class StagesAgain(PlainFiles):
    """Rule: files that are there before the claim are staged once."""

    def stage(self, location: str, rows: str | Written, base: int) -> Staged:
        if isinstance(rows, Written):
            rows.is_staged = False
        return super().stage(location, rows, base)


# -- rows


class PurgesWithoutClaim(Purge):
    """Rule: a row is marked as being purged before anything is deleted."""

    def claim(self, dropped: DroppedTable) -> Claimed:
        return Claimed(dropped, None)


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
        Code(marker_purge=ListsAfterClaim),
        _of_marker(_DROPPED, ("purge",), ("purge", "create")),
    ),
    Mutant(
        "equal bodies",
        Code(tokens=EqualTokens),
        _of_marker(("create", "drop", "undrop"), ("drop", "undrop"), faults=1),
    ),
    Mutant(
        "deletes the marker",
        Code(markers=DeletesMarker),
        _of_marker(_DROPPED, ("undrop", "drop"), faults=1),
    ),
    Mutant(
        "checks, then deletes",
        Code(marker_purge=ChecksThenDeletes),
        _of_marker(_DROPPED, ("purge",), ("create",)),
    ),
    Mutant(
        "versions restart",
        Code(recreation=Restarts),
        _of_marker(_DROPPED, ("purge",), ("purge", "create")),
    ),
    Mutant(
        "forgets the floor",
        Code(marker_purge=ForgetsFloor),
        _of_marker(_DROPPED, ("purge",), ("purge", "create"), faults=1),
    ),
    Mutant(
        "reuses data files",
        Code(recreation=ReusesData),
        _of_marker(_DROPPED, ("create",), ("purge",)),
    ),
    Mutant(
        "rebases",
        Code(recreation=TrustsRebase, files=RebasingFiles),
        _of_marker(_DROPPED, ("create",), ("purge", "create")),
    ),
    Mutant(
        "skips the landed version",
        Code(recreation=SkipsLandedVersion),
        _of_marker(_DROPPED, ("purge",), ("purge", "create"), faults=1),
    ),
    Mutant(
        "skips the fence",
        Code(recreation=SkipsFence),
        _of_marker(_DROPPED, ("create",), ("undrop",)),
    ),
    Mutant(
        "looks once",
        Code(recreation=LooksOnce),
        _of_marker((), ("create",), ("create", "drop", "purge")),
    ),
    Mutant(
        "goes live without the floor",
        Code(recreation=GoesLiveWithoutFloor),
        _of_marker(_DROPPED, ("purge",), ("purge", "create"), ("peer", "create"), switches=3),
    ),
    Mutant(
        "renames never arrive",
        Code(moves=NeverArrives),
        _of_marker(("create",), ("rename",), ("register",)),
    ),
    Mutant(
        "trusts a row that has landed",
        Code(moves=TrustsLanded),
        _of_marker(("create",), ("rename",), ("drop_other",), ("register",)),
    ),
    Mutant(
        "comes home by the marker",
        Code(moves=ComesHomeByMarker),
        _of_marker(_RENAMED, ("rename_home",), ("drop_other",)),
    ),
    Mutant(
        "deletes what is not buried",
        Code(moves=DeletesUnburied),
        _of_marker(
            (*_RENAMED, "drop_other"), ("purge_other",), ("purge_other", "zombie", "register")
        ),
    ),
    Mutant(
        "leaves rows over",
        Code(manifest=LeavesRowsOver),
        _of_marker(("create",), ("rename",), ("deregister",), faults=1),
        settles=True,
    ),
    Mutant(
        "overlooks the marker",
        Code(recreation=OverlooksTheMarker),
        _of_marker(_DROPPED, ("write",), ("purge",)),
    ),
    Mutant(
        "stages files again",
        Code(files=StagesAgain),
        _of_marker(_DROPPED, ("write",), ("zombie",)),
    ),
    Mutant(
        "purges a row without a claim",
        Code(purge=PurgesWithoutClaim),
        Scenario("rows", _DROPPED, (("purge",), ("undrop",)), Bounds(0)),
    ),
]
