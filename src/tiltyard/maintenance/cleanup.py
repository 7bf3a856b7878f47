"""Deleting old versions of a table, and the files that only they referred to.

The versions go first, through the versions room: the boundary moves, what refers to versions is
read once more, and then they are deleted. `sweep` tells why their files can go after that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import UnsupportedOperationError
from tiltyard.maintenance import references, sweep
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.policy import Choice, CleanupPolicy, as_ranges, choose
from tiltyard.maintenance.warnings import about
from tiltyard.names import TableId
from tiltyard.versions.references import referred

# How often a choice is made anew because a tag or a branch came in between.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of one table, or would. `kept` tells why versions stay; a `warning` is about
    the table's settings."""

    table: str
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    versions_kept: int = 0
    kept: str = ""
    warning: str | None = None
    error: str | None = None

    @property
    def is_nothing(self) -> bool:
        return not (self.versions_removed or self.files_removed)


class Cleaner:
    """Cleans up tables of one catalog, one at a time. Dropped tables are not touched."""

    def __init__(self, ground: Ground, policy: CleanupPolicy) -> None:
        self._ground = ground
        self._policy = policy
        self._min_age_ms = policy.min_age_ms(ground.settings.cleanup_min_age)

    def plan(self, table: TableId) -> Cleaned:
        """What a clean-up would do now. Changes nothing."""
        found = self._ground.find(table)
        choice = self._choice(found)
        row = self._row(found, choice)
        left = sweep.written_down(self._ground.store, found.location)
        if not choice.going and not left:
            return row
        known = self._references(found)
        files = known.only_of(choice.going)
        for each in left.values():
            files |= each - known.without(choice.going)
        sizes = sweep.weigh(self._ground.store, found.location, files)
        return replace(
            row,
            versions_removed=len(choice.going),
            files_removed=len(sizes),
            bytes_removed=sum(sizes.values()),
        )

    def run(self, table: TableId) -> Cleaned:
        """Clean up one table, and finish what an earlier run has left undone.

        Without anything to do it costs a few requests, and writes nothing.
        """
        self._ground.store.require_conditions()
        with self._ground.turn(table):
            for _ in range(TRIES - 1):
                try:
                    return self._run(table)
                except UnsupportedOperationError:  # a tag or a branch came since: choose again
                    continue
            return self._run(table)

    def _run(self, table: TableId) -> Cleaned:
        found = self._ground.find(table)
        choice = self._choice(found)
        row = self._row(found, choice)
        store, location = self._ground.store, found.location
        left = sweep.written_down(store, location)
        if not choice.going and not left:
            return row
        removed: set[int] = set()
        if choice.going:
            before = self._references(found)
            sweep.write_down(store, self._ground.world, location, before.only_of(choice.going))
            removed.update(self._ground.versions.delete(table, as_ranges(choice.going)))
        left = sweep.written_down(store, location)
        removed.update(self._ground.versions.scrub(table))
        referred_to = self._references(found).without(())
        wanted = set().union(*left.values())
        swept = sweep.remove(store, location, list(left), wanted - referred_to)
        return replace(
            row,
            versions_removed=len(removed),
            files_removed=swept.files,
            bytes_removed=swept.bytes,
        )

    def _choice(self, table: Table) -> Choice:
        ground = self._ground
        every = ground.versions.every(table.id)
        if len(every) < 2:
            return Choice((), {each.version: "latest" for each in every})
        needed = referred(ground.store, table.location, None)
        return choose(every, needed, self._policy, ground.world.now_ms(), self._min_age_ms)

    def _row(self, table: Table, choice: Choice) -> Cleaned:
        warning = self._warning(table) if choice.kept else None
        return Cleaned(
            names.dotted(table.id),
            versions_kept=len(choice.kept),
            kept=choice.reasons,
            warning=warning,
        )

    def _warning(self, table: Table) -> str | None:
        try:
            return about(self._ground.access.open(table.location))
        except FAILURES as error:
            doing = f"open table {names.display(table.id)}"
            raise self._ground.access.explain(error, doing) from error

    def _references(self, table: Table) -> references.References:
        """What refers to files. Asking for the versions also puts those in their place that are
        committed and were not copied there yet."""
        ground = self._ground
        return references.read(
            ground.access,
            table.location,
            ground.retry,
            lambda: {each.version for each in ground.versions.every(table.id)},
        )
