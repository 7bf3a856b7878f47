"""The versions of every table, whether they are rows or files: each question goes to who knows.

Branches are files in any case. A table whose versions become rows while somebody asks is asked for
once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tiltyard import names
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import NotManagedError
from tiltyard.catalog.manifest.rows import Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    VersionBehindBoundaryError,
)
from tiltyard.names import TableId
from tiltyard.store import Retry, Store
from tiltyard.versions.directory import DirectoryVersions, NewVersion
from tiltyard.versions.managed import ManagedVersions
from tiltyard.versions.management import Management, is_rows
from tiltyard.versions.reading import NowManagedError, branch_of

T = TypeVar("T")

TRIES = 3


class TableVersions:
    """Publishes, lists, hides and deletes the versions of tables in one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        manifest: ManifestCatalog | None,
        retry: Retry,
    ) -> None:
        self._catalog = catalog
        self._manifest = manifest
        self._files = DirectoryVersions(store, clock, catalog, retry)
        self.rows = None if manifest is None else ManagedVersions(store, clock, manifest)
        self.management = Management(catalog, manifest, self._files)

    # -- writing

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first."""
        for _ in range(TRIES):
            if self._is_known_managed(new):
                created = self._create_rows([new])
                if created is not None:
                    return created[0]
            try:
                return self._files.create(new)
            except NowManagedError:
                self._settle([new])
        raise _restless(new.table)

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish several. Those of managed tables come in one commit, all of them or none; the
        others one after the other, after those."""
        if self._manifest is not None:
            self._manifest.read()
        together = [each for each in wanted if self._is_known_managed(each)]
        for each in wanted:
            if each not in together:
                self._catalog.find(each.table)  # one that is not there stops all of them
        created: dict[NewVersion, VersionFile] = {}
        for _ in range(TRIES):
            rows = self._create_rows(together) if together else []
            if rows is not None:
                created = dict(zip(together, rows, strict=True))
                break
        else:
            raise _restless(together[0].table)
        return [created.get(each) or self.create(each) for each in wanted]

    def are_rows(self, wanted: Sequence[NewVersion]) -> bool:
        """Whether the versions of all these tables are rows. One request at most."""
        if self._manifest is None:
            return False
        self._manifest.read()
        return all(self._is_known_managed(each) for each in wanted)

    def note_refused(self, new: NewVersion) -> None:
        """Note that a version was refused before it came here: whom Lance asks about it answers."""
        location = branch_of(self._catalog.find(new.table).location, new.branch)
        self._files.refusals.note(location, new.version)
        if self.rows is not None:
            self.rows.refusals.note(location, new.version)

    def _create_rows(self, wanted: Sequence[NewVersion]) -> list[VersionFile] | None:
        assert self.rows is not None
        try:
            return self.rows.create_all(wanted)
        except NotManagedError:
            self._settle(wanted)
            return None

    def _is_known_managed(self, new: NewVersion) -> bool:
        if new.branch is not None or self._manifest is None:
            return False
        row = self._manifest.known().get(names.object_id(new.table))
        return row is not None and row.is_table and row.is_managed

    def _settle(self, wanted: Sequence[NewVersion]) -> None:
        """Make rows of the versions of tables that a crash left on their way."""
        found = [self._catalog.find(each.table) for each in wanted]
        arriving = [each for each in found if each.arriving]
        if arriving:
            self.management.bring_in(arriving)

    # -- reading

    def visible(self, table: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        """Every version that readers may see, oldest first."""
        return self._ask(
            table,
            branch,
            lambda rows, owner, snapshot: rows.visible(owner, snapshot),
            lambda: self._files.visible(table, branch),
        )

    def every(self, table: TableId) -> Sequence[VersionFile]:
        """Every version that can be deleted or kept, also one that is hidden, oldest first."""
        return self._ask(
            table,
            None,
            lambda rows, owner, snapshot: rows.every(owner, snapshot),
            lambda: self._files.visible(table),
        )

    def latest(self, table: TableId, branch: str | None = None) -> VersionFile | None:
        """The latest version."""
        return self._ask(
            table,
            branch,
            lambda rows, owner, snapshot: rows.latest(owner, snapshot),
            lambda: self._files.latest(table, branch),
        )

    def describe(
        self, table: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        """One version, the latest if no number is given. TableVersionNotFoundError."""
        return self._ask(
            table,
            branch,
            lambda rows, owner, snapshot: rows.describe(owner, snapshot, version),
            lambda: self._files.describe(table, version, branch),
        )

    def shows(self, table: Table, version: int, branch: str | None = None) -> bool:
        """Whether a version stays that a name refers to since a moment ago."""
        if branch is not None or not table.managed or self.rows is None:
            return self._files.shows(table, version, branch)
        return self.rows.confirm(table, version)

    def begin_branch(self, table: Table, branch: str) -> None:
        """Let a branch begin whose name another one had that is gone."""
        self._files.begin_branch(table, branch)

    # -- deleting and hiding

    def delete(
        self,
        table: TableId,
        ranges: Sequence[tuple[int, int]],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        """Delete versions, given as ranges with both ends, and return which."""
        return self._ask(
            table,
            branch,
            lambda rows, owner, snapshot: rows.delete(
                owner, snapshot, ranges, ignore_missing=ignore_missing
            ),
            lambda: self._files.delete(table, ranges, branch=branch, ignore_missing=ignore_missing),
        )

    def scrub(self, table: TableId, branch: str | None = None) -> Sequence[int]:
        """Delete the manifests behind the boundary that nothing retains."""
        return self._ask(
            table,
            branch,
            lambda rows, owner, snapshot: rows.scrub(owner, snapshot),
            lambda: self._files.scrub(table, branch),
        )

    def stale(self, table: Table) -> Sequence[int]:
        """Versions behind the boundary that count for nothing: what `scrub` would delete."""
        if not table.managed:
            return self._files.stale(table)
        if self._manifest is None or self.rows is None or table.arriving:
            return []
        snapshot = self._manifest.read()
        owner = snapshot.get(names.object_id(table.id))
        if owner is None or not is_rows(owner):
            return []
        return [each.version for each in self.rows.stale(owner, snapshot)]

    def hide(self, table: TableId, version: int, because: str | None) -> None:
        """Keep readers from one version of a managed table, without deleting it."""
        self._managed(table).hide(table, version, because)

    def show(self, table: TableId, version: int) -> None:
        """Let readers see a version again."""
        self._managed(table).show(table, version)

    def check_base(self, table: Table, version: int) -> None:
        """Guard A, for a commit that is made elsewhere.

        Commits of managed tables come here anyway; what is known may refuse one at once.
        """
        if not table.managed:
            self._files.check_base(table, version)
            return
        known = None if self._manifest is None else self._manifest.known()
        row = known.get(names.object_id(table.id)) if known is not None else None
        boundary = 0 if row is None else row.boundary
        if boundary > version:
            raise VersionBehindBoundaryError.of(version, boundary)

    def check_landed(self, table: Table, version: int) -> None:
        """Guard B, for a commit of ours that has landed elsewhere."""
        if not table.managed:
            self._files.check_landed(table, version)

    # -- who knows

    def _ask(
        self,
        table: TableId,
        branch: str | None,
        by_rows: Callable[[ManagedVersions, Row, Snapshot], T],
        by_files: Callable[[], T],
    ) -> T:
        if branch is not None or self._manifest is None or self.rows is None:
            return by_files()
        for at in range(TRIES):
            if at or self._manifest.known().managed:
                snapshot = self._manifest.read()
                owner = snapshot.get(names.object_id(table))
                if owner is not None and owner.is_table and is_rows(owner):
                    return by_rows(self.rows, owner, snapshot)
            try:
                return by_files()
            except NowManagedError:
                found = self._catalog.find(table)
                if found.arriving:
                    self.management.bring_in([found])
        raise _restless(table)

    def _managed(self, table: TableId) -> ManagedVersions:
        found = self._catalog.find(table)
        if found.arriving:
            self.management.bring_in([found])
        if not found.managed or self.rows is None:
            raise InvalidTableStateError(
                f"the versions of table {names.display(table)} are files, and can't be hidden",
                hint="versions.manage makes rows of them",
            )
        return self.rows


def _restless(table: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"how table {names.display(table)} keeps its versions changed again and again"
    )
