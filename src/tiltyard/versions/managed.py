"""Versions as rows of the manifest: one commit of it decides, for any number of tables at once.

Lance stages a manifest, the commit adds the row that names it, and only then is it copied to where
Lance keeps versions: see `copying`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.boundary import REJECTED
from tiltyard.catalog.manifest.committer import Then
from tiltyard.catalog.manifest.edits import (
    AddVersion,
    AllOf,
    ConfirmVersion,
    Edit,
    HideVersion,
    RaiseBoundary,
    RemoveVersions,
    ShowVersion,
    no_such_version,
)
from tiltyard.catalog.manifest.rows import STAGED, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
    VersionBehindBoundaryError,
)
from tiltyard.names import TableId
from tiltyard.versions.collecting import chosen_of
from tiltyard.versions.copying import Copying
from tiltyard.versions.directory import NewVersion, guard_fragments
from tiltyard.versions.references import referred
from tiltyard.versions.staged import read_staged, restored_by, transaction_of

log = logging.getLogger(__name__)


class ManagedVersions(Copying):
    """Publishes, lists, hides and deletes versions that are rows."""

    # -- writing

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish staged manifests as versions: all of them in one commit, or none.

        One request a version to read it, one to look and three to commit, shared with whoever else
        commits; then one a version to copy it, and one to look once more and one to tidy up, which
        are shared, too.
        """
        self._store.require_conditions()
        proposed = [self._proposal(each) for each in wanted]
        commit = AllOf(tuple(proposed))
        try:
            return self._commit(commit, proposed)
        except ConcurrentModificationError as refusal:
            for each in proposed:
                self.refusals.note(each.location, each.file.version)
            if isinstance(refusal, VersionBehindBoundaryError):
                REJECTED.add()
                log.warning("a commit was refused: %s", refusal)
            raise

    def _commit(self, edit: Edit, proposed: Sequence[AddVersion]) -> list[VersionFile]:
        created: list[VersionFile] = self._manifest.submit(
            edit, Then(self._finish, proposed)
        ).answer
        return created

    def _proposal(self, new: NewVersion) -> AddVersion:
        row = self._manifest.known().get(names.object_id(new.table)) or self._row(new.table)
        location = new.location or row.location or ""
        key = version_files.key_of(location, new.version, new.naming)
        body = read_staged(self._store, new.staged, location, key, names.display(new.table))
        base, transaction = transaction_of(body, new.staged)
        try:
            guard_fragments(self._store, new, location, body)
        except ConcurrentModificationError:
            self.refusals.note(location, new.version)
            raise
        file = VersionFile(new.version, key, len(body), self._clock.now_ms())
        return AddVersion(
            new.table, location, file, base, transaction, new.staged, restored_by(body)
        )

    # -- reading

    def visible(self, owner: Row, snapshot: Snapshot) -> Sequence[VersionFile]:
        """Every version that is not hidden, oldest first. At most one request."""
        numbers = sorted(snapshot.version_numbers(owner.object_id))
        found = [(each, self._version(snapshot, owner, each)) for each in numbers]
        self._complete_all(owner.location or "", found)
        return [row.file for _, row in found if not row.is_hidden]

    def every(self, owner: Row, snapshot: Snapshot) -> Sequence[VersionFile]:
        """Every version that has a row, hidden ones too, oldest first, and each in its place."""
        numbers = sorted(snapshot.version_numbers(owner.object_id))
        found = [(each, self._version(snapshot, owner, each)) for each in numbers]
        self._complete_all(owner.location or "", found)
        return [row.file for _, row in found]

    def latest(self, owner: Row, snapshot: Snapshot) -> VersionFile | None:
        """The head, ready to be opened. At most one request."""
        head = snapshot.head(owner.object_id)
        return self.ready(head, self._version(snapshot, owner, head)) if head else None

    def describe(self, owner: Row, snapshot: Snapshot, version: int | None) -> VersionFile:
        """One version, ready to be opened. TableVersionNotFoundError, also for a hidden one."""
        table = owner.id
        number = snapshot.head(owner.object_id) if version is None else version
        row = snapshot.version_row(owner.object_id, number)
        if row is not None and not row.is_hidden:
            return self.ready(number, row)
        head = snapshot.head(owner.object_id)
        if row is None and head and self.refusals.answers(owner.location or "", number):
            stand_in = self.ready(head, self._version(snapshot, owner, head))
            return replace(stand_in, version=number)
        if not head and version is None:
            raise TableVersionNotFoundError(f"table {names.display(table)} has no version yet")
        raise no_such_version(table, number, row)

    # -- deleting and hiding

    def delete(
        self,
        owner: Row,
        snapshot: Snapshot,
        ranges: Sequence[tuple[int, int]],
        *,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        """Delete versions, given as ranges with both ends, and return which.

        Never the head, nor one that a tag or branch refers to. The boundary is raised in the
        table's row, what refers to versions is read once more, the rows go, and then the files.
        """
        self._store.require_conditions()
        table, location = owner.id, owner.location or ""
        seen = {
            number: self._version(snapshot, owner, number)
            for number in snapshot.version_numbers(owner.object_id)
        }
        every = {number: row.file for number, row in seen.items()}
        chosen = chosen_of(table, ranges, every, lambda _: True, ignore_missing)
        if not chosen:
            return []
        self._refuse_needed(table, location, chosen, snapshot.head(owner.object_id))
        self._manifest.submit(RaiseBoundary(table, location, max(chosen)))
        needed = referred(self._store, location, None).keys() & chosen
        going = {number: seen[number].metadata for number in set(chosen) - needed}
        gone: list[Row] = self._manifest.submit(RemoveVersions(table, location, going)).answer
        self._store.delete_many(key for row in gone for key in _keys(row))
        return [row.version for row in gone]

    def _refuse_needed(
        self, table: TableId, location: str, chosen: Mapping[int, VersionFile], head: int
    ) -> None:
        if head in chosen:
            raise UnsupportedOperationError(
                f"version {head} is the latest of table {names.display(table)}, and stays"
            )
        for version, what in referred(self._store, location, None).items():
            if version in chosen:
                raise UnsupportedOperationError(
                    f"version {version} of table {names.display(table)} can't be deleted: "
                    f"{what} refers to it"
                )

    def scrub(self, owner: Row, snapshot: Snapshot) -> Sequence[int]:
        """Delete the files of versions behind the boundary that have no row any more."""
        stale = self.stale(owner, snapshot)
        self._store.delete_many(each.key for each in stale)
        return sorted(each.version for each in stale)

    def stale(self, owner: Row, snapshot: Snapshot) -> list[VersionFile]:
        """The files of versions behind the boundary that have no row any more. One request."""
        boundary = owner.boundary
        rows = snapshot.version_numbers(owner.object_id)
        return [
            each
            for each in version_files.every(self._store, owner.location or "")
            if each.version <= boundary and each.version not in rows
        ]

    def confirm(self, table: Table, version: int) -> bool:
        """Whether a version that a name refers to now is there, and stays. Ahead of the boundary
        one request to look, behind it three more to commit."""
        nonce = self._clock.token(12)
        try:
            self._manifest.submit(ConfirmVersion(table.id, table.location, version, nonce))
        except TableVersionNotFoundError:
            return False
        return True

    def hide(self, table: TableId, version: int, because: str | None) -> None:
        """Keep readers from one version. One request to look, three to commit."""
        self._manifest.submit(HideVersion(table, version, self._clock.now_ms(), because))

    def show(self, table: TableId, version: int) -> None:
        """Let readers see a version again."""
        self._manifest.submit(ShowVersion(table, version))

    # -- what they share

    def _row(self, table: TableId) -> Row:
        snapshot = self._manifest.read()
        row = snapshot.get(names.object_id(table))
        if row is None or not row.is_table:
            raise self._manifest.missing(snapshot, table)
        return row

    def _version(self, snapshot: Snapshot, owner: Row, number: int) -> Row:
        row = snapshot.version_row(owner.object_id, number)
        if row is None:
            raise InvalidTableStateError(f"version {number} of '{owner.object_id}' has no row")
        return row


def _keys(row: Row) -> list[str]:
    staged = row.metadata.get(STAGED)
    return [row.file.key, *([staged] if staged else [])]
