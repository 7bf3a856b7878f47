"""Edits of a table's lifecycle where the manifest decides: each drop, undrop or purge is a commit.

A dropped table is a row `__trash$<generation>$<object id>`, of a shape that Lance's own clients
leave alone. Its directory is fresh for every create and never reused, so anyone may finish a purge
that was interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiltyard.catalog import names
from tiltyard.catalog.base import DropTerms
from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits.base import Edit
from tiltyard.catalog.manifest.edits.versions import version_ids, with_new_id
from tiltyard.catalog.manifest.rows import (
    ABOUT_THE_DROP,
    DELETED,
    DELETED_AT,
    DROPPED_BY,
    HOLD,
    PROTECTED,
    PURGING,
    REASON,
    STATE,
    TABLE,
    TTL,
    VERSION,
    Row,
    trash_id,
)
from tiltyard.catalog.names import TableId
from tiltyard.errors import InvalidTableStateError, NamespaceNotFoundError, TableNotFoundError


@dataclass(frozen=True)
class DropTable(Edit, kind="drop_table"):
    """Move a table's row into the trash; the answer is the row that was live."""

    table: TableId
    location: str
    generation: str
    terms: DropTerms
    version: int
    now_ms: int

    def apply(self, draft: Draft) -> Change:
        row = draft.require_table(self.table, self.location)
        if PROTECTED in row.metadata:
            raise InvalidTableStateError(
                f"table {names.display(row.id)} is protected",
                hint="unprotect it before dropping it",
            )
        version = draft.head(row.object_id) if row.is_managed else self.version
        trashed = replace(
            row,
            object_id=trash_id(self.table, self.generation),
            metadata={**row.metadata, **_about_the_drop(self.terms, version, self.now_ms)},
        )
        old, new = with_new_id(draft, row.object_id, trashed.object_id)
        return Change(remove=(row.object_id, *old), add=(trashed, *new), answer=row)


@dataclass(frozen=True)
class AdoptTable(Edit, kind="adopt_table"):
    """Put a table that has no row into the trash; the answer is its row.

    InvalidTableStateError if a row has the location.
    """

    table: TableId
    location: str
    generation: str
    terms: DropTerms
    version: int
    now_ms: int

    def apply(self, draft: Draft) -> Change:
        owner = draft.owner(self.location)
        if owner is not None:
            raise InvalidTableStateError(
                f"'{self.location}' belongs to {names.display(names.split_object_id(owner))}"
            )
        about = _about_the_drop(self.terms, self.version, self.now_ms)
        row = Row(trash_id(self.table, self.generation), TABLE, self.location, about)
        return Change(add=(row,), answer=row)


@dataclass(frozen=True)
class UndropTable(Edit, kind="undrop_table"):
    """Move a row out of the trash to a free name; the answer is the live row."""

    table: TableId
    generation: str
    target: TableId

    def apply(self, draft: Draft) -> Change:
        trashed = draft.require_trashed(self.table, self.generation)
        if trashed.metadata[STATE] != DELETED:
            raise TableNotFoundError(
                f"table {names.display(self.table)} can't be brought back: it is being purged"
            )
        self._require_namespace(draft)
        draft.require_free(names.object_id(self.target))
        kept = {key: value for key, value in trashed.metadata.items() if key not in ABOUT_THE_DROP}
        row = replace(trashed, object_id=names.object_id(self.target), metadata=kept)
        old, new = with_new_id(draft, trashed.object_id, row.object_id)
        return Change(remove=(trashed.object_id, *old), add=(row, *new), answer=row)

    def _require_namespace(self, draft: Draft) -> None:
        try:
            draft.require_namespace(self.target[:-1])
        except NamespaceNotFoundError as missing:
            raise NamespaceNotFoundError(
                missing.message, hint="create it again, or bring the table back under another name"
            ) from missing


@dataclass(frozen=True)
class HoldTable(Edit, kind="hold_table"):
    """Keep a dropped table from being purged, or allow it again."""

    table: TableId
    generation: str
    held: bool

    def apply(self, draft: Draft) -> Change:
        trashed = draft.require_trashed(self.table, self.generation)
        if trashed.metadata[STATE] != DELETED:
            raise TableNotFoundError(f"table {names.display(self.table)} is being purged already")
        return _with_metadata(trashed, HOLD, "1" if self.held else None)


@dataclass(frozen=True)
class ProtectTable(Edit, kind="protect_table"):
    """Keep a table from being dropped, or allow it again."""

    table: TableId
    protected: bool

    def apply(self, draft: Draft) -> Change:
        row = draft.require_table(self.table)
        return _with_metadata(row, PROTECTED, "1" if self.protected else None)


@dataclass(frozen=True)
class ClaimPurge(Edit, kind="claim_purge"):
    """Begin a purge, or take one over: from here on the table can't be undropped."""

    table: TableId
    generation: str

    def apply(self, draft: Draft) -> Change:
        trashed = draft.require_trashed(self.table, self.generation)
        if HOLD in trashed.metadata:
            raise InvalidTableStateError(
                f"table {names.display(self.table)} is held", hint="release it before purging it"
            )
        return _with_metadata(trashed, STATE, PURGING)


@dataclass(frozen=True)
class FinishPurge(Edit, kind="finish_purge"):
    """Remove the row of a table whose files are deleted; the answer is False if another did so."""

    table: TableId
    generation: str

    def apply(self, draft: Draft) -> Change:
        row = draft.get(trash_id(self.table, self.generation))
        if row is None:
            return Change(answer=False)
        gone = (row.object_id, *version_ids(draft, row.object_id))
        return Change(remove=gone, answer=True)


def _about_the_drop(terms: DropTerms, version: int, now_ms: int) -> dict[str, str]:
    return {
        STATE: DELETED,
        DELETED_AT: str(now_ms),
        TTL: "" if terms.ttl_ms is None else str(terms.ttl_ms),
        DROPPED_BY: terms.by,
        VERSION: str(version),
        **({REASON: terms.reason} if terms.reason else {}),
    }


def _with_metadata(row: Row, key: str, value: str | None) -> Change:
    metadata = {name: entry for name, entry in row.metadata.items() if name != key}
    if value is not None:
        metadata[key] = value
    changed = replace(row, metadata=metadata)
    if changed == row:
        return Change(answer=row)
    return Change(remove=(row.object_id,), add=(changed,), answer=changed)
