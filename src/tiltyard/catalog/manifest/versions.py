"""Versions of tables as rows: `<table id>$<number>`, and what may be done to them.

The head of a table is its highest row, which is never deleted, so the commit that adds the next is
the one that decides who has its number. The boundary stands in the row of the table. All guards are
inside the edits: what an edit found true is true of the commit that carries it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from tiltyard import names
from tiltyard.catalog.base import no_such_table
from tiltyard.catalog.manifest.draft import Change, Draft, Edit
from tiltyard.catalog.manifest.rows import (
    ARRIVING,
    BOUNDARY,
    HIDDEN_AT,
    HIDDEN_BECAUSE,
    MANAGED,
    MANIFEST_PATH,
    MANIFEST_SIZE,
    NAMED,
    STAGED,
    TABLE_VERSION,
    TIMESTAMP,
    TRANSACTION,
    VERSIONS,
    Row,
)
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableVersionNotFoundError,
    VersionBehindBoundaryError,
)
from tiltyard.names import DELIMITER, TableId


class NotManagedError(ConcurrentModificationError):
    """The versions of this table are files, not rows, or not all of them are rows yet."""


class DriftedError(ConcurrentModificationError):
    """Others wrote versions to the directory of a managed table past the catalog."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A version that a writer wants to add: based on which, by which transaction, and which older
    one it brings back."""

    table: TableId
    location: str
    file: VersionFile
    base: int
    transaction: str
    staged: str
    restored: int | None = None


def boundary_of(row: Row) -> int:
    return int(row.metadata.get(BOUNDARY, "0"))


def file_of(number: int, row: Row) -> VersionFile:
    """What a row tells of a version."""
    about = row.metadata
    size, modified = about.get(MANIFEST_SIZE), about.get(TIMESTAMP)
    return VersionFile(
        number,
        about[MANIFEST_PATH],
        int(size) if size else 0,
        int(modified) if modified else None,
    )


def row_of(table: str, file: VersionFile, **metadata: str) -> Row:
    about = {MANIFEST_PATH: file.key, MANIFEST_SIZE: str(file.size)}
    if file.modified_ms is not None:
        about[TIMESTAMP] = str(file.modified_ms)
    return Row(f"{table}{DELIMITER}{file.version}", TABLE_VERSION, None, {**about, **metadata})


def owner_of(row: Row) -> str:
    """The id of the table that a version belongs to."""
    return row.object_id.rpartition(DELIMITER)[0]


def number_of(row: Row) -> int:
    return int(row.object_id.rpartition(DELIMITER)[2])


def is_hidden(row: Row) -> bool:
    return HIDDEN_AT in row.metadata


# -- edits


def add(wanted: Proposal) -> Edit:
    """Add the next version of a table; the answer is its row, also if it is there already."""

    def edit(draft: Draft) -> Change:
        row = require_managed(draft, wanted.table, wanted.location)
        number = wanted.file.version
        taken = draft.version_row(row.object_id, number)
        if taken is not None and taken.metadata.get(TRANSACTION) == wanted.transaction:
            return Change(answer=taken)
        boundary = boundary_of(row)
        if boundary > wanted.base:  # Guard A: what came after it may be gone
            raise VersionBehindBoundaryError.of(wanted.base, boundary)
        head = draft.head(row.object_id)
        if number <= head:
            raise ConcurrentModificationError(
                f"version {number} of table {names.display(wanted.table)} is another's",
                hint="rebase onto it and commit again",
            )
        if number > head + 1:
            raise DriftedError(
                f"version {number} of table {names.display(wanted.table)} can't follow {head}",
                hint="others wrote to its directory past the catalog: health.repair_table settles "
                "whether that counts",
            )
        restored = wanted.restored
        if restored is not None and draft.version_row(row.object_id, restored) is None:
            raise missing(wanted.table, restored)  # its files may be gone
        about = {TRANSACTION: wanted.transaction, STAGED: wanted.staged}
        added = row_of(row.object_id, wanted.file, **about)
        return Change(add=(added,), answer=added)

    return edit


def raise_boundary(table: TableId, location: str, to: int) -> Edit:
    """Give up the numbers up to this one, before their rows go. The answer is the table's row."""

    def edit(draft: Draft) -> Change:
        row = require_managed(draft, table, location)
        if to >= draft.head(row.object_id):
            raise ConcurrentModificationError(f"{to} is not below the head of the table")
        if boundary_of(row) >= to:
            return Change(answer=row)
        raised = replace(row, metadata={**row.metadata, BOUNDARY: str(to)})
        return Change(remove=(row.object_id,), add=(raised,), answer=raised)

    return edit


def remove(
    table: TableId,
    location: str,
    numbers: Collection[int],
    seen: Mapping[int, Row] | None = None,
) -> Edit:
    """Take out the rows of versions behind the boundary; the answer is those that were there.

    Rows that are no longer as they were `seen` stay: see `confirm`.
    """

    def edit(draft: Draft) -> Change:
        row = require_managed(draft, table, location)
        assert max(numbers, default=0) <= boundary_of(row)
        found = [(each, draft.version_row(row.object_id, each)) for each in sorted(numbers)]
        there = [
            (number, each)
            for number, each in found
            if each is not None and (seen is None or seen.get(number) == each)
        ]
        return Change(remove=tuple(each.object_id for _, each in there), answer=there)

    return edit


def confirm(table: TableId, location: str, number: int, nonce: str) -> Edit:
    """Make sure that a version stays which a name refers to since a moment ago.

    Behind the boundary a row may be one that stays, or one whose collector has read the names
    already and is about to remove it. The row is changed, and a collector leaves it alone then.
    """

    def edit(draft: Draft) -> Change:
        owner = require_managed(draft, table, location)
        row = draft.version_row(owner.object_id, number)
        if row is None:
            raise missing(table, number)
        if number > boundary_of(owner):
            return Change(answer=row)
        named = replace(row, metadata={**row.metadata, NAMED: nonce})
        return Change(remove=(row.object_id,), add=(named,), answer=named)

    return edit


def hide(table: TableId, number: int, now_ms: int, because: str | None) -> Edit:
    """Keep readers from a version, and leave it where it is."""

    def edit(draft: Draft) -> Change:
        owner, row = _require_version(draft, table, number)
        if number == draft.head(owner.object_id):
            raise InvalidTableStateError(
                f"version {number} is the latest of table {names.display(table)}, and can't be "
                f"hidden: the next one would build on it",
                hint="restore an older version first",
            )
        kept = {key: each for key, each in row.metadata.items() if key != HIDDEN_BECAUSE}
        reason = {HIDDEN_BECAUSE: because} if because else {}
        hidden = replace(row, metadata={**kept, HIDDEN_AT: str(now_ms), **reason})
        return Change(remove=(row.object_id,), add=(hidden,), answer=hidden)

    return edit


def show(table: TableId, number: int) -> Edit:
    """Let readers see a version again."""

    def edit(draft: Draft) -> Change:
        _, row = _require_version(draft, table, number)
        if not is_hidden(row):
            return Change(answer=row)
        gone = (HIDDEN_AT, HIDDEN_BECAUSE)
        kept = {key: each for key, each in row.metadata.items() if key not in gone}
        shown = replace(row, metadata=kept)
        return Change(remove=(row.object_id,), add=(shown,), answer=shown)

    return edit


# -- from files to rows, and along with their table


def announce(table: TableId, location: str) -> Edit:
    """Say that a table's versions will be rows: no writer trusts the directory from here on."""

    def edit(draft: Draft) -> Change:
        row = draft.get(names.object_id(table))
        if row is None or not row.is_table or row.location != location or row.is_managed:
            return Change(answer=row)
        announced = replace(row, metadata={**row.metadata, VERSIONS: ARRIVING})
        return Change(remove=(row.object_id,), add=(announced,), answer=announced)

    return edit


def arrive(table: TableId, location: str, files: Iterable[VersionFile], boundary: int) -> Edit:
    """Make rows of the versions that the directory had after the announcement.

    A table that has rows already stays as it is: what lies above its head was written past the
    catalog, maybe on top of a version that was replaced since. The answer is how many are new.
    """
    every = sorted(files, key=lambda each: each.version)

    def edit(draft: Draft) -> Change:
        row = draft.get(names.object_id(table))
        if row is None or row.location != location or not row.is_managed:
            return Change(answer=0)
        if row.metadata[VERSIONS] == MANAGED:
            return Change(answer=0)
        added = tuple(row_of(row.object_id, each) for each in every)
        about = {**row.metadata, VERSIONS: MANAGED}
        if boundary:
            about[BOUNDARY] = str(boundary)
        managed = replace(row, metadata=about)
        return Change(remove=(row.object_id,), add=(managed, *added), answer=len(added))

    return edit


def born(row: Row, files: Iterable[VersionFile]) -> tuple[Row, ...]:
    """The rows of a table that is managed from the beginning, and of what it has."""
    managed = replace(row, metadata={**row.metadata, VERSIONS: MANAGED})
    return (managed, *(row_of(row.object_id, each) for each in files))


def moved(draft: Draft, old: str, new: str) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """The rows of a table's versions under its old id, which go, and under its new one."""
    every = draft.version_rows(old)
    return (
        tuple(row.object_id for _, row in every),
        tuple(replace(row, object_id=f"{new}{DELIMITER}{number}") for number, row in every),
    )


def removed(draft: Draft, table: str) -> tuple[str, ...]:
    return moved(draft, table, table)[0]


# -- what edits ask of a draft


def require_managed(draft: Draft, table: TableId, location: str) -> Row:
    """The row of a table whose versions are rows, where it was found."""
    row = draft.get(names.object_id(table))
    if row is None or not row.is_table:
        raise no_such_table(table)
    if row.location != location:
        raise ConcurrentModificationError(
            f"table {names.display(table)} was replaced by another of that name meanwhile"
        )
    if row.metadata.get(VERSIONS) != MANAGED:
        raise NotManagedError(f"the versions of table {names.display(table)} are not rows yet")
    return row


def _require_version(draft: Draft, table: TableId, number: int) -> tuple[Row, Row]:
    owner = draft.get(names.object_id(table))
    if owner is None or not owner.is_table:
        raise no_such_table(table)
    row = draft.version_row(owner.object_id, number)
    if row is None:
        raise missing(table, number)
    return owner, row


def missing(table: TableId, number: int, about: Mapping[str, str] | None = None) -> Exception:
    """The error for a version that is not there, or hidden."""
    hint = None
    if about is not None:
        because = about.get(HIDDEN_BECAUSE)
        hint = "it is hidden" + (f": {because}" if because else "") + "; versions.show shows it"
    return TableVersionNotFoundError(
        f"table {names.display(table)} has no version {number}", hint=hint
    )
