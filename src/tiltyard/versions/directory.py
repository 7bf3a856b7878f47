"""Versions without rows: the files under `_versions/` are the versions, create-if-absent decides.

A writer is told "committed" only after three looks: the boundary before its write (what it is
based on still counts), the boundary after it (its number was not given up meanwhile), and the
catalog (the table is still there). PROTOCOLS calls them the guards A, B and C.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.boundary import Boundary, Mark
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.errors import ConcurrentModificationError
from tiltyard.names import TableId
from tiltyard.store import AlreadyThere, NotThere, Store, read_back
from tiltyard.versions import pins, tags
from tiltyard.versions.collecting import Collecting
from tiltyard.versions.reading import TableGuard, branch_of, must_be_files
from tiltyard.versions.staged import (
    fragments_in,
    read_staged,
    removed_by,
    restored_by,
    transaction_of,
)


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version to publish: its number, and the staged manifest that is to become it.

    With a `location` the table has to lie there still.
    """

    table: TableId
    version: int
    staged: str
    naming: Naming = Naming.NEWEST_FIRST
    branch: str | None = None
    location: str | None = None


class DirectoryVersions(Collecting):
    """Publishes, lists and deletes versions in one catalog."""

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first.

        ConcurrentModificationError if the number is another's, VersionBehindBoundaryError if the
        writer built on what may be gone. The staged file is removed once the version counts.
        """
        self._store.require_conditions()
        guard = self._guard_of(new.table)
        if new.location not in (None, guard.table.location):
            raise _replaced(new.table)
        must_be_files(guard.table, new.branch)
        location = branch_of(guard.table.location, new.branch)
        key = version_files.key_of(location, new.version, new.naming)
        body = read_staged(self._store, new.staged, location, key, names.display(new.table))
        boundary = self._boundary(guard.table, new.branch)
        base, _ = transaction_of(body, new.staged)
        try:
            before = self._guard_base(guard.table, new.branch, base)
            if before.number:
                guard_fragments(self._store, new, location, body)
            if guard.is_marked:
                self._guard_floor(new, location, base, guard.floor)
                self._guard_directory(new, location, base)
        except ConcurrentModificationError:
            self.refusals.note(location, new.version)
            raise
        with self._keeping(boundary, location, restored_by(body)):
            try:
                # It lasts as long as Lance's own files do, to which it refers: those are not
                # flushed one by one either.
                read_back.put_new(self._store, key, body, durable=False, same_as=new.staged)
            except AlreadyThere as taken:
                raise ConcurrentModificationError(
                    f"version {new.version} of table {names.display(new.table)} is another's",
                    hint="rebase onto it and commit again",
                ) from taken
        self._guard_number(boundary, before, new.version, key, body)
        self._guard_table(guard, new.branch)
        self._store.delete(new.staged)
        return VersionFile(new.version, key, len(body))

    def _keeping(
        self, boundary: Boundary, location: str, restored: int | None
    ) -> AbstractContextManager[None]:
        """What a version that is restored refers to has to be there still when that is a version
        again; of all others the latest tells."""
        if restored is None:
            return nullcontext()
        return pins.pinned(
            self._store, self._clock, location, restored, lambda each: boundary.kept().shows(each)
        )

    def _guard_base(self, table: Table, branch: str | None, base: int) -> Mark:
        """Guard A: Lance does not notice that versions it should check for conflicts are gone."""
        boundary = self._boundary(table, branch)
        present = boundary.mark()
        if present.number > base and self._renewed(table, branch):
            present = boundary.mark()
        if present.number > base:
            raise boundary.behind(base, present.number)
        return present

    def _guard_directory(self, new: NewVersion, location: str, base: int) -> None:
        """Others may have put another table into the same directory, whose versions begin again.

        The version before the next one is the latest, so it is there. One request. A branch begins
        with the number of the version that it is based on.
        """
        before = new.version - 1
        if not base or (base == new.version and new.branch is not None):
            return
        if base <= before:
            with suppress(NotThere):
                self._store.head(version_files.key_of(location, before, new.naming))
                return
            newest = max((each.version for each in self._newest(location)), default=0)
            if newest in (before, new.version):
                return  # named the other way, or the number is taken, perhaps by this very writer
            if newest > new.version and self._is_there(location, new):
                return
        raise _of_another(new, base)

    def _guard_floor(self, new: NewVersion, location: str, base: int, floor: int) -> None:
        """What a purged table has reached nobody builds on, and its numbers are not given again.

        No request, unless somebody tries. Where others put a table, versions may begin again.
        """
        if floor and base <= floor and any(each.version > floor for each in self._newest(location)):
            raise _of_another(new, base)

    def _is_there(self, location: str, new: NewVersion) -> bool:
        try:
            self._store.head(version_files.key_of(location, new.version, new.naming))
        except NotThere:
            return False
        return True

    def _guard_number(
        self, boundary: Boundary, before: Mark, version: int, key: str, body: bytes
    ) -> None:
        """Guard B: the number may have been given up between the look and the write."""
        present = boundary.mark()
        if version > present.number and present.incarnation == before.incarnation:
            return
        with suppress(NotThere):  # a scrub was quicker
            if self._store.get(key).body == body:
                self._store.delete(key)
        raise boundary.behind(version, max(version, present.number))

    def check_base(self, table: Table, version: int) -> None:
        """Guard A, for a commit that is made elsewhere: it builds on a version of the main branch.

        One request.
        """
        self._guard_base(table, None, version)

    def check_landed(self, table: Table, version: int) -> None:
        """Guard B, for a commit of ours that has landed elsewhere. One request."""
        key = version_files.key_of(table.location, version)
        boundary = self._boundary(table, None)
        present = boundary.read()
        if version <= present:
            self._store.delete(key)
            raise boundary.behind(version, present)

    def refer(
        self,
        table: TableId,
        version: int,
        put: Callable[[Table], object],
        take_back: Callable[[Table], object],
        branch: str | None = None,
    ) -> None:
        """Let a tag or a branch refer to a version, so that it stays: `put` writes the reference
        into the table that it is given.

        TableVersionNotFoundError, VersionBehindBoundaryError if it was given up meanwhile.
        """
        guard = self._guard_of(table)
        self.describe(table, version, branch)
        boundary = self._boundary(guard.table, branch)
        tags.refer(boundary, version, partial(put, guard.table), partial(take_back, guard.table))
        self._guard_table(guard, branch)

    def _guard_table(self, guard: TableGuard, branch: str | None) -> None:
        """Guard C: a table that was dropped meanwhile was not written to. One request."""
        if not self._holds(guard, branch):
            raise _replaced(guard.table.id)


def guard_fragments(store: Store, new: NewVersion, location: str, body: bytes) -> None:
    """Guard A, for fragments that a change takes away whole: Lance does not notice that they were
    replaced meanwhile, if the version that did so is gone.

    One request, for such changes only.
    """
    removed = removed_by(body)
    if not removed:
        return
    with suppress(NotThere):
        before = store.get(version_files.key_of(location, new.version - 1, new.naming)).body
        if removed <= fragments_in(before):
            return
    raise ConcurrentModificationError(
        f"version {new.version} of table {names.display(new.table)} takes rows away from where "
        f"they no longer are",
        hint="open the table anew and do it again",
    )


def _of_another(new: NewVersion, base: int) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"version {new.version} of table {names.display(new.table)} can't be based on {base}: "
        f"that was of another table, which lay at the same place",
        hint="open the table anew and do it again",
    )


def _replaced(table: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"table {names.display(table)} was dropped, or its state changed, while a version was "
        f"committed",
        hint="look at the table before trying again",
    )
