"""Deleting old versions of a table, and the files that only they referred to.

The versions go first, through the versions room: the boundary moves, what refers to versions is
read once more, and then they are deleted. `sweep` tells why their files can go after that. Branches
are looked at like the main one, and cleaned up if the policy says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.pylance import FAILURES
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import UnsupportedOperationError
from tiltyard.maintenance import references, sweep
from tiltyard.maintenance.ground import Ground
from tiltyard.maintenance.policy import Choice, CleanupPolicy, as_ranges, choose
from tiltyard.maintenance.references import At, References
from tiltyard.maintenance.warnings import about
from tiltyard.names import TableId
from tiltyard.versions.references import branches, referred

# How often a choice is made anew because a tag or a branch came in between.
TRIES = 3


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of one table, or would. `kept` tells why versions stay; `skipped` which could go
    and were left out; a `warning` is about the table's settings."""

    table: str
    versions_removed: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    versions_kept: int = 0
    kept: str = ""
    skipped: str | None = None
    warning: str | None = None
    error: str | None = None

    @property
    def is_nothing(self) -> bool:
        return not (self.versions_removed or self.files_removed)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a policy says of each branch of a table; None is the main one."""

    choices: Mapping[str | None, Choice]
    spares_branches: bool

    @property
    def going(self) -> dict[str | None, tuple[int, ...]]:
        """The versions to delete, of each branch that has some."""
        return {
            branch: choice.going
            for branch, choice in self.choices.items()
            if choice.going and not (branch and self.spares_branches)
        }

    @property
    def versions(self) -> set[At]:
        return {At(branch, each) for branch, numbers in self.going.items() for each in numbers}

    @property
    def kept(self) -> str:
        told = {branch: choice.reasons for branch, choice in self.choices.items()}
        return "; ".join(
            reasons if branch is None else f"on '{branch}': {reasons}"
            for branch, reasons in told.items()
            if reasons
        )

    @property
    def skipped(self) -> str | None:
        left = [
            f"{len(choice.going)} on '{branch}'"
            for branch, choice in self.choices.items()
            if choice.going and branch not in self.going
        ]
        return f"old versions of branches: {', '.join(left)}" if left else None

    @property
    def staying(self) -> int:
        every = sum(len(each.going) + len(each.kept) for each in self.choices.values())
        return every - len(self.versions)


class Cleaner:
    """Cleans up tables of one catalog, one at a time. Dropped tables are not touched."""

    def __init__(self, ground: Ground, policy: CleanupPolicy) -> None:
        self._ground = ground
        self._policy = policy
        self._min_age_ms = policy.min_age_ms(ground.settings.cleanup_min_age)

    def plan(self, table: TableId) -> Cleaned:
        """What a clean-up would do now. Changes nothing."""
        found = self._ground.find(table)
        plan = self._planned(found)
        row = self._row(found, plan)
        left = sweep.written_down(self._ground.store, found.location)
        if not plan.going and not left:
            return row
        known = self._references(found, plan)
        files = known.only_of(plan.versions)
        for each in left.values():
            files |= each - known.without(plan.versions)
        sizes = sweep.weigh(self._ground.store, found.location, files)
        return replace(
            row,
            versions_removed=len(plan.versions),
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
        self._finish_removals(found)
        plan = self._planned(found)
        row = self._row(found, plan)
        store, location = self._ground.store, found.location
        left = sweep.written_down(store, location)
        if not plan.going and not left:
            return row
        if plan.going:
            before = self._references(found, plan)
            sweep.write_down(store, self._ground.clock, location, before.only_of(plan.versions))
        removed = self._delete(table, plan)
        left = sweep.written_down(store, location)
        removed |= self._scrub(table, plan)
        referred_to = self._references(found, plan).without(())
        wanted = set().union(*left.values())
        swept = sweep.remove(store, location, list(left), wanted - referred_to)
        return replace(
            row,
            versions_removed=len(removed),
            files_removed=swept.files,
            bytes_removed=swept.bytes,
        )

    def _delete(self, table: TableId, plan: _Plan) -> set[At]:
        removed: set[At] = set()
        for branch, numbers in plan.going.items():
            deleted = self._ground.versions.delete(table, as_ranges(numbers), branch=branch)
            removed |= references.on(branch, deleted)
        return removed

    def _scrub(self, table: TableId, plan: _Plan) -> set[At]:
        """What stale writers left, where versions go."""
        removed: set[At] = set()
        for branch in {None, *plan.going}:
            removed |= references.on(branch, self._ground.versions.scrub(table, branch))
        return removed

    def _finish_removals(self, table: Table) -> None:
        """A branch of which only a part is left would stop everything that follows."""
        if branches(self._ground.store, table.location):
            with self._explained(table):
                dataset = self._ground.access.open(table.location)
                self._ground.branches.finish_removals(table, dataset)

    # -- what is there

    def _planned(self, table: Table) -> _Plan:
        lines = (None, *branches(self._ground.store, table.location))
        choices = {branch: self._choice(table, branch) for branch in lines}
        return _Plan(choices, spares_branches=not self._policy.branches)

    def _choice(self, table: Table, branch: str | None) -> Choice:
        ground = self._ground
        every = self._versions(table, branch)
        if len(every) < 2:
            return Choice((), {each.version: "latest" for each in every})
        needed = referred(ground.store, table.location, branch)
        return choose(every, needed, self._policy, ground.clock.now_ms(), self._min_age_ms)

    def _versions(self, table: Table, branch: str | None) -> Sequence[VersionFile]:
        versions = self._ground.versions
        return versions.every(table.id) if branch is None else versions.visible(table.id, branch)

    def _row(self, table: Table, plan: _Plan) -> Cleaned:
        warning = self._warning(table) if plan.staying else None
        return Cleaned(
            names.dotted(table.id),
            versions_kept=plan.staying,
            kept=plan.kept,
            skipped=plan.skipped,
            warning=warning,
        )

    def _warning(self, table: Table) -> str | None:
        with self._explained(table):
            return about(self._ground.access.open(table.location))

    @contextmanager
    def _explained(self, table: Table) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            doing = f"open table {names.display(table.id)}"
            raise self._ground.access.explain(error, doing) from error

    def _references(self, table: Table, plan: _Plan) -> References:
        """What refers to files. Asking for the versions also puts those in their place that are
        committed and were not copied there yet."""
        ground = self._ground
        return references.read(
            ground.access,
            table.location,
            ground.retry,
            lambda: {
                At(branch, each.version)
                for branch in {None, *plan.going}
                for each in self._versions(table, branch)
            },
        )
