"""Deleting old versions of a table, and the files that only they referred to.

The versions go first, through `versions`: the boundary moves, what refers to versions is read once
more, and then they are deleted. `FileRemoval` says why their files can go after that. Branches are
looked at like the main one, and cleaned up if the policy says so.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidTableStateError, UnsupportedOperationError
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.policy import (
    CleanupPolicy,
    VersionChoice,
    as_ranges,
    auto_cleanup_warning,
    choose,
)
from tiltyard.maintenance.referenced_files import (
    BranchVersion,
    FilesByVersion,
    on_branch,
    read_by_version,
)
from tiltyard.store import NotThere, Retry
from tiltyard.versions.retention import branch_names, referenced_versions

# A tag or a branch that is made after a choice of versions has them chosen again.
_CHOICES = Retry(attempts=3, first_pause=0)
_LIST_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was removed from one table, or would be. `kept` tells why versions stay, `skipped` which
    could go and were left out; a `warning` is about the table's settings."""

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


# -- files


class FileRemoval:
    """Removes files of one table that only deleted versions referred to.

    The files are written to a list before their versions are deleted, so that the next run after a
    crash knows them. They are removed once every reference that is left has been read again, after
    the boundary moved. Nothing else is ever removed: a file that no version refers to may belong to
    a writer that has not committed.

    Why a file that nothing referred to at that read stays unreferenced: a new version refers to
    what the latest one does, to files with fresh names, or, if it restores another version, to what
    that one does. The latest at that read was among those that were read. A version that is
    restored is pinned, or its row is there, when the new one is committed; so it was not among
    those that were deleted, or the new version came before the boundary moved, and was read as
    well. By induction this holds for all that follow, however long the process that removes files
    was stopped in between.
    """

    def __init__(self, context: CatalogContext, location: str) -> None:
        self._store = context.store
        self._clock = context.clock
        self._location = location
        self._folder = f"{names.BOUNDARIES}/{location}/going"

    def write_list(self, files: Collection[str]) -> None:
        """Note files that may go once their versions are deleted. One request, none for no file."""
        if not files:
            return
        relative = sorted(file.removeprefix(f"{self._location}/") for file in files)
        body = {"format": _LIST_FORMAT, "files": relative}
        self._store.put(f"{self._folder}/{self._clock.token(16)}.json", json.dumps(body).encode())

    def read_lists(self) -> dict[str, set[str]]:
        """The files of every list whose files were not removed yet, by the key of the list. One
        request, and one for each list."""
        lists: dict[str, set[str]] = {}
        for entry in self._store.list(self._folder).objects:
            try:
                body = json.loads(self._store.get(entry.key).body)
                if body["format"] != _LIST_FORMAT:
                    raise ValueError(f"format {body['format']}")
                lists[entry.key] = {f"{self._location}/{file}" for file in body["files"]}
            except NotThere:  # another process has finished it since
                continue
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidTableStateError(
                    f"{entry.key} is not one that this version of tiltyard understands: {error}",
                    hint="upgrade tiltyard; the file was left as it is",
                ) from error
        return lists

    def sizes(self, files: Collection[str]) -> dict[str, int]:
        """The sizes of those of the files that exist, and of the blobs that belong to them.

        Blobs lie in a folder that has the name of their data file. One request per 1,000 files of
        the table.
        """
        if not files:
            return {}
        folders = {file.removesuffix(".lance") for file in files if "/data/" in file}
        return {
            entry.key: entry.size
            for entry in self._store.walk(self._location)
            if entry.key in files or entry.key.rpartition("/")[0] in folders
        }

    def remove(self, lists: Mapping[str, set[str]], referenced: Collection[str]) -> tuple[int, int]:
        """Remove the files of lists that nothing refers to, and then the lists; returns how many
        files that were, and their bytes."""
        sizes = self.sizes(set().union(*lists.values()).difference(referenced))
        if sizes:
            self._store.delete_many(sorted(sizes))
        self._store.delete_many(list(lists))
        return len(sizes), sum(sizes.values())


# -- versions


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a policy says of each branch of a table; None is the main one."""

    choices: Mapping[str | None, VersionChoice]
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
    def versions(self) -> set[BranchVersion]:
        return set().union(*(on_branch(branch, numbers) for branch, numbers in self.going.items()))

    @property
    def kept(self) -> str:
        by_branch = {branch: choice.reasons for branch, choice in self.choices.items()}
        return "; ".join(
            reasons if branch is None else f"on '{branch}': {reasons}"
            for branch, reasons in by_branch.items()
            if reasons
        )

    @property
    def skipped(self) -> str | None:
        spared = [
            f"{len(choice.going)} on '{branch}'"
            for branch, choice in self.choices.items()
            if choice.going and branch not in self.going
        ]
        return f"old versions of branches: {', '.join(spared)}" if spared else None

    @property
    def staying(self) -> int:
        every = sum(len(choice.going) + len(choice.kept) for choice in self.choices.values())
        return every - len(self.versions)


class Cleaner:
    """Cleans up tables of one catalog, one at a time. Dropped tables are not touched."""

    def __init__(self, maintenance: MaintenanceContext, policy: CleanupPolicy) -> None:
        self._maintenance = maintenance
        self._context = maintenance.context
        self._policy = policy
        self._min_age_ms = policy.min_age_ms(self._context.settings.cleanup_min_age)

    def plan(self, id: TableId) -> Cleaned:
        """What a clean-up would do now. Changes nothing."""
        table = self._context.catalog.find(id)
        plan = self._choose(table)
        row = self._row(table, plan)
        removal = FileRemoval(self._context, table.location)
        lists = removal.read_lists()
        if not plan.going and not lists:
            return row
        references = self._read_references(table, plan)
        files = references.only_of(plan.versions)
        files |= set().union(*lists.values()) - references.except_of(plan.versions)
        sizes = removal.sizes(files)
        return replace(
            row,
            versions_removed=len(plan.versions),
            files_removed=len(sizes),
            bytes_removed=sum(sizes.values()),
        )

    def run(self, id: TableId) -> Cleaned:
        """Clean up one table, and finish what an earlier run has left undone.

        Without anything to do it costs a few requests, and writes nothing.
        """
        self._context.store.require_conditions()
        with self._maintenance.lock_table(id):
            return _CHOICES.on(UnsupportedOperationError, lambda: self._run(id))

    def _run(self, id: TableId) -> Cleaned:
        table = self._context.catalog.find(id)
        self._finish_branch_removals(table)
        plan = self._choose(table)
        row = self._row(table, plan)
        removal = FileRemoval(self._context, table.location)
        lists = removal.read_lists()
        if not plan.going and not lists:
            return row
        if plan.going:
            removal.write_list(self._read_references(table, plan).only_of(plan.versions))
        removed = self._delete_versions(id, plan)
        lists = removal.read_lists()
        removed |= self._scrub(id, plan)
        referenced = self._read_references(table, plan).except_of(())
        files, size = removal.remove(lists, referenced)
        return replace(row, versions_removed=len(removed), files_removed=files, bytes_removed=size)

    def _delete_versions(self, id: TableId, plan: _Plan) -> set[BranchVersion]:
        removed: set[BranchVersion] = set()
        for branch, numbers in plan.going.items():
            deleted = self._maintenance.versions.delete(id, as_ranges(numbers), branch=branch)
            removed |= on_branch(branch, deleted)
        return removed

    def _scrub(self, id: TableId, plan: _Plan) -> set[BranchVersion]:
        """Delete what writers left behind the boundary, on branches whose versions go."""
        removed: set[BranchVersion] = set()
        for branch in {None, *plan.going}:
            removed |= on_branch(branch, self._maintenance.versions.scrub(id, branch))
        return removed

    def _finish_branch_removals(self, table: Table) -> None:
        """A branch that was removed in part can't be read, which would stop the clean-up."""
        if branch_names(self._context.store, table.location):
            with self._opening(table):
                dataset = self._context.lance.open(table.location)
                self._maintenance.branches.finish_removals(table, dataset)

    # -- reading

    def _choose(self, table: Table) -> _Plan:
        every = (None, *branch_names(self._context.store, table.location))
        choices = {branch: self._choose_on(table, branch) for branch in every}
        return _Plan(choices, spares_branches=not self._policy.branches)

    def _choose_on(self, table: Table, branch: str | None) -> VersionChoice:
        versions = self._versions(table, branch)
        if len(versions) < 2:
            return VersionChoice((), {version.version: "latest" for version in versions})
        references = referenced_versions(self._context.store, table.location, branch)
        now_ms = self._context.clock.now_ms()
        return choose(versions, references, self._policy, now_ms, self._min_age_ms)

    def _versions(self, table: Table, branch: str | None) -> Sequence[VersionFile]:
        versions = self._maintenance.versions
        return versions.every(table.id) if branch is None else versions.visible(table.id, branch)

    def _row(self, table: Table, plan: _Plan) -> Cleaned:
        warning = None
        if plan.staying:
            with self._opening(table):
                warning = auto_cleanup_warning(self._context.lance.open(table.location))
        return Cleaned(
            names.dotted(table.id),
            versions_kept=plan.staying,
            kept=plan.kept,
            skipped=plan.skipped,
            warning=warning,
        )

    @contextmanager
    def _opening(self, table: Table) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            doing = f"open table {names.display(table.id)}"
            raise self._context.lance.explain(error, doing) from error

    def _read_references(self, table: Table, plan: _Plan) -> FilesByVersion:
        """What refers to files. Listing the versions also copies those to their place that are
        committed and were not copied yet."""

        def present() -> set[BranchVersion]:
            return {
                BranchVersion(branch, version.version)
                for branch in {None, *plan.going}
                for version in self._versions(table, branch)
            }

        return read_by_version(self._context, table.location, self._maintenance.retry, present)
