"""From directories to rows: every V1 table gets a row in the manifest, in few commits.

Nothing moves: a row of a V1 table is an index of it. Once all tables have one, the catalog can be
opened with `dir_listing_enabled=false`. What Lance's own clients hid by a file inside a table's
directory is lifted to a marker at the root, so that one listing shows it; then the catalog is
stamped, and no listing looks inside a directory again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

from tiltyard import names
from tiltyard.catalog import marker
from tiltyard.catalog.base import Table
from tiltyard.catalog.directory import DirectoryCatalog, is_lifted, why_hidden
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_row
from tiltyard.catalog.manifest.edits import AllOf, IndexTable
from tiltyard.catalog.manifest.snapshot import EMPTY, Snapshot
from tiltyard.catalog.marker import State
from tiltyard.clock import Clock
from tiltyard.errors import TiltyardError
from tiltyard.store import Store

ROWS_PER_COMMIT = 10_000
PROBING_THREADS = 32


class Action(StrEnum):
    """What a migration did with a directory, or would do."""

    ADDED = "added"
    LIFTED = "lifted"
    PRESENT = "present"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Migrated:
    """One directory that looks like a V1 table, and what became of it."""

    table: str
    location: str
    action: Action
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Directories that look like V1 tables, and whether all that is hidden in them was lifted."""

    directories: tuple[str, ...]
    lifted: bool


class Migration:
    """Brings the tables of one directory into its manifest. A second run finds nothing to do."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._directory = directory
        self._manifest = manifest

    def run(
        self, *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Migrated]:
        """One listing, one look at each table without a row, one commit per 10,000 of them.

        The first run looks at those with a row too: a client that knows no rows may have hidden
        them.
        """
        found = self.look()
        if not dry_run:
            self._store.require_conditions()
        report: list[Migrated] = []
        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            snapshot = self._snapshot()
            judged = pool.map(
                lambda directory: self._judge(directory, snapshot, found.lifted), found.directories
            )
            for chunk in _chunks(judged, ROWS_PER_COMMIT):
                if not dry_run:
                    self._write(chunk)
                report.extend(chunk)
                if progress:
                    progress(len(report), len(found.directories))
        if not dry_run:
            self._directory.stamp()
        return report

    # -- the same in units, for many processes

    def look(self) -> Found:
        """Which directories there are to be judged. One listing."""
        listing = self._store.list()
        directories = tuple(each for each in listing.directories if _looks_like_v1(each))
        return Found(directories, is_lifted(listing))

    def judge(self, found: Found) -> list[Migrated]:
        """What is to be done with some directories. One look at each; what goes wrong with one is
        its own."""
        snapshot = self._snapshot()

        def judged(directory: str) -> Migrated:
            try:
                return self._judge(directory, snapshot, found.lifted)
            except TiltyardError as error:
                name = directory.removesuffix(names.TABLE_SUFFIX)
                return Migrated(name, directory, Action.FAILED, str(error))

        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            return list(pool.map(judged, found.directories))

    def finish(self, judged: Sequence[Migrated]) -> None:
        """Do what was judged, in few commits. The catalog is stamped if nothing has failed."""
        self._store.require_conditions()
        for chunk in _chunks(iter(judged), ROWS_PER_COMMIT):
            self._write(chunk)
        if not any(each.action is Action.FAILED for each in judged):
            self._directory.stamp()

    def _snapshot(self) -> Snapshot:
        return EMPTY if self._manifest is None else self._manifest.read()

    def _write(self, chunk: Sequence[Migrated]) -> None:
        self._lift([each for each in chunk if each.action is Action.LIFTED])
        self._add([each for each in chunk if each.action is Action.ADDED])

    def _judge(self, directory: str, snapshot: Snapshot, lifted: bool) -> Migrated:
        name = directory.removesuffix(names.TABLE_SUFFIX)

        def verdict(action: Action, reason: str | None = None) -> Migrated:
            return Migrated(name, directory, action, reason)

        if names.table_name(directory) is None:
            refused = names.why_refused(name) or "its name is reserved or too long"
            return verdict(Action.SKIPPED, f"not a table name: {refused}")
        if directory in snapshot.unusual_locations():
            owner = names.split_object_id(snapshot.unusual_locations()[directory])
            return verdict(Action.PRESENT, f"it is registered as {names.display(owner)}")
        row = snapshot.get(name)
        if row is not None and not row.is_table:
            return verdict(Action.SKIPPED, "a namespace has this name")
        if row is not None and row.location != directory:
            return verdict(Action.SKIPPED, "its name is at another location")
        if row is not None and lifted:
            return verdict(Action.PRESENT)
        state = self._directory.look((name,))
        if state.hidden_by_peer and not state.marker.hides:
            return verdict(Action.LIFTED, "it was deregistered by one of Lance's own clients")
        if row is not None:
            return verdict(Action.PRESENT)
        if state.is_visible and (state.has_versions or state.is_reserved):
            return verdict(Action.PRESENT if self._manifest is None else Action.ADDED)
        return verdict(Action.SKIPPED, why_hidden(state) or "it holds no Lance table")

    def _lift(self, tables: Sequence[Migrated]) -> None:
        """Say at the root what the nested file says: from then on a listing shows it."""
        for each in tables:
            present = marker.read(self._store, each.table)
            following = replace(
                present.forgotten(),
                state=State.DEREGISTERED,
                generation=self._clock.generation(),
            )
            marker.swap(self._store, each.table, present, following, self._clock)

    def _add(self, tables: Sequence[Migrated]) -> None:
        if tables:
            assert self._manifest is not None
            rows = (as_row(Table((each.table,), each.location)) for each in tables)
            self._manifest.submit(AllOf(tuple(IndexTable(row, keep=True) for row in rows)))


def _looks_like_v1(directory: str) -> bool:
    return directory.endswith(names.TABLE_SUFFIX)


def _chunks(entries: Iterator[Migrated], size: int) -> Iterator[list[Migrated]]:
    while chunk := list(islice(entries, size)):
        yield chunk
