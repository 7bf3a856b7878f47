"""The rows of dropped tables, as the trash shows them."""

from __future__ import annotations

from collections.abc import Iterator

from tiltyard import names
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.rows import (
    DELETED,
    DELETED_AT,
    DROPPED_BY,
    HOLD,
    REASON,
    STATE,
    TTL,
    VERSION,
    Row,
    trash_id,
)
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.clock import expiry, moment
from tiltyard.lifecycle.trash import Trashed


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
