"""Edits of the versions of tables as rows: `<table id>$<number>`.

The head of a table is its highest row, which is never deleted, so the commit that adds the next is
the one that decides who has its number. The boundary is in the row of the table. All guards are
inside the edits: what an edit requires is true of the commit that carries it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tiltyard.catalog import names
from tiltyard.catalog.base import no_such_table
from tiltyard.catalog.manifest.draft import Change, Draft, replaced
from tiltyard.catalog.manifest.edits.base import Edit
from tiltyard.catalog.manifest.rows import (
    ARRIVING,
    BOUNDARY,
    HIDDEN_AT,
    HIDDEN_BECAUSE,
    MANAGED,
    NAMED,
    STAGED,
    TRANSACTION,
    VERSIONS,
    Row,
)
from tiltyard.catalog.names import DELIMITER, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableVersionNotFoundError,
    VersionBehindBoundaryError,
)


class NotManagedError(ConcurrentModificationError):
    """The versions of this table are files, not rows, or not all of them are rows yet."""


class DriftedError(ConcurrentModificationError):
    """Others wrote versions to the directory of a managed table past the catalog."""


@dataclass(frozen=True)
class AddVersion(Edit, kind="add_version"):
    """Add the next version of a table; the answer is its row, also if it is there already.

    A writer has based it on version `base`, and its `transaction` tells whose it is. A version that
    brings back an older one names that as `restored`.
    """

    table: TableId
    location: str
    file: VersionFile
    base: int
    transaction: str
    staged: str
    restored: int | None = None

    def apply(self, draft: Draft) -> Change:
        row = require_managed(draft, self.table, self.location)
        number = self.file.version
        present = draft.version_row(row.object_id, number)
        if present is not None and present.metadata.get(TRANSACTION) == self.transaction:
            return Change(answer=present)
        if row.boundary > self.base:  # Guard A: what came after it may be gone
            raise VersionBehindBoundaryError.of(self.base, row.boundary)
        head = draft.head(row.object_id)
        if number <= head:
            raise ConcurrentModificationError(
                f"version {number} of table {names.display(self.table)} is another's",
                hint="rebase onto it and commit again",
            )
        if number > head + 1:
            raise DriftedError(
                f"version {number} of table {names.display(self.table)} can't follow {head}",
                hint="others wrote to its directory past the catalog: health.repair_table settles "
                "whether that counts",
            )
        if self.restored is not None and draft.version_row(row.object_id, self.restored) is None:
            raise no_such_version(self.table, self.restored)  # its files may be gone
        return self.added(row)

    def added(self, table: Row, *replacing: str) -> Change:
        """The change that adds the row of the version."""
        about = {TRANSACTION: self.transaction, STAGED: self.staged}
        row = Row.of_version(table.object_id, self.file, **about)
        return Change(remove=replacing, add=(row,), answer=row)


@dataclass(frozen=True)
class RaiseBoundary(Edit, kind="raise_boundary"):
    """Give up the numbers up to this one, before their rows go. The answer is the table's row."""

    table: TableId
    location: str
    to: int

    def apply(self, draft: Draft) -> Change:
        row = require_managed(draft, self.table, self.location)
        if self.to >= draft.head(row.object_id):
            raise ConcurrentModificationError(f"{self.to} is not below the head of the table")
        if row.boundary >= self.to:
            return Change(answer=row)
        return _with_metadata(row, {**row.metadata, BOUNDARY: str(self.to)})


@dataclass(frozen=True)
class RemoveVersions(Edit, kind="remove_versions"):
    """Remove the rows of versions behind the boundary; the answer is the rows that were there.

    `seen` has the metadata of each row as it was read. A row that was changed since stays: see
    `ConfirmVersion`.
    """

    table: TableId
    location: str
    seen: Mapping[int, Mapping[str, str]]

    def apply(self, draft: Draft) -> Change:
        table = require_managed(draft, self.table, self.location)
        assert max(self.seen, default=0) <= table.boundary
        rows = (draft.version_row(table.object_id, number) for number in sorted(self.seen))
        gone = [row for row in rows if row is not None and row.metadata == self.seen[row.version]]
        return Change(remove=tuple(row.object_id for row in gone), answer=gone)


@dataclass(frozen=True)
class ConfirmVersion(Edit, kind="confirm_version"):
    """Make sure that a version stays which a tag or branch refers to since a moment ago.

    Behind the boundary a row may be one that stays, or one whose collector has read the references
    already and is about to remove it. The row is changed, and then a collector leaves it.
    """

    table: TableId
    location: str
    number: int
    nonce: str

    def apply(self, draft: Draft) -> Change:
        table = require_managed(draft, self.table, self.location)
        row = draft.version_row(table.object_id, self.number)
        if row is None:
            raise no_such_version(self.table, self.number)
        if self.number > table.boundary:
            return Change(answer=row)
        return _with_metadata(row, {**row.metadata, NAMED: self.nonce})


@dataclass(frozen=True)
class HideVersion(Edit, kind="hide_version"):
    """Keep readers from a version, and leave it where it is."""

    table: TableId
    number: int
    now_ms: int
    because: str | None = None

    def apply(self, draft: Draft) -> Change:
        table, row = _require_version(draft, self.table, self.number)
        if self.number == draft.head(table.object_id):
            raise InvalidTableStateError(
                f"version {self.number} is the latest of table {names.display(self.table)}, and "
                f"can't be hidden: the next one would build on it",
                hint="restore an older version first",
            )
        kept = {key: value for key, value in row.metadata.items() if key != HIDDEN_BECAUSE}
        reason = {HIDDEN_BECAUSE: self.because} if self.because else {}
        return _with_metadata(row, {**kept, HIDDEN_AT: str(self.now_ms), **reason})


@dataclass(frozen=True)
class ShowVersion(Edit, kind="show_version"):
    """Let readers see a version again."""

    table: TableId
    number: int

    def apply(self, draft: Draft) -> Change:
        _, row = _require_version(draft, self.table, self.number)
        if not row.is_hidden:
            return Change(answer=row)
        gone = (HIDDEN_AT, HIDDEN_BECAUSE)
        return _with_metadata(
            row, {key: value for key, value in row.metadata.items() if key not in gone}
        )


# -- from files to rows


@dataclass(frozen=True)
class StartManaging(Edit, kind="start_managing"):
    """Announce that a table's versions will be rows: no writer trusts the directory any more."""

    table: TableId
    location: str

    def apply(self, draft: Draft) -> Change:
        row = draft.get(names.object_id(self.table))
        if row is None or not row.is_table or row.location != self.location or row.is_managed:
            return Change(answer=row)
        return _with_metadata(row, {**row.metadata, VERSIONS: ARRIVING})


@dataclass(frozen=True)
class FinishManaging(Edit, kind="finish_managing"):
    """Make rows of the versions that the directory had after the announcement.

    A table that has rows already stays as it is: what lies above its head was written past the
    catalog, maybe on top of a version that was replaced since. The answer is how many are new.
    """

    table: TableId
    location: str
    files: tuple[VersionFile, ...]
    boundary: int = 0

    def apply(self, draft: Draft) -> Change:
        row = draft.get(names.object_id(self.table))
        if row is None or row.location != self.location or not row.is_managed:
            return Change(answer=0)
        if row.metadata[VERSIONS] == MANAGED:
            return Change(answer=0)
        files = sorted(self.files, key=lambda file: file.version)
        versions = tuple(Row.of_version(row.object_id, file) for file in files)
        about = {**row.metadata, VERSIONS: MANAGED}
        if self.boundary:
            about[BOUNDARY] = str(self.boundary)
        managed = replace(row, metadata=about)
        return Change(remove=(row.object_id,), add=(managed, *versions), answer=len(versions))


@dataclass(frozen=True)
class AdoptVersions(Edit, kind="adopt_versions"):
    """Add rows for versions that were written past the catalog, on top of the head.

    With `hidden_at_ms` readers see only the last of them. The answer is how many are new.
    """

    table: TableId
    location: str
    head: int
    files: tuple[VersionFile, ...]
    hidden_at_ms: int | None = None

    def apply(self, draft: Draft) -> Change:
        row = require_managed(draft, self.table, self.location)
        if draft.head(row.object_id) != self.head:
            raise ConcurrentModificationError(
                f"table {names.display(self.table)} was written to meanwhile", hint="look again"
            )
        hidden = {}
        if self.hidden_at_ms is not None:
            hidden = {HIDDEN_AT: str(self.hidden_at_ms), HIDDEN_BECAUSE: "it was discarded"}
        *former, last = self.files
        versions = [Row.of_version(row.object_id, file, **hidden) for file in former]
        versions.append(Row.of_version(row.object_id, last))
        return Change(add=tuple(versions), answer=len(versions))


# -- the rows of versions, along with their table


def with_new_id(draft: Draft, old: str, new: str) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """The ids of a table's versions, and their rows once the table has another id."""
    rows = draft.version_rows(old)
    return (
        tuple(row.object_id for _, row in rows),
        tuple(replace(row, object_id=f"{new}{DELIMITER}{number}") for number, row in rows),
    )


def version_ids(draft: Draft, table: str) -> tuple[str, ...]:
    return tuple(row.object_id for _, row in draft.version_rows(table))


# -- what edits require


def require_managed(draft: Draft, table: TableId, location: str) -> Row:
    """The row of a table whose versions are rows, where it was found."""
    row = draft.get(names.object_id(table))
    if row is None or not row.is_table:
        raise no_such_table(table)
    if row.location != location:
        raise replaced(table)
    if row.metadata.get(VERSIONS) != MANAGED:
        raise NotManagedError(f"the versions of table {names.display(table)} are not rows yet")
    return row


def _require_version(draft: Draft, table: TableId, number: int) -> tuple[Row, Row]:
    owner = draft.get(names.object_id(table))
    if owner is None or not owner.is_table:
        raise no_such_table(table)
    row = draft.version_row(owner.object_id, number)
    if row is None:
        raise no_such_version(table, number)
    return owner, row


def no_such_version(
    table: TableId, number: int, hidden: Row | None = None
) -> TableVersionNotFoundError:
    """The error for a version that is not there, or hidden."""
    hint = None
    if hidden is not None:
        because = hidden.metadata.get(HIDDEN_BECAUSE)
        hint = "it is hidden" + (f": {because}" if because else "") + "; versions.show shows it"
    return TableVersionNotFoundError(
        f"table {names.display(table)} has no version {number}", hint=hint
    )


def _with_metadata(row: Row, metadata: Mapping[str, str]) -> Change:
    changed = replace(row, metadata=metadata)
    return Change(remove=(row.object_id,), add=(changed,), answer=changed)
