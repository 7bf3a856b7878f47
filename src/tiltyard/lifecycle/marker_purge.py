"""Purging a table at a V1 location: list, claim, delete, note that nothing is left.

What may be deleted was listed before the claim, so that a purge which stalls and is taken over
never touches a table that came after. Anyone may claim again what a crash left behind.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.marker import KeptManifest, Marker, State
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableNotFoundError,
)
from tiltyard.lifecycle.markers import not_there, persistently
from tiltyard.lifecycle.recreation import Recreation
from tiltyard.store import Entry, NotThere, Progress, Store


@dataclass(frozen=True)
class Claim:
    """A purge that nobody can undo any more: what it may delete was listed before."""

    name: str
    marker: Marker
    keys: tuple[str, ...]
    bytes: int


class MarkerPurge:
    """Purges root tables at `<name>.lance`."""

    def __init__(self, store: Store, clock: Clock, recreation: Recreation) -> None:
        self._store = store
        self._clock = clock
        self._recreation = recreation

    def claim(self, name: str, generation: str | None = None) -> Claim:
        """List what a dropped table has, then take it: from here on there is no way back.

        Safe to repeat, by anyone: whoever claims again deletes what it listed itself.
        """
        return persistently(lambda: self._claim(name, generation))

    def _claim(self, name: str, generation: str | None) -> Claim:
        present = self._recreation.settled(name)
        if present.state not in (State.DELETED, State.PURGING):
            raise not_there(name, present)
        if generation not in (None, present.generation):
            raise TableNotFoundError(f"table '{name}' has no generation {generation} in the trash")
        if present.hold:
            raise InvalidTableStateError(
                f"table '{name}' is held", hint="release it before purging it"
            )
        entries = list(self._store.walk(names.table_directory(name)))
        kept = self._last_manifest(present, entries)
        floor = max(present.floor, present.version_at_drop or 0, kept.version if kept else 0)
        following = replace(present, state=State.PURGING, floor=floor, last_manifest=kept)
        claimed = marker.swap(self._store, name, present, following, self._clock)
        return Claim(
            name, claimed, tuple(_versions_last(entries)), sum(each.size for each in entries)
        )

    def _last_manifest(self, present: Marker, entries: list[Entry]) -> KeptManifest | None:
        """The highest version's manifest, from the listing or from an earlier claim."""
        folder = f"/{names.VERSIONS_DIRECTORY}/"
        found = [version_files.parse(each) for each in entries if folder in each.key]
        newest = max((each for each in found if each), key=lambda each: each.version, default=None)
        kept = present.last_manifest
        if newest is None or (kept is not None and kept.version >= newest.version):
            return kept
        try:
            body = self._store.get(newest.key).body
        except NotThere as gone:  # another purge deletes at this moment
            raise ConcurrentModificationError(f"table '{present.table}' is being purged") from gone
        return KeptManifest(newest.version, newest.key, body)

    def delete(self, claim: Claim, progress: Progress | None = None) -> None:
        """Delete exactly what was listed before the claim, the versions last."""
        self._store.delete_many(claim.keys, progress)

    def finish(self, claim: Claim) -> bool:
        """Note that nothing is left. False if another took the purge over: it does this."""
        following = replace(claim.marker, state=State.PURGED, purged_at_ms=self._clock.now_ms())
        with suppress(ConcurrentModificationError):
            marker.swap(self._store, claim.name, claim.marker, following, self._clock)
            return True
        return False


def _versions_last(entries: list[Entry]) -> list[str]:
    """While a version is left, an interrupted purge can still be seen for what it is."""
    folder = f"/{names.VERSIONS_DIRECTORY}/"
    return [each.key for each in sorted(entries, key=lambda each: folder in each.key)]
