"""Versions as rows of the manifest: one commit of it decides, for any number of tables at once.

Lance stages a manifest, the commit adds the row that names it, and only then is it copied to where
Lance keeps versions. The guards of docs/design/versions.md are inside the edits: what an edit found
true is true of the commit that carries it.

The row tells both places, so whoever finds the staged file still there copies it: the bytes are the
row's, however often and by whomever they are written. Once the staged file is gone the copy is
complete.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.boundary import REJECTED
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.committer import Then
from tiltyard.catalog.manifest.edits import (
    AddVersion,
    AllOf,
    ConfirmVersion,
    HideVersion,
    NotManagedError,
    RaiseBoundary,
    RemoveVersions,
    ShowVersion,
    no_such_version,
)
from tiltyard.catalog.manifest.rows import MANIFEST_PATH, STAGED, Row
from tiltyard.catalog.manifest.snapshot import ManifestSnapshot
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    PermissionDeniedError,
    TableVersionNotFoundError,
    TiltyardError,
    VersionBehindBoundaryError,
)
from tiltyard.store import NotThere, Outcome
from tiltyard.versions.base import (
    NewVersion,
    Refusals,
    VersionSpan,
    no_version_yet,
    read_staged,
    require_unreferenced,
    select,
)
from tiltyard.versions.file_versions import guard_a_fragments
from tiltyard.versions.lance_format import restored_by, transaction_of
from tiltyard.versions.retention import referenced_versions

log = logging.getLogger(__name__)

# How many copies a process remembers to be complete.
REMEMBERED = 100_000


class RowVersions:
    """The `VersionStore` of managed tables.

    Questions are answered from the manifest as it was read last: `TableVersions` reads it to choose
    this store. NotManagedError if the versions of a table are no rows there.
    """

    def __init__(self, context: CatalogContext, refusals: Refusals) -> None:
        self._store = context.store
        self._clock = context.clock
        self._manifest = context.manifest
        self._refusals = refusals
        self._complete: dict[str, None] = {}

    # -- committing

    def create(self, new: NewVersion) -> VersionFile:
        return self.create_all([new])[0]

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish staged manifests as versions: all of them in one commit, or none.

        One request a version to read it, one to look and three to commit, shared with whoever else
        commits; then one a version to copy it, and one to look once more and one to tidy up, which
        are shared, too.
        """
        self._store.require_conditions()
        edits = [self._edit(new) for new in wanted]
        try:
            created: list[VersionFile] = self._manifest.submit(
                AllOf(tuple(edits)), Then(self._finish, edits)
            ).answer
            return created
        except ConcurrentModificationError as refusal:
            for edit in edits:
                self._refusals.note(edit.location, edit.file.version)
            if isinstance(refusal, VersionBehindBoundaryError):
                REJECTED.add()
                log.warning("a commit was refused: %s", refusal)
            raise

    def _edit(self, new: NewVersion) -> AddVersion:
        row = self._manifest.known().get(names.object_id(new.table)) or self._row(new.table)
        location = new.location or row.location or ""
        key = version_files.key_of(location, new.version, new.naming)
        body = read_staged(self._store, new, location)
        base, transaction = transaction_of(body, new.staged)
        try:
            guard_a_fragments(self._store, new, location, body)
        except ConcurrentModificationError:
            self._refusals.note(location, new.version)
            raise
        file = VersionFile(new.version, key, len(body), self._clock.now_ms())
        return AddVersion(
            new.table, location, file, base, transaction, new.staged, restored_by(body)
        )

    def _row(self, table_id: TableId) -> Row:
        snapshot = self._manifest.read()
        row = snapshot.get(names.object_id(table_id))
        if row is None or not row.is_table:
            raise self._manifest.missing(snapshot, table_id)
        return row

    def check_base(self, table: Table, version: int) -> None:
        """Guard A as far as is known without a request: commits of managed tables come here."""
        row = self._manifest.known().get(names.object_id(table.id))
        if row is not None and row.boundary > version:
            raise VersionBehindBoundaryError.of(version, row.boundary)

    def check_landed(self, table: Table, version: int) -> None:
        """Nothing: a commit that is made elsewhere is no version."""

    # -- reading

    def visible(self, table_id: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        """Every version that is not hidden, oldest first. At most one request."""
        return [row.file for row in self._copied_rows(table_id) if not row.is_hidden]

    def every(self, table_id: TableId) -> Sequence[VersionFile]:
        return [row.file for row in self._copied_rows(table_id)]

    def latest(self, table_id: TableId, branch: str | None = None) -> VersionFile | None:
        """The head, ready to be opened. At most one request."""
        owner, snapshot = self._owner(table_id)
        head = snapshot.head(owner.object_id)
        return self.ready(_version_row(snapshot, owner, head)) if head else None

    def describe(
        self, table_id: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        """One version, ready to be opened. TableVersionNotFoundError, also for a hidden one."""
        owner, snapshot = self._owner(table_id)
        head = snapshot.head(owner.object_id)
        number = head if version is None else version
        row = snapshot.version_row(owner.object_id, number)
        if row is not None and not row.is_hidden:
            return self.ready(row)
        if row is None and head and self._refusals.answers(owner.location or "", number):
            return replace(self.ready(_version_row(snapshot, owner, head)), version=number)
        if not head and version is None:
            raise no_version_yet(table_id)
        raise no_such_version(table_id, number, row)

    def shows(self, table: Table, version: int, branch: str | None = None) -> bool:
        """Ahead of the boundary one request to look, behind it three more to commit."""
        nonce = self._clock.token(12)
        try:
            self._manifest.submit(ConfirmVersion(table.id, table.location, version, nonce))
        except TableVersionNotFoundError:
            return False
        return True

    def _owner(self, table_id: TableId) -> tuple[Row, ManifestSnapshot]:
        """The row of a table, and the manifest in which it was found. No request."""
        snapshot = self._manifest.known()
        row = snapshot.get(names.object_id(table_id))
        if row is None or not row.has_version_rows:
            raise NotManagedError(f"the versions of table {names.display(table_id)} are not rows")
        return row, snapshot

    # -- deleting and hiding

    def delete(
        self,
        table_id: TableId,
        ranges: Sequence[VersionSpan],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        """Delete versions, given as ranges with both ends, and return which.

        The boundary is raised in the table's row, what refers to versions is read once more, the
        rows go, and then the files.
        """
        self._store.require_conditions()
        owner, snapshot = self._owner(table_id)
        location = owner.location or ""
        rows = {
            number: _version_row(snapshot, owner, number)
            for number in snapshot.version_numbers(owner.object_id)
        }
        files = {number: row.file for number, row in rows.items()}
        selected = select(table_id, ranges, files, lambda _: True, ignore_missing)
        if not selected:
            return []
        head = snapshot.head(owner.object_id)
        require_unreferenced(
            table_id, selected, head, lambda: referenced_versions(self._store, location, None)
        )
        self._manifest.submit(RaiseBoundary(table_id, location, max(selected)))
        going = selected.keys() - referenced_versions(self._store, location, None).keys()
        seen = {number: rows[number].metadata for number in going}
        removed: list[Row] = self._manifest.submit(RemoveVersions(table_id, location, seen)).answer
        self._store.delete_many(key for row in removed for key in _keys(row))
        return [row.version for row in removed]

    def scrub(self, table_id: TableId, branch: str | None = None) -> Sequence[int]:
        stale = self._stale_files(*self._owner(table_id))
        self._store.delete_many(file.key for file in stale)
        return sorted(file.version for file in stale)

    def stale(self, table: Table) -> Sequence[int]:
        """The versions that `scrub` would delete. Two requests."""
        snapshot = self._manifest.read()
        row = snapshot.get(names.object_id(table.id))
        if row is None or not row.has_version_rows:
            return []
        return [file.version for file in self._stale_files(row, snapshot)]

    def _stale_files(self, owner: Row, snapshot: ManifestSnapshot) -> list[VersionFile]:
        """The files of versions behind the boundary that have no row any more. One request."""
        numbers = snapshot.version_numbers(owner.object_id)
        return [
            file
            for file in version_files.every(self._store, owner.location or "")
            if file.version <= owner.boundary and file.version not in numbers
        ]

    def hide(self, table_id: TableId, version: int, reason: str | None) -> None:
        """Keep readers from one version. One request to look, three to commit."""
        self._manifest.submit(HideVersion(table_id, version, self._clock.now_ms(), reason))

    def show(self, table_id: TableId, version: int) -> None:
        self._manifest.submit(ShowVersion(table_id, version))

    # -- copying staged manifests to where Lance keeps versions

    def ready(self, row: Row) -> VersionFile:
        """The version of a row, copied to its place if that was left undone."""
        file = row.file
        if STAGED not in row.metadata or file.key in self._complete:
            return file
        try:
            self._store.head(row.metadata[STAGED])
            log.info("version %s was committed, but not copied: copying it", file.key)
            self._copy([row])
        except NotThere:  # it goes when the copy is made
            self._remember(file.key)
        except PermissionDeniedError:  # a reader that may not write gets what there is
            return replace(file, key=row.metadata[STAGED])
        return file

    def _copied_rows(self, table_id: TableId) -> list[Row]:
        """The rows of all versions, oldest first. What is not copied yet is: one listing shows
        that, unless all are known to be complete."""
        owner, snapshot = self._owner(table_id)
        numbers = sorted(snapshot.version_numbers(owner.object_id))
        rows = [_version_row(snapshot, owner, number) for number in numbers]
        unsure = [
            row for row in rows if STAGED in row.metadata and row.file.key not in self._complete
        ]
        if unsure:
            entries = self._store.list(f"{owner.location}/{names.VERSIONS_DIRECTORY}").objects
            present = {entry.key for entry in entries}
            for row in unsure:
                if row.metadata[STAGED] in present:
                    self.ready(row)
                else:
                    self._remember(row.file.key)
        return rows

    def _finish(
        self, committed: Sequence[tuple[Sequence[AddVersion], Sequence[Row]]]
    ) -> list[list[VersionFile]]:
        """Copy what a group has committed. Should this fail, whoever reads it does so."""
        with suppress(TiltyardError, Outcome):  # then one by one
            self._copy([row for _, rows in committed for row in rows])
            # Of one that was committed before, and the answer lost, the first bytes count.
            self._store.delete_many(
                edit.staged
                for edits, rows in committed
                for edit, row in zip(edits, rows, strict=True)
                if edit.staged != row.metadata[STAGED]
            )
        return [[self._finished(row) for row in rows] for _, rows in committed]

    def _finished(self, row: Row) -> VersionFile:
        file = row.file
        if file.key not in self._complete:
            try:
                self._copy([row])
            except (TiltyardError, Outcome) as error:
                log.warning("version %s is committed, but not copied yet: %s", file.key, error)
                return replace(file, key=row.metadata[STAGED])
        return file

    def _copy(self, rows: Sequence[Row]) -> None:
        """Put the bytes of versions where Lance keeps them, and remove the staged ones.

        If a version was deleted meanwhile, so is the copy. On a disk it lasts as Lance's own
        files do, to which it refers: those are not flushed one by one either.
        """
        self._store.move_many({row.metadata[STAGED]: row.metadata[MANIFEST_PATH] for row in rows})
        snapshot = self._manifest.read()
        self._store.delete_many(
            row.metadata[MANIFEST_PATH] for row in rows if _is_removed(snapshot, row)
        )
        for row in rows:
            self._remember(row.metadata[MANIFEST_PATH])

    def _remember(self, key: str) -> None:
        if len(self._complete) >= REMEMBERED:
            self._complete.clear()
        self._complete[key] = None


def _version_row(snapshot: ManifestSnapshot, owner: Row, number: int) -> Row:
    row = snapshot.version_row(owner.object_id, number)
    if row is None:
        raise InvalidTableStateError(f"version {number} of '{owner.object_id}' has no row")
    return row


def _is_removed(snapshot: ManifestSnapshot, row: Row) -> bool:
    """Whether the row of a version was removed, from a table that lies where it lay."""
    if snapshot.has_version(row.table, row.version):
        return False
    owner = snapshot.get(row.table)
    return owner is not None and row.metadata[MANIFEST_PATH].startswith(f"{owner.location}/")


def _keys(row: Row) -> list[str]:
    staged = row.metadata.get(STAGED)
    return [row.file.key, *([staged] if staged else [])]
