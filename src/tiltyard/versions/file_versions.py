"""Versions as files: what lies under `_versions/` is a version, and create-if-absent decides.

A writer is told "committed" only after three guards, which docs/design/versions.md has with what
fails without each. Guard A reads the boundary before the put: what the writer is based on still
counts. Guard B reads it after the put: the number was not given up meanwhile. Guard C looks at the
table once more: it was not dropped or replaced. Readers see every version above the boundary, and
below it those that are retained or referenced, whether or not the files of others are still there.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.boundary import Boundary, Mark, Retention
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.manifest.edits import no_such_version
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.store import AlreadyThere, NotThere, Store, read_back
from tiltyard.versions.base import (
    NewVersion,
    NowManagedError,
    Refusals,
    VersionSpan,
    branch_location,
    no_version_yet,
    number_taken,
    read_staged,
    require_unreferenced,
    select,
)
from tiltyard.versions.lance_format import (
    fragments_in,
    removed_by,
    restored_by,
    transaction_of,
)
from tiltyard.versions.retention import pinned, referenced_versions

log = logging.getLogger(__name__)


class FileVersions:
    """The `VersionStore` of tables without version rows, and of every branch but the main one."""

    def __init__(self, context: CatalogContext, refusals: Refusals) -> None:
        self._context = context
        self._store = context.store
        self._catalog = context.catalog
        self._refusals = refusals
        self._boundaries: dict[str, Boundary] = {}

    # -- committing

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first.

        ConcurrentModificationError if the number is another's, VersionBehindBoundaryError if the
        writer built on what may be gone. The staged file is removed once the version counts.
        """
        self._store.require_conditions()
        guard = TableGuard.take(self._context, new.table)
        if new.location not in (None, guard.table.location):
            raise _replaced(new.table)
        require_files(guard.table, new.branch)
        location = branch_location(guard.table.location, new.branch)
        body = read_staged(self._store, new, location)
        key = version_files.key_of(location, new.version, new.naming)
        boundary = self._boundary(guard.table, new.branch)
        base, _ = transaction_of(body, new.staged)
        try:
            before = self._guard_a(guard.table, new.branch, base)
            if before.number:
                guard_a_fragments(self._store, new, location, body)
            if guard.table.has_marker:
                self._require_above_floor(new, location, base, guard.floor)
                self._require_same_directory(new, location, base)
        except ConcurrentModificationError:
            self._refusals.note(location, new.version)
            raise
        with self._pinning(boundary, location, restored_by(body)):
            try:
                # It lasts as long as Lance's own files do, to which it refers: those are not
                # flushed one by one either.
                read_back.put_new(self._store, key, body, durable=False, same_as=new.staged)
            except AlreadyThere as taken:
                raise number_taken(new) from taken
        self._guard_b(boundary, before, new.version, key, body)
        self._guard_c(guard, new.branch)
        self._store.delete(new.staged)
        return VersionFile(new.version, key, len(body))

    def _guard_a(self, table: Table, branch: str | None, base: int) -> Mark:
        """Guard A: Lance does not notice that versions it should check for conflicts are gone."""
        boundary = self._boundary(table, branch)
        mark = boundary.mark()
        if mark.number > base and self._renewed(table, branch):
            mark = boundary.mark()
        if mark.number > base:
            raise boundary.behind(base, mark.number)
        return mark

    def _guard_b(
        self, boundary: Boundary, before: Mark, version: int, key: str, body: bytes
    ) -> None:
        """Guard B: the number may have been given up between the look and the put."""
        mark = boundary.mark()
        if version > mark.number and mark.incarnation == before.incarnation:
            return
        with suppress(NotThere):  # a scrub was quicker
            if self._store.get(key).body == body:
                self._store.delete(key)
        raise boundary.behind(version, max(version, mark.number))

    def _guard_c(self, guard: TableGuard, branch: str | None) -> None:
        """Guard C: a table that was dropped meanwhile was not written to. One request."""
        if not self._is_same(guard, branch):
            raise _replaced(guard.table.id)

    def _is_same(self, guard: TableGuard, branch: str | None) -> bool:
        """NowManagedError if its versions have become rows."""
        table = guard.table_now(self._context)
        if table is not None:
            require_files(table, branch)
        return table is not None

    def _require_above_floor(self, new: NewVersion, location: str, base: int, floor: int) -> None:
        """What a purged table has reached nobody builds on, and its numbers are not given again.

        No request, unless somebody tries. Where others put a table, versions may begin again.
        """
        if floor and base <= floor and any(file.version > floor for file in self._newest(location)):
            raise _based_on_another(new, base)

    def _require_same_directory(self, new: NewVersion, location: str, base: int) -> None:
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
            newest = max((file.version for file in self._newest(location)), default=0)
            if newest in (before, new.version):
                return  # named the other way, or the number is taken, perhaps by this very writer
            if newest > new.version and self._exists(location, new):
                return
        raise _based_on_another(new, base)

    def _exists(self, location: str, new: NewVersion) -> bool:
        try:
            self._store.head(version_files.key_of(location, new.version, new.naming))
        except NotThere:
            return False
        return True

    def _pinning(
        self, boundary: Boundary, location: str, restored: int | None
    ) -> AbstractContextManager[None]:
        """Keep the version that a restore refers to until it is a version again; every other change
        refers to what the latest version has."""
        if restored is None:
            return nullcontext()
        clock = self._context.clock
        return pinned(
            self._store, clock, location, restored, lambda it: boundary.retention().shows(it)
        )

    def check_base(self, table: Table, version: int) -> None:
        """Guard A for a commit that is made elsewhere. One request."""
        self._guard_a(table, None, version)

    def check_landed(self, table: Table, version: int) -> None:
        """Guard B for a commit of ours that was made elsewhere. One request."""
        key = version_files.key_of(table.location, version)
        boundary = self._boundary(table, None)
        number = boundary.read()
        if version <= number:
            self._store.delete(key)
            raise boundary.behind(version, number)

    def begin_branch(self, table: Table, branch: str) -> None:
        """Let a branch begin whose name another one had that is gone, and with it its numbers.

        One request, if versions of that one were ever deleted two or three more.
        """
        boundary = self._boundary(table, branch)
        mark = boundary.mark()
        if mark.number and not self._newest(branch_location(table.location, branch)):
            boundary.close(mark.incarnation)

    # -- reading

    def visible(self, table_id: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        return self._visible(self._find(table_id, branch), branch)[0]

    def visible_at(self, table: Table) -> tuple[Sequence[VersionFile], int]:
        """The versions of a table that was found, oldest first, and its boundary."""
        return self._visible(table, None)

    def _visible(self, table: Table, branch: str | None) -> tuple[Sequence[VersionFile], int]:
        retention = self._boundary(table, branch).retention()
        files = version_files.every(self._store, branch_location(table.location, branch))
        hidden = self._hidden(table, branch, retention, files)
        return [file for file in files if file.version not in hidden], retention.boundary

    def every(self, table_id: TableId) -> Sequence[VersionFile]:
        return self.visible(table_id)

    def latest(self, table_id: TableId, branch: str | None = None) -> VersionFile | None:
        """The latest version. One request beyond finding the table."""
        location = self._find(table_id, branch).location
        return version_files.latest(self._store, branch_location(location, branch))

    def describe(
        self, table_id: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        table = self._find(table_id, branch)
        location = branch_location(table.location, branch)
        if version is None:
            newest = version_files.latest(self._store, location)
            if newest is None:
                raise no_version_yet(table_id)
            return newest
        for naming in Naming:
            try:
                entry = self._store.head(version_files.key_of(location, version, naming))
            except NotThere:
                continue
            file = version_files.parse(entry)
            assert file is not None
            retention = self._boundary(table, branch).retention()
            if retention.shows(version):
                return file
            if not self._hidden(table, branch, retention, [file, *self._newest(location)]):
                return file
        newest = version_files.latest(self._store, location)
        if newest is not None and self._refusals.answers(location, version):
            return replace(newest, version=version)
        raise no_such_version(table_id, version)

    def shows(self, table: Table, version: int, branch: str | None = None) -> bool:
        """Whether a version is not behind the boundary, or stays there. One request, or two."""
        return self._boundary(table, branch).retention().shows(version)

    # -- deleting

    def delete(
        self,
        table_id: TableId,
        ranges: Sequence[VersionSpan],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        self._store.require_conditions()
        table = self._catalog.find(table_id)
        require_files(table, branch)
        boundary = self._boundary(table, branch)
        retention = boundary.retention()
        files = self._by_number(table, branch)
        if _begins_again(table, retention, files) and self._renewed(table, branch):
            retention = boundary.retention()
        selected = select(table_id, ranges, files, retention.shows, ignore_missing)
        if not selected:
            return []
        require_unreferenced(
            table_id, selected, max(files), lambda: self._references(table, branch)
        )
        highest = max(selected)
        staying = {
            version
            for version in files
            if version <= highest and version not in selected and retention.shows(version)
        }
        boundary.advance(highest, staying, selected, retention.incarnation)
        # If its versions become rows after this look, they are made with the boundary in view.
        require_files(self._catalog.find(table_id), branch)
        going = sorted(selected.keys() - self._references(table, branch).keys())
        self._store.delete_many(files[version].key for version in going)
        return going

    def scrub(self, table_id: TableId, branch: str | None = None) -> Sequence[int]:
        table = self._catalog.find(table_id)
        retention = self._boundary(table, branch).retention()
        files = self._by_number(table, branch)
        if _begins_again(table, retention, files):
            self._renewed(table, branch)
            return []
        stale = sorted(self._hidden(table, branch, retention, list(files.values())))
        self._store.delete_many(files[version].key for version in stale)
        return stale

    def stale(self, table: Table) -> Sequence[int]:
        """The versions of the main branch that `scrub` would delete. Two requests or three."""
        retention = self._boundary(table, None).retention()
        if not retention.boundary:
            return []
        files = self._by_number(table, None)
        if _begins_again(table, retention, files):
            return []
        return sorted(self._hidden(table, None, retention, list(files.values())))

    def hide(self, table_id: TableId, version: int, reason: str | None) -> None:
        require_files(self._catalog.find(table_id), None)
        raise InvalidTableStateError(
            f"the versions of table {names.display(table_id)} are files, and can't be hidden",
            hint="versions.manage makes rows of them",
        )

    def show(self, table_id: TableId, version: int) -> None:
        self.hide(table_id, version, None)

    # -- the boundary, and what is behind it

    def _find(self, table_id: TableId, branch: str | None) -> Table:
        table = self._catalog.find(table_id)
        if not table.becoming_managed:
            require_files(table, branch)
        return table

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        directory = f"{names.BOUNDARIES}/{branch_location(table.location, branch)}"
        known = self._boundaries.get(directory)
        if known is None:
            known = Boundary(self._store, directory, self._context.clock, self._context.retry)
            known = self._boundaries.setdefault(directory, known)
        return known

    def _by_number(self, table: Table, branch: str | None) -> dict[int, VersionFile]:
        location = branch_location(table.location, branch)
        return {file.version: file for file in version_files.every(self._store, location)}

    def _newest(self, location: str) -> list[VersionFile]:
        newest = version_files.latest(self._store, location)
        return [newest] if newest else []

    def _references(self, table: Table, branch: str | None) -> Mapping[int, str]:
        """Versions that tags, branches or pins refer to, and which do."""
        return referenced_versions(self._store, table.location, branch)

    def _hidden(
        self, table: Table, branch: str | None, retention: Retention, files: Sequence[VersionFile]
    ) -> set[int]:
        """Which of the versions that were found readers do not see.

        No request, unless some are behind the boundary: a tag may have come while its version was
        being given up.
        """
        behind = {file.version for file in files if not retention.shows(file.version)}
        if not behind:
            return behind
        if _begins_again(table, retention, [file.version for file in files]):
            log.warning("%s: replaced by others; its versions begin again", table.location)
            return set()
        return behind - self._references(table, branch).keys()

    def _renewed(self, table: Table, branch: str | None) -> bool:
        """Start a new incarnation if a directory was deleted and made anew behind our back.

        A boundary is always below the latest version, which nobody deletes; so one that is not was
        of another table. A purge deletes all versions too, and changes the state of the table
        first: that is looked at before and after.
        """
        guard = TableGuard.take(self._context, table.id)
        boundary = self._boundary(table, branch)
        mark = boundary.mark()
        newest = self._newest(branch_location(table.location, branch))
        retention = Retention(mark.number, frozenset(), mark.incarnation)
        if not _begins_again(table, retention, [file.version for file in newest]):
            return False
        if not self._is_same(guard, branch):
            return False
        boundary.renew(mark.incarnation)
        return True


def guard_a_fragments(store: Store, new: NewVersion, location: str, body: bytes) -> None:
    """Guard A for fragments that a change removes whole: Lance does not notice that they were
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
        f"version {new.version} of table {names.display(new.table)} removes rows from fragments "
        f"that were replaced meanwhile",
        hint="open the table anew and do it again",
    )


def require_files(table: Table, branch: str | None) -> None:
    """NowManagedError if the versions are rows. Those of branches never are."""
    if table.managed and branch is None:
        raise NowManagedError(f"the versions of table {names.display(table.id)} are rows now")


def _begins_again(table: Table, retention: Retention, versions: Collection[int]) -> bool:
    """Whether versions, looked for after the boundary, count from below it. Only the directory of
    a root table is ever used again by others."""
    is_below = bool(versions) and max(versions) <= retention.boundary
    return is_below and table.has_marker


def _based_on_another(new: NewVersion, base: int) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"version {new.version} of table {names.display(new.table)} can't be based on {base}: "
        f"that was of another table, which lay at the same place",
        hint="open the table anew and do it again",
    )


def _replaced(table_id: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"table {names.display(table_id)} was dropped, or its state changed, while a version was "
        f"committed",
        hint="look at the table before trying again",
    )
