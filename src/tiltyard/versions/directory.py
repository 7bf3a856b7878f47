"""Versions without rows: the files under `_versions/` are the versions, create-if-absent decides.

A writer is told "committed" only after three looks: the boundary before its write (what it is
based on still counts), the boundary after it (its number was not given up meanwhile), and the
catalog (the table is still there). PROTOCOLS calls them the guards A, B and C.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.base import Catalog, Table, no_such_table
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
    VersionBehindBoundaryError,
)
from tiltyard.names import TableId
from tiltyard.store import AlreadyThere, NotThere, Retry, Store, Tag, settle
from tiltyard.versions.boundary import Boundary, Kept
from tiltyard.versions.references import referred
from tiltyard.versions.refusals import Refusals
from tiltyard.versions.staged import read_staged, transaction_of
from tiltyard.world import World

log = logging.getLogger(__name__)


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


@dataclass(frozen=True, slots=True)
class _Seat:
    """A table as the catalog knows it now, and the state of the marker where one decides."""

    table: Table
    tag: Tag | None

    def holds(self, other: _Seat) -> bool:
        return (self.table.location, self.tag) == (other.table.location, other.tag)


class NowManagedError(ConcurrentModificationError):
    """The versions of a table have become rows since the caller looked."""


class DirectoryVersions:
    """Publishes, lists and deletes versions in one catalog."""

    def __init__(self, store: Store, world: World, catalog: Catalog, retry: Retry) -> None:
        self._store = store
        self._world = world
        self._catalog = catalog
        self._retry = retry
        self._boundaries: dict[str, Boundary] = {}
        self._refusals = Refusals(world)

    # -- writing

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first.

        ConcurrentModificationError if the number is another's, VersionBehindBoundaryError if the
        writer built on what may be gone. The staged file is removed once the version counts.
        """
        self._store.require_conditions()
        seat = self._seat(new.table)
        if new.location not in (None, seat.table.location):
            raise _replaced(new.table)
        _must_be_files(seat.table, new.branch)
        location = _branch_of(seat.table.location, new.branch)
        key = version_files.key_of(location, new.version, new.naming)
        body = read_staged(self._store, new.staged, location, key, names.display(new.table))
        boundary = self._boundary(seat.table, new.branch)
        try:
            self._guard_base(boundary, transaction_of(body, new.staged)[0])
        except VersionBehindBoundaryError:
            self._refusals.note(location, new.version)
            raise
        try:
            settle.put_new(self._store, key, body)
        except AlreadyThere as taken:
            raise ConcurrentModificationError(
                f"version {new.version} of table {names.display(new.table)} is another's",
                hint="rebase onto it and commit again",
            ) from taken
        self._guard_number(boundary, new.version, key, body)
        self._guard_table(new, seat)
        self._store.delete(new.staged)
        return VersionFile(new.version, key, len(body))

    def _guard_base(self, boundary: Boundary, base: int) -> None:
        """Guard A: Lance does not notice that versions it should check for conflicts are gone."""
        present = boundary.read()
        if present > base:
            raise boundary.behind(base, present)

    def _guard_number(self, boundary: Boundary, version: int, key: str, body: bytes) -> None:
        """Guard B: the number may have been given up between the look and the write."""
        present = boundary.read()
        if version <= present:
            if self._store.get(key).body == body:
                self._store.delete(key)
            raise boundary.behind(version, present)

    def check_base(self, table: Table, version: int) -> None:
        """Guard A, for a commit that is made elsewhere: it builds on a version of the main branch.

        One request.
        """
        self._guard_base(self._boundary(table, None), version)

    def check_landed(self, table: Table, version: int) -> None:
        """Guard B, for a commit of ours that has landed elsewhere. One request."""
        key = version_files.key_of(table.location, version)
        boundary = self._boundary(table, None)
        present = boundary.read()
        if version <= present:
            self._store.delete(key)
            raise boundary.behind(version, present)

    def _guard_table(self, new: NewVersion, before: _Seat) -> None:
        """Guard C: a table that was dropped meanwhile was not written to."""
        now = self._seat(new.table)
        if not now.holds(before):
            raise _replaced(new.table)
        _must_be_files(now.table, new.branch)

    # -- reading

    def visible(self, table: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        """Every version that readers may see, oldest first."""
        found = self._find(table, branch)
        kept = self._kept(found, branch)
        every = self._files(_branch_of(found.location, branch))
        return [each for each in every if kept.shows(each.version)]

    def latest(self, table: TableId, branch: str | None = None) -> VersionFile | None:
        """The latest version. One request beyond finding the table."""
        found = self._find(table, branch)
        return version_files.latest(self._store, _branch_of(found.location, branch))

    def describe(
        self, table: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        """One version, the latest if no number is given. TableVersionNotFoundError."""
        found = self._find(table, branch)
        location = _branch_of(found.location, branch)
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
            if self._kept(found, branch).shows(version):
                parsed = version_files.parse(entry)
                assert parsed is not None
                return parsed
        newest = version_files.latest(self._store, location)
        if newest is not None and self._refusals.answers(location, version):
            return replace(newest, version=version)
        raise _missing(table, version)

    # -- deleting

    def delete(
        self,
        table: TableId,
        ranges: Sequence[tuple[int, int]],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        """Delete versions, given as ranges with both ends, and return which.

        Never the latest, nor one that a tag or branch refers to. The boundary moves first, then
        what refers to versions is read once more, and only then is anything deleted.
        """
        self._store.require_conditions()
        found = self._catalog.find(table)
        _must_be_files(found, branch)
        location = _branch_of(found.location, branch)
        boundary = self._boundary(found, branch)
        kept = boundary.kept()
        every = {each.version: each for each in self._files(location)}
        chosen = chosen_of(table, ranges, every, kept.shows, ignore_missing)
        if not chosen:
            return []
        self._refuse_needed(table, found, branch, chosen, max(every))
        highest = max(chosen)
        staying = {v for v in every if v <= highest and v not in chosen and kept.shows(v)}
        boundary.advance(highest, staying, chosen)
        # If its versions become rows after this look, they are made with the boundary in view.
        _must_be_files(self._catalog.find(table), branch)
        needed = referred(self._store, found.location, branch).keys() & chosen
        if needed:  # came between the two looks: it stays, and its number with it
            boundary.note(needed)
        going = sorted(set(chosen) - needed)
        self._store.delete_many(every[version].key for version in going)
        return going

    def _refuse_needed(
        self,
        table: TableId,
        found: Table,
        branch: str | None,
        chosen: Mapping[int, VersionFile],
        latest: int,
    ) -> None:
        if latest in chosen:
            raise UnsupportedOperationError(
                f"version {latest} is the latest of table {names.display(table)}, and stays"
            )
        for version, what in referred(self._store, found.location, branch).items():
            if version in chosen:
                raise UnsupportedOperationError(
                    f"version {version} of table {names.display(table)} can't be deleted: "
                    f"{what} refers to it"
                )

    def scrub(self, table: TableId, branch: str | None = None) -> Sequence[int]:
        """Delete the manifests behind the boundary that nothing retains: what a stale writer left
        that died before it could take its version back."""
        found = self._catalog.find(table)
        kept = self._kept(found, branch)
        location = _branch_of(found.location, branch)
        stale = [each for each in self._files(location) if not kept.shows(each.version)]
        self._store.delete_many(each.key for each in stale)
        return sorted(each.version for each in stale)

    # -- what they share

    def stale(self, table: Table) -> list[int]:
        """Versions behind the boundary that nothing retains. Two requests or three."""
        kept = self._kept(table, None)
        if not kept.boundary:
            return []
        every = self._files(table.location)
        return [each.version for each in every if not kept.shows(each.version)]

    def visible_at(self, table: Table) -> tuple[Sequence[VersionFile], int]:
        """The versions of a table that was found, oldest first, and its boundary."""
        kept = self._kept(table, None)
        every = self._files(table.location)
        return [each for each in every if kept.shows(each.version)], kept.boundary

    def _find(self, table: TableId, branch: str | None) -> Table:
        found = self._catalog.find(table)
        if not found.arriving:
            _must_be_files(found, branch)
        return found

    def _seat(self, table: TableId) -> _Seat:
        """The marker is read first: whoever changes the table after that is noticed."""
        tag = marker.read(self._store, table[0]).tag if len(table) == 1 else None
        found = self._catalog.find(table)
        return _Seat(found, tag if names.is_marked(table, found.location) else None)

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        directory = f"{names.BOUNDARIES}/{_branch_of(table.location, branch)}"
        known = self._boundaries.get(directory)
        if known is None:
            known = Boundary(self._store, directory, self._world, self._retry)
            known = self._boundaries.setdefault(directory, known)
        return known

    def _kept(self, table: Table, branch: str | None) -> Kept:
        return self._boundary(table, branch).kept()

    def _files(self, location: str) -> list[VersionFile]:
        return version_files.every(self._store, location)


def _branch_of(location: str, branch: str | None) -> str:
    """Where the versions of a branch lie; the main one's in the table's own directory."""
    if branch is None:
        return location
    if not branch or any(part in ("", ".", "..") for part in branch.split("/")):
        raise InvalidInputError(f"{branch!r} can't be the name of a branch")
    return f"{location}/{names.BRANCHES_DIRECTORY}/{branch}"


def _must_be_files(table: Table, branch: str | None) -> None:
    """Branches have no rows, whatever their table has."""
    if table.managed and branch is None:
        raise NowManagedError(f"the versions of table {names.display(table.id)} are rows now")


def chosen_of(
    table: TableId,
    ranges: Sequence[tuple[int, int]],
    every: Mapping[int, VersionFile],
    shows: Callable[[int], bool],
    ignore_missing: bool,
) -> dict[int, VersionFile]:
    """The versions that a request names, of those that there are."""
    if not every:
        raise no_such_table(table)
    chosen: dict[int, VersionFile] = {}
    for first, last in ranges:
        if first < 0 or last < first:
            raise InvalidInputError(f"{first} to {last} is not a range of versions")
        inside = {v: each for v, each in every.items() if first <= v <= last and shows(v)}
        if not ignore_missing and len(inside) < last - first + 1:
            gone = next(v for v in range(first, last + 1) if v not in inside)
            raise _missing(table, gone)
        chosen |= inside
    return chosen


def _replaced(table: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"table {names.display(table)} was dropped, or its state changed, while a version was "
        f"committed",
        hint="look at the table before trying again",
    )


def _missing(table: TableId, version: int) -> TableVersionNotFoundError:
    return TableVersionNotFoundError(f"table {names.display(table)} has no version {version}")
