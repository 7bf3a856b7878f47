"""The arbiter of V2 locations: every change of a table's life is one commit of the manifest.

A dropped table is a row `__trash$<generation>$<object id>`, of a shape that Lance's own clients
leave alone. Its directory is fresh for every create and never reused, so whoever finds a purge
half done may finish it. Pure edits; the committer makes them durable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog.base import no_such_table
from tiltyard.catalog.manifest import edits, versions
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.draft import Change, Draft, Edit
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
    TTL,
    VERSION,
    Row,
)
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.clock import expiry, moment
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from tiltyard.lifecycle.trash import DropTerms, Trashed
from tiltyard.names import TableId


def trash_id(table: TableId, generation: str) -> str:
    return names.object_id((names.TRASH, generation, *table))


# -- edits


def drop(
    table: TableId, location: str, generation: str, terms: DropTerms, version: int, now_ms: int
) -> Edit:
    """Move a table's row into the trash; the answer is the row that was live."""
    about = {
        STATE: DELETED,
        DELETED_AT: str(now_ms),
        TTL: "" if terms.ttl_ms is None else str(terms.ttl_ms),
        DROPPED_BY: terms.by,
        VERSION: str(version),
        **({REASON: terms.reason} if terms.reason else {}),
    }

    def edit(draft: Draft) -> Change:
        row = edits.require_table(draft, table)
        if row.location != location:
            raise ConcurrentModificationError(
                f"table {names.display(table)} was replaced by another of that name meanwhile"
            )
        require_unprotected(row)
        old, new = versions.moved(draft, row.object_id, trash_id(table, generation))
        at_drop = {VERSION: str(draft.head(row.object_id))} if row.is_managed else {}
        trashed = replace(
            row,
            object_id=trash_id(table, generation),
            metadata={**row.metadata, **about, **at_drop},
        )
        return Change(remove=(row.object_id, *old), add=(trashed, *new), answer=row)

    return edit


def undrop(table: TableId, generation: str, target: TableId) -> Edit:
    """Move a row out of the trash to a free name; the answer is the live row."""

    def edit(draft: Draft) -> Change:
        trashed = require_trashed(draft, table, generation)
        if trashed.metadata[STATE] != DELETED:
            raise TableNotFoundError(
                f"table {names.display(table)} can't be brought back: it is being purged"
            )
        _require_home(draft, target)
        existing = draft.get(names.object_id(target))
        if existing is not None:
            raise edits.taken(existing)
        kept = {key: value for key, value in trashed.metadata.items() if key not in ABOUT_THE_DROP}
        row = replace(trashed, object_id=names.object_id(target), metadata=kept)
        old, new = versions.moved(draft, trashed.object_id, row.object_id)
        return Change(remove=(trashed.object_id, *old), add=(row, *new), answer=row)

    return edit


def hold(table: TableId, generation: str, held: bool) -> Edit:
    """Keep a dropped table from being purged, or let it go again."""

    def edit(draft: Draft) -> Change:
        trashed = require_trashed(draft, table, generation)
        if trashed.metadata[STATE] != DELETED:
            raise TableNotFoundError(f"table {names.display(table)} is being purged already")
        return _with_metadata(trashed, HOLD, "1" if held else None)

    return edit


def protect(table: TableId, protected: bool) -> Edit:
    """Keep a table from being dropped, or allow it again."""

    def edit(draft: Draft) -> Change:
        return _with_metadata(
            edits.require_table(draft, table), PROTECTED, "1" if protected else None
        )

    return edit


def claim(table: TableId, generation: str) -> Edit:
    """Begin a purge, or take one over: from here on there is no way back."""

    def edit(draft: Draft) -> Change:
        trashed = require_trashed(draft, table, generation)
        if HOLD in trashed.metadata:
            raise InvalidTableStateError(
                f"table {names.display(table)} is held", hint="release it before purging it"
            )
        return _with_metadata(trashed, STATE, PURGING)

    return edit


def finish(table: TableId, generation: str) -> Edit:
    """Take out the row of a table whose files are gone; the answer is False if another did so."""

    def edit(draft: Draft) -> Change:
        row = draft.get(trash_id(table, generation))
        if row is None:
            return Change(answer=False)
        gone = (row.object_id, *versions.removed(draft, row.object_id))
        return Change(remove=gone, answer=True)

    return edit


# -- reading


def _require_home(draft: Draft, target: TableId) -> None:
    try:
        edits.require_namespace(draft, target[:-1])
    except NamespaceNotFoundError as missing:
        raise NamespaceNotFoundError(
            missing.message, hint="create it again, or bring the table back under another name"
        ) from missing


def require_trashed(draft: Draft | Snapshot, table: TableId, generation: str) -> Row:
    row = draft.get(trash_id(table, generation))
    if row is None:
        raise no_such_table(table, hint=f"its generation {generation} is not in the trash")
    return row


def require_unprotected(row: Row) -> None:
    if PROTECTED in row.metadata:
        raise InvalidTableStateError(
            f"table {names.display(row.id)} is protected", hint="unprotect it before dropping it"
        )


def trashed(snapshot: Snapshot) -> Iterator[Trashed]:
    """Every dropped table of the manifest, oldest drop first."""
    for row in sorted(snapshot.below((names.TRASH,)), key=lambda row: row.object_id):
        yield describe(row)


def describe(row: Row) -> Trashed:
    _, generation, *original = row.id
    about = row.metadata
    deleted_at_ms = int(about[DELETED_AT])
    ttl_ms = int(about[TTL]) if about.get(TTL) else None
    return Trashed(
        id=tuple(original),
        generation=generation,
        location=row.location or "",
        state=about[STATE],
        dropped_at=moment(deleted_at_ms),
        expires_at=expiry(deleted_at_ms, ttl_ms),
        dropped_by=about.get(DROPPED_BY),
        reason=about.get(REASON),
        version=int(about[VERSION]) or None,
        held=HOLD in about,
        restorable=about[STATE] == DELETED,
        properties=row.properties,
    )


def is_managed(manifest: ManifestCatalog | None, dropped: Trashed) -> bool:
    """Whether the versions of a dropped table are rows. No request beyond finding it."""
    if manifest is None:
        return False
    row = manifest.known().get(trash_id(dropped.id, dropped.generation))
    return row is not None and row.is_managed


def _with_metadata(row: Row, key: str, value: str | None) -> Change:
    metadata = {name: each for name, each in row.metadata.items() if name != key}
    if value is not None:
        metadata[key] = value
    changed = replace(row, metadata=metadata)
    if changed == row:
        return Change(answer=row)
    return Change(remove=(row.object_id,), add=(changed,), answer=changed)
