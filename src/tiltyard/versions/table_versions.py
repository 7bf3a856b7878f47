"""The versions of every table of a catalog. `TableVersions` chooses the store that has them.

Versions are rows of the manifest if the row of their table says so, and files otherwise; those of
branches are files in any case. Choosing costs a request only in a catalog that manages versions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.edits import DriftedError, NotManagedError
from tiltyard.catalog.manifest.snapshot import ManifestSnapshot
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError
from tiltyard.versions.base import (
    NewVersion,
    NowManagedError,
    Refusals,
    VersionSpan,
    VersionStore,
    branch_location,
)
from tiltyard.versions.drift import Drifts, Mending
from tiltyard.versions.file_versions import FileVersions
from tiltyard.versions.management import Management
from tiltyard.versions.row_versions import RowVersions

T = TypeVar("T")

# How often a table is asked for whose versions become rows meanwhile.
_ATTEMPTS = range(3)


class TableVersions:
    """Publishes, lists, hides and deletes the versions of tables in one catalog.

    `VersionStore` has what each method does, the two stores what it costs.
    """

    def __init__(
        self,
        context: CatalogContext,
        files: type[FileVersions] = FileVersions,
        rows: type[RowVersions] = RowVersions,
    ) -> None:
        self._catalog = context.catalog
        self._manifest = context.manifest
        self._refusals = Refusals(context.clock)
        self.files = files(context, self._refusals)
        self.rows = rows(context, self._refusals)
        self.management = Management(context, self.files)
        self.drifts = Drifts(context)

    # -- committing

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first.

        Versions that others wrote past the catalog and that leave every row as it was are adopted
        first; DriftedError for any others.
        """
        try:
            return self._create(new)
        except DriftedError:
            table = self._catalog.find(new.table)
            if self.drifts.reconcile(table).action is not Mending.ADOPTED:
                raise
        return self._create(new)

    def _create(self, new: NewVersion) -> VersionFile:
        """Chosen by the manifest as it was read last: either store looks before it commits."""
        for _ in _ATTEMPTS:
            try:
                is_rows = self._manifest.known().has_version_rows(new.table)
                return self._store(is_rows, new.branch).create(new)
            except (NowManagedError, NotManagedError):
                self._finish_managing([new.table])
        raise _changes_again(new.table)

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish several. Those of managed tables come in one commit, all of them or none; the
        others one after the other, after those."""
        snapshot = self._manifest.read()
        together = [new for new in wanted if self._is_row(snapshot, new)]
        for new in wanted:
            if new not in together:
                self._catalog.find(new.table)  # one that is not there stops all of them
        created = dict(zip(together, self._create_rows(together), strict=True))
        return [created.get(new) or self.create(new) for new in wanted]

    def _create_rows(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        if not wanted:
            return []
        for _ in _ATTEMPTS:
            try:
                return self.rows.create_all(wanted)
            except NotManagedError:
                self._finish_managing([new.table for new in wanted])
        raise _changes_again(wanted[0].table)

    def are_rows(self, wanted: Sequence[NewVersion]) -> bool:
        """Whether the versions of all these tables are rows. One request at most."""
        snapshot = self._manifest.read()
        return all(self._is_row(snapshot, new) for new in wanted)

    def _is_row(self, snapshot: ManifestSnapshot, new: NewVersion) -> bool:
        """Whether a version is a row, or will be one once its table is managed."""
        row = snapshot.get(names.object_id(new.table))
        return new.branch is None and row is not None and row.is_table and row.is_managed

    def note_refused(self, new: NewVersion) -> None:
        """Note that a version was refused before it came here, for when Lance asks about it."""
        location = self._catalog.find(new.table).location
        self._refusals.note(branch_location(location, new.branch), new.version)

    def check_base(self, table: Table, version: int) -> None:
        self._store_of(table).check_base(table, version)

    def check_landed(self, table: Table, version: int) -> None:
        self._store_of(table).check_landed(table, version)

    def begin_branch(self, table: Table, branch: str) -> None:
        """Let a branch begin whose name another one had that is gone."""
        self.files.begin_branch(table, branch)

    # -- reading

    def visible(self, table_id: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        return self._with_store(table_id, branch, lambda store: store.visible(table_id, branch))

    def every(self, table_id: TableId) -> Sequence[VersionFile]:
        return self._with_store(table_id, None, lambda store: store.every(table_id))

    def latest(self, table_id: TableId, branch: str | None = None) -> VersionFile | None:
        return self._with_store(table_id, branch, lambda store: store.latest(table_id, branch))

    def describe(
        self, table_id: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        return self._with_store(
            table_id, branch, lambda store: store.describe(table_id, version, branch)
        )

    def shows(self, table: Table, version: int, branch: str | None = None) -> bool:
        return self._store_of(table, branch).shows(table, version, branch)

    # -- deleting and hiding

    def delete(
        self,
        table_id: TableId,
        ranges: Sequence[VersionSpan],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        return self._with_store(
            table_id,
            branch,
            lambda store: store.delete(
                table_id, ranges, branch=branch, ignore_missing=ignore_missing
            ),
        )

    def scrub(self, table_id: TableId, branch: str | None = None) -> Sequence[int]:
        return self._with_store(table_id, branch, lambda store: store.scrub(table_id, branch))

    def stale(self, table: Table) -> Sequence[int]:
        return self._store_of(table).stale(table)

    def hide(self, table_id: TableId, version: int, reason: str | None) -> None:
        self._with_store(table_id, None, lambda store: store.hide(table_id, version, reason))

    def show(self, table_id: TableId, version: int) -> None:
        self._with_store(table_id, None, lambda store: store.show(table_id, version))

    # -- choosing the store

    def _with_store(
        self, table_id: TableId, branch: str | None, question: Callable[[VersionStore], T]
    ) -> T:
        """Ask the store that has the versions of a table, and once more if they become rows
        meanwhile: the first to notice finishes that."""
        if branch is not None:
            return question(self.files)
        for attempt in _ATTEMPTS:
            snapshot = self._manifest.known()
            if attempt or snapshot.managed:
                snapshot = self._manifest.read()
            try:
                return question(self._store(snapshot.has_version_rows(table_id)))
            except (NowManagedError, NotManagedError):
                self._finish_managing([table_id])
        raise _changes_again(table_id)

    def _store_of(self, table: Table, branch: str | None = None) -> VersionStore:
        return self._store(table.managed, branch)

    def _store(self, is_rows: bool, branch: str | None = None) -> VersionStore:
        return self.rows if is_rows and branch is None else self.files

    def _finish_managing(self, table_ids: Sequence[TableId]) -> None:
        """Make rows of the versions of tables that a crash left between files and rows."""
        becoming = [table for table in map(self._catalog.find, table_ids) if table.becoming_managed]
        if becoming:
            self.management.manage(becoming)


def _changes_again(table_id: TableId) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"how table {names.display(table_id)} keeps its versions changed again and again"
    )
