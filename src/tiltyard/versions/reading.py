"""The versions of tables as files, and which of them readers see.

Finding the latest takes one listing. All others count as far as the boundary of their sequence
lets them: a version behind it is hidden, whether or not its file is still there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.boundary import Boundary, Kept
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionNotFoundError,
)
from tiltyard.names import TableId
from tiltyard.store import NotThere, Retry, Store, Tag
from tiltyard.versions.references import referred
from tiltyard.versions.refusals import Refusals

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableGuard:
    """A table as the catalog knows it now, and the state of the marker where one decides, and up to
    where its numbers are those of earlier tables."""

    table: Table
    tag: Tag | None
    floor: int = 0

    @property
    def is_marked(self) -> bool:
        return names.is_marked(self.table.id, self.table.location)


class NowManagedError(ConcurrentModificationError):
    """The versions of a table have become rows since the caller looked."""


class Reading:
    """Lists and describes versions in one catalog."""

    def __init__(self, store: Store, clock: Clock, catalog: Catalog, retry: Retry) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._retry = retry
        self._boundaries: dict[str, Boundary] = {}
        self.refusals = Refusals(clock)

    # -- reading

    def visible(self, table: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        """Every version that readers may see, oldest first."""
        found = self._find(table, branch)
        kept = self._kept(found, branch)
        every = self._files(branch_of(found.location, branch))
        hidden = self._hidden(found, branch, kept, every)
        return [each for each in every if each.version not in hidden]

    def visible_at(self, table: Table) -> tuple[Sequence[VersionFile], int]:
        """The versions of a table that was found, oldest first, and its boundary."""
        kept = self._kept(table, None)
        every = self._files(table.location)
        hidden = self._hidden(table, None, kept, every)
        return [each for each in every if each.version not in hidden], kept.boundary

    def latest(self, table: TableId, branch: str | None = None) -> VersionFile | None:
        """The latest version. One request beyond finding the table."""
        found = self._find(table, branch)
        return version_files.latest(self._store, branch_of(found.location, branch))

    def describe(
        self, table: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        """One version, the latest if no number is given. TableVersionNotFoundError."""
        found = self._find(table, branch)
        location = branch_of(found.location, branch)
        if version is None:
            newest = version_files.latest(self._store, location)
            if newest is None:
                raise TableVersionNotFoundError(f"table {names.display(table)} has no version yet")
            return newest
        for naming in Naming:
            key = version_files.key_of(location, version, naming)
            try:
                entry = self._store.head(key)
            except NotThere:
                continue
            parsed = version_files.parse(entry)
            assert parsed is not None
            kept = self._kept(found, branch)
            if kept.shows(version):
                return parsed
            if not self._hidden(found, branch, kept, [parsed, *self._newest(location)]):
                return parsed
        newest = version_files.latest(self._store, location)
        if newest is not None and self.refusals.answers(location, version):
            return replace(newest, version=version)
        raise missing(table, version)

    # -- what they share

    def shows(self, table: Table, version: int, branch: str | None = None) -> bool:
        """Whether a version is not behind the boundary, or stays there. One request, or two.

        Whoever lets a name refer to a version asks this after the name is written: a collector
        moves the boundary first and then reads the names, so one of both sees the other.
        """
        return self._kept(table, branch).shows(version)

    def begin_branch(self, table: Table, branch: str) -> None:
        """Let a branch begin whose name another one had that is gone, and with it its numbers.

        One request, if versions of that one were ever deleted two or three more.
        """
        boundary = self._boundary(table, branch)
        present = boundary.mark()
        if present.number and not self._newest(branch_of(table.location, branch)):
            boundary.close(present.incarnation)

    def _find(self, table: TableId, branch: str | None) -> Table:
        found = self._catalog.find(table)
        if not found.arriving:
            must_be_files(found, branch)
        return found

    def _guard_of(self, table: TableId) -> TableGuard:
        """The marker is read first: whoever changes the table after that is noticed."""
        present = marker.read(self._store, table[0]) if len(table) == 1 else None
        found = self._catalog.find(table)
        return TableGuard(found, present.tag, present.floor) if present else TableGuard(found, None)

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        directory = f"{names.BOUNDARIES}/{branch_of(table.location, branch)}"
        known = self._boundaries.get(directory)
        if known is None:
            known = Boundary(self._store, directory, self._clock, self._retry)
            known = self._boundaries.setdefault(directory, known)
        return known

    def _kept(self, table: Table, branch: str | None) -> Kept:
        return self._boundary(table, branch).kept()

    def _files(self, location: str) -> list[VersionFile]:
        return version_files.every(self._store, location)

    def _newest(self, location: str) -> list[VersionFile]:
        newest = version_files.latest(self._store, location)
        return [newest] if newest else []

    def _hidden(
        self, table: Table, branch: str | None, kept: Kept, found: Sequence[VersionFile]
    ) -> set[int]:
        """Which of the versions that were found are behind the boundary for readers, too.

        No request, unless some are: a tag may have come while its version was being given up.
        """
        behind = {each.version for each in found if not kept.shows(each.version)}
        if not behind:
            return behind
        if begins_again(table, kept, [each.version for each in found]):
            log.warning("%s: replaced by others; its versions begin again", table.location)
            return set()
        return behind - self._needed(table, branch).keys()

    def _needed(self, table: Table, branch: str | None) -> Mapping[int, str]:
        """Versions that tags or branches refer to, and which do."""
        return referred(self._store, table.location, branch)

    def _renewed(self, table: Table, branch: str | None) -> bool:
        """Start a new incarnation if a directory was deleted and made anew behind our back.

        A boundary is always below the latest version, which nobody deletes; so one that is not was
        of another table. A purge deletes all versions too, and changes the state of the table
        first: that is looked at before and after.
        """
        before = self._guard_of(table.id)
        boundary = self._boundary(table, branch)
        present = boundary.mark()
        newest = self._newest(branch_of(table.location, branch))
        kept = Kept(present.number, frozenset(), present.incarnation)
        if not begins_again(table, kept, [each.version for each in newest]):
            return False
        if not self._holds(before, branch):
            return False
        boundary.renew(present.incarnation)
        return True

    def _holds(self, guard: TableGuard, branch: str | None) -> bool:
        """Whether a table is where it was, and in the same state all the time. One request."""
        if guard.is_marked:
            return marker.read(self._store, guard.table.id[0]).tag == guard.tag
        found = self._catalog.find(guard.table.id)
        must_be_files(found, branch)
        return found.location == guard.table.location


def branch_of(location: str, branch: str | None) -> str:
    """Where the versions of a branch lie; the main one's in the table's own directory."""
    if branch is None:
        return location
    if not branch or any(part in ("", ".", "..") for part in branch.split("/")):
        raise InvalidInputError(f"{branch!r} can't be the name of a branch")
    return f"{location}/{names.BRANCHES_DIRECTORY}/{branch}"


def must_be_files(table: Table, branch: str | None) -> None:
    """Branches have no rows, whatever their table has."""
    if table.managed and branch is None:
        raise NowManagedError(f"the versions of table {names.display(table.id)} are rows now")


def begins_again(table: Table, kept: Kept, versions: Collection[int]) -> bool:
    """Whether versions, looked for after the boundary, count from below it. Only the directory of
    a root table is ever used again by others."""
    is_below = bool(versions) and max(versions) <= kept.boundary
    return is_below and names.is_marked(table.id, table.location)


def missing(table: TableId, version: int) -> TableVersionNotFoundError:
    return TableVersionNotFoundError(f"table {names.display(table)} has no version {version}")
