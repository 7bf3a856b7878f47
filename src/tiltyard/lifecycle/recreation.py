"""Creating a table at `<name>.lance`, over nothing or over a dropped table of the same name.

A directory is reused by the next table of its name, so a late request of a stalled process must
never reach what came after. Versions go on counting from the highest that was ever seen, a commit
never rebases, and data that has to be written again is written under fresh names.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.base import already_exists
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.marker import KeptManifest, Marker, State
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import ConcurrentModificationError, TableAlreadyExistsError, TiltyardError
from tiltyard.store import AlreadyThere, Ambiguous, NotThere

# The nonce of a version that only keeps others out.
FENCE = "fence"
# How long a create that has begun is left alone before another process finishes it. This is for
# politeness only: whoever comes too early makes the first start over, and loses nothing.
PATIENCE_MS = 60_000
# How many fences in a row are looked at before a table counts as written to.
MOST_FENCES = 16


class Files(Protocol):
    """Versions of tables: `tables.files.LanceFiles`, and a twin of plain objects in the tests.

    A nonce goes into every commit, so that its writer can be recognised.
    """

    def stage(self, location: str, rows: Any, base: int) -> Any:
        """Write data files under names that only we can have made, for the version after `base`.

        NotThere if a `base` above 0 is gone.
        """

    def commit(self, staged: Any, nonce: str) -> int:
        """Make staged files the version after their base, or nothing: LostRaceError."""

    def append(self, location: str, rows: Any, base: int, nonce: str, expected: int | None) -> int:
        """Add rows that were written for the version `base` to whatever version is the latest.

        With `expected` only to that very version. LostRaceError if what came since does not allow
        it; NotThere if `base` is gone.
        """

    def rewrite(self, location: str, rewrite: Any, base: int, nonce: str) -> int:
        """Take rows out of the version `base` and put others in: LostRaceError, NotThere."""

    def discard(self, staged: Any) -> None:
        """Remove staged files that no version can come to refer to."""

    def written_by(self, location: str, version: int) -> str | None:
        """The nonce of a version's commit, None if it is not one of ours. NotThere."""

    def fence(self, location: str, base: int) -> None:
        """See to it that the version after `base` exists, without changing what the table holds.

        The commit carries the nonce FENCE. A version that is there already will do.
        """


class _OvertakenError(Exception):
    """A version of ours was written, but others changed the marker before it could count."""


class Recreation:
    """Writes first versions at `<name>.lance`, and finishes what a crash left half done."""

    def __init__(
        self, context: CatalogContext, files: Files, patience_ms: int = PATIENCE_MS
    ) -> None:
        self._store = context.store
        self._clock = context.clock
        self._retry = context.retry
        self._files = files
        self._patience_ms = patience_ms

    def create(self, name: str, rows: Any, guard: TableGuard | None = None) -> int:
        """Write the first version of a table, or of the next one of its name.

        TableAlreadyExistsError if there is one. The version that was written is returned. Rows
        whose files were there before this call are safe only while the marker is as the `guard`
        found it before them: a purge that lists files claims them through the marker.
        """
        overtaken = False
        for _ in self._retry:
            try:
                version = self._try(name, rows, guard)
            except _OvertakenError:
                overtaken, version = True, None
            except TableAlreadyExistsError as taken:
                if not overtaken:
                    raise
                # What is in the way may be our own: shown by another process and hidden again.
                raise ConcurrentModificationError(
                    f"others changed the state of table '{name}' while it was being created",
                    hint="look at the table's state before trying again",
                ) from taken
            if version is not None:
                return version
        raise ConcurrentModificationError(
            f"could not create table '{name}': others changed its state "
            f"{self._retry.attempts} times meanwhile"
        )

    def _try(self, name: str, rows: Any, guard: TableGuard | None) -> int | None:
        present = self.decided_marker(name)
        if guard is not None and present.tag != guard.tag:
            raise ConcurrentModificationError(
                f"the state of table '{name}' changed while its data was written",
                hint="write it again",
            )
        if present.state in (State.DELETED, State.PURGED) and not present.hold:
            return self._recreate(name, present, rows)
        if present.hides:
            raise _not_free(name, present)
        return self._create_first(name, names.table_directory(name), present, rows)

    def _create_first(self, name: str, location: str, present: Marker, rows: Any) -> int:
        """Version 1 decides between creators; a marker that changed since says it came too late.

        Where a purge has claimed versions before, those from 1 on are not free for ever.
        """
        if present.floor:
            if version_files.latest(self._store, location) is None:
                raise marker.cannot_continue(name)
            raise already_exists((name,))
        try:
            staged = self._files.stage(location, rows, 0)
        except LostRaceError as lost:
            raise already_exists((name,)) from lost
        try:
            version = self._files.commit(staged, self._clock.token(marker.NONCE_DIGITS))
        except LostRaceError as lost:
            self._files.discard(staged)
            raise already_exists((name,)) from lost
        if marker.read(self._store, name).tag != present.tag:
            raise _OvertakenError
        return version

    def _recreate(self, name: str, dropped: Marker, rows: Any) -> int | None:
        """Write over a dropped table, so that its versions go on; None if another was first."""
        location = names.table_directory(name)
        try:
            reviving = self._begin(name, dropped, dropped)
            for _ in self._retry:
                self._put_back(reviving)
                version = self._write_next(location, reviving, rows)
                if version is not None:
                    if not self._go_live(name, reviving):
                        raise _OvertakenError
                    return version
                reviving = self._begin(name, reviving, dropped)
        except ConcurrentModificationError:
            return None
        raise ConcurrentModificationError(
            f"could not create table '{name}': others wrote to its directory, "
            f"{self._retry.attempts} times"
        )

    def _begin(self, name: str, present: Marker, dropped: Marker) -> Marker:
        """Announce that the next version is ours: above all that exist or ever did."""
        location = names.table_directory(name)
        newest = version_files.latest(self._store, location)
        base = max(dropped.floor, dropped.version_at_drop or 0, newest.version if newest else 0)
        kept = dropped.last_manifest
        is_there = newest is not None and newest.version == base
        if base and not is_there and (kept is None or kept.version != base):
            if marker.read(self._store, name).tag != present.tag:
                raise ConcurrentModificationError(f"table '{name}' is being purged")
            raise marker.cannot_continue(name)
        following = replace(
            present.cleared(),
            state=State.REVIVING,
            generation=dropped.generation,
            deleted_at_ms=self._clock.now_ms(),
            base=base,
            previous=replace(dropped, tag=None),
        )
        return marker.swap(self._store, name, present, following, self._clock)

    def _put_back(self, reviving: Marker) -> None:
        """Lance counts on from a manifest that exists, so that of a purged table returns."""
        kept = _kept_manifest(reviving)
        if kept is not None:
            with suppress(AlreadyThere, Ambiguous):  # whoever stages next sees whether it is there
                self._store.put_new(kept.key, kept.body)

    def _write_next(self, location: str, reviving: Marker, rows: Any) -> int | None:
        """The version after the base, written by us; None if it is another's."""
        assert reviving.base is not None
        try:
            staged = self._files.stage(location, rows, reviving.base)
        except NotThere:  # a late delete of an old purge took the kept manifest away
            return None
        try:
            version = self._files.commit(staged, reviving.nonce)
        except LostRaceError:
            self._files.discard(staged)
            return None
        return version if version == reviving.base + 1 else None

    def _go_live(self, name: str, reviving: Marker) -> bool:
        """Show what was written. The marker keeps the nonce, which tells whose table is live.

        What was put back has served: its data is gone, so it is no version of the new table.
        """
        marker.show_to_peers(self._store, name)
        kept = _kept_manifest(reviving)
        if kept is not None:
            self._store.delete(kept.key)
        following = replace(reviving.cleared(), nonce=reviving.nonce)
        try:
            marker.swap(self._store, name, reviving, following, self._clock, fresh=False)
        except ConcurrentModificationError:
            present = marker.read(self._store, name)
            return not present.hides and present.nonce == reviving.nonce
        return True

    # -- what a crash leaves

    def decided_marker(self, name: str) -> Marker:
        """The marker, once no create is half done: a stalled one is finished by whoever looks.

        One request, if there is none.
        """
        for _ in self._retry:
            present = marker.read(self._store, name)
            if present.state is not State.REVIVING:
                return present
            if self._clock.now_ms() - (present.deleted_at_ms or 0) < self._patience_ms:
                break
            with suppress(ConcurrentModificationError):
                self._finish_stalled(name, present)
        raise ConcurrentModificationError(
            f"table '{name}' is being created at this moment", hint="try again in a minute"
        )

    def _finish_stalled(self, name: str, reviving: Marker) -> None:
        """Forward if the new version is there; else back, and the stalled creator is shut out.

        What was purged has nothing to lose. A dropped table has, so the number that the creator
        wanted is taken first: its commit can then no longer land on top of a table brought back.
        """
        former, base = reviving.previous, reviving.base or 0  # a marker leaves zeros out
        assert former is not None
        location = names.table_directory(name)
        has_content = former.state is State.DELETED and base > 0
        if has_content:
            try:
                self._files.fence(location, base)
            except NotThere:  # another process went on, or another client deleted the files
                has_content = False
        try:
            writer = self._files.written_by(location, base + 1)
        except NotThere:
            writer = None
        if writer == reviving.nonce:
            self._go_live(name, reviving)
            return
        if has_content:
            former = _past_fence(former, base, writer)
        marker.swap(self._store, name, reviving, replace(former, tag=reviving.tag), self._clock)

    def is_only_fenced(self, name: str, after: int, until: int) -> bool:
        """Whether all versions in between only kept others out. One request for each.

        A create that meets a fence begins again above it and may be rolled back there too, so a
        dropped table can end below several of them, unchanged.
        """
        location = names.table_directory(name)
        if until - after > MOST_FENCES:
            return False
        for version in range(after + 1, until + 1):
            try:
                if self._files.written_by(location, version) != FENCE:
                    return False
            except NotThere:
                return False
        return True


def _kept_manifest(reviving: Marker) -> KeptManifest | None:
    """The manifest of a purged table, if the next one goes on from it."""
    kept = reviving.previous.last_manifest if reviving.previous else None
    return kept if kept is not None and kept.version == reviving.base else None


def _past_fence(former: Marker, base: int, writer: str | None) -> Marker:
    """A fence is the same table under the next number, so the drop is of that version now.

    Versions of unaware writers stay visible as what they are: newer than the drop.
    """
    at_drop = former.version_at_drop
    if writer == FENCE and at_drop == base:
        at_drop = base + 1
    return replace(former, version_at_drop=at_drop, floor=max(former.floor, base + 1))


def _not_free(name: str, present: Marker) -> TiltyardError:
    if present.state is State.PURGING:
        return ConcurrentModificationError(
            f"table '{name}' is being purged", hint="purge_table finishes what was begun"
        )
    return name_is_taken(name, present)


def name_is_taken(name: str, present: Marker) -> TableAlreadyExistsError:
    """The error for a name that a hidden table has."""
    hint = marker.HELD if present.hold else marker.why_hidden(present)
    return TableAlreadyExistsError(f"the name '{name}' is taken", hint=hint)
