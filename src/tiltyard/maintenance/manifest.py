"""Upkeep of `__manifest` itself: its fragments folded together, its old versions removed.

Lance's own clients look for the version after the one that they have open, and never find the way
if both are gone. So a version goes only a long time after the next one came, by the store's clock:
whoever has used the catalog since then has a newer one open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.catalog import version_files
from tiltyard.catalog.manifest.rows import DIRECTORY
from tiltyard.catalog.manifest.table import BOUNDARY, ManifestTable
from tiltyard.errors import InvalidInputError
from tiltyard.maintenance import references, sweep
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.policy import CleanupPolicy, Duration, choose
from tiltyard.settings import duration
from tiltyard.versions.references import referred

DEFAULT_MIN_AGE = "7d"
# Far more than what a commit may take before it looks at the boundary.
LOWEST_MIN_AGE_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class CatalogOptimized:
    """What became of the manifest: `committed` tells whether its fragments were folded."""

    fragments_before: int = 0
    fragments_after: int = 0
    version: int = 0
    committed: bool = False
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0


class ManifestKeeper:
    """Looks after the manifest of one catalog."""

    def __init__(self, ground: Ground, table: ManifestTable) -> None:
        self._ground = ground
        self._table = table
        self._boundary = table.boundary

    def run(self, min_age: Duration = DEFAULT_MIN_AGE) -> CatalogOptimized:
        """Fold fragments, and remove versions that were superseded longer ago than `min_age`.

        Nothing to do costs a few requests and no commit. A catalog without a manifest has none.
        """
        seconds = duration(min_age, "min_age")
        if seconds is None or seconds < LOWEST_MIN_AGE_SECONDS:
            raise InvalidInputError(
                "versions of the catalog are kept for a day at least",
                hint="clients that have one open would never find another",
            )
        if not self._table.exists():
            return CatalogOptimized()
        self._ground.store.require_conditions()
        before = len(self._table.read().fragments)
        committed = self._table.fold()
        after = self._table.read()
        removed, swept = self._clean_up(seconds)
        return CatalogOptimized(
            before,
            len(after.fragments),
            after.version,
            committed,
            removed,
            swept.files,
            swept.bytes,
        )

    def _clean_up(self, seconds: float) -> tuple[int, sweep.Swept]:
        """The boundary first, as for tables. Two may do this at once, and any may crash."""
        store, clock = self._ground.store, self._ground.clock
        going = self._old(seconds)
        left = sweep.written_down(store, DIRECTORY)
        if not going and not left:
            return 0, sweep.Swept()
        every = {each.version: each for each in version_files.every(store, DIRECTORY)}
        if going:
            sweep.write_down(
                store, clock, DIRECTORY, self._references().only_of(references.on(None, going))
            )
            kept = self._boundary.kept()
            highest = max(going)
            staying = {v for v in every if v <= highest and v not in going and kept.shows(v)}
            self._boundary.advance(highest, staying, going)
            needed = referred(store, DIRECTORY, None)
            going = [each for each in going if each not in needed]
            store.delete_many(every[each].key for each in going)
        left = sweep.written_down(store, DIRECTORY)
        wanted = set().union(*left.values())
        referred_to = self._references().without(())
        return len(going), sweep.remove(store, DIRECTORY, list(left), wanted - referred_to)

    def _old(self, seconds: float) -> list[int]:
        store = self._ground.store
        every = version_files.every(store, DIRECTORY)
        policy = CleanupPolicy(older_than=seconds)
        needed = referred(store, DIRECTORY, None)
        now_ms, age_ms = self._now_ms(), round(seconds * 1000)
        return list(choose(every, needed, policy, now_ms, age_ms).going)

    def _now_ms(self) -> int:
        """What time it is for the store, that tells how old versions are: a clock of ours that is
        ahead would take away what is in use."""
        key = f"{BOUNDARY}/clock"
        self._ground.store.put(key, b"", durable=False)
        return self._ground.store.head(key).modified_ms

    def _references(self) -> references.References:
        ground = self._ground
        return references.read(
            ground.access,
            DIRECTORY,
            ground.retry,
            lambda: references.on(
                None, (each.version for each in version_files.every(ground.store, DIRECTORY))
            ),
        )
