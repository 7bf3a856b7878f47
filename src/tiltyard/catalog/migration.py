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

from tiltyard.catalog import marker, names
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.directory import is_lifted, why_hidden
from tiltyard.catalog.manifest.catalog import as_row
from tiltyard.catalog.manifest.edits import AllOf, IndexTable
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import State
from tiltyard.errors import TiltyardError

ROWS_PER_COMMIT = 10_000
PROBING_THREADS = 32


class MigrationAction(StrEnum):
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
    action: MigrationAction
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class V1Directories:
    """Directories that look like V1 tables, and whether all that is hidden in them was lifted."""

    directories: tuple[str, ...]
    lifted: bool


class Migration:
    """Brings the tables of one directory into its manifest. A second run finds nothing to do."""

    def __init__(self, context: CatalogContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._directory = context.directory
        self._manifest = context.manifest

    def run(
        self, *, dry_run: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> list[Migrated]:
        """One listing, one look at each table without a row, one commit per 10,000 of them.

        The first run looks at those with a row too: a client that knows no rows may have hidden
        them.
        """
        listed = self.look()
        if not dry_run:
            self._store.require_conditions()
        report: list[Migrated] = []
        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            snapshot = self._manifest.read()
            judged = pool.map(
                lambda directory: self._judge(directory, snapshot, listed.lifted),
                listed.directories,
            )
            for chunk in _chunks(judged, ROWS_PER_COMMIT):
                if not dry_run:
                    self._write(chunk)
                report.extend(chunk)
                if progress:
                    progress(len(report), len(listed.directories))
        if not dry_run:
            self._directory.stamp()
        return report

    # -- the same in units, for many processes

    def look(self) -> V1Directories:
        """Which directories there are to be judged. One listing."""
        listing = self._store.list()
        directories = [name for name in listing.directories if name.endswith(names.TABLE_SUFFIX)]
        return V1Directories(tuple(directories), is_lifted(listing))

    def judge(self, listed: V1Directories) -> list[Migrated]:
        """What is to be done with some directories. One look at each; what goes wrong with one is
        its own."""
        snapshot = self._manifest.read()

        def judged(directory: str) -> Migrated:
            try:
                return self._judge(directory, snapshot, listed.lifted)
            except TiltyardError as error:
                name = directory.removesuffix(names.TABLE_SUFFIX)
                return Migrated(name, directory, MigrationAction.FAILED, str(error))

        with ThreadPoolExecutor(PROBING_THREADS) as pool:
            return list(pool.map(judged, listed.directories))

    def finish(self, judged: Sequence[Migrated]) -> None:
        """Do what was judged, in few commits. The catalog is stamped if nothing has failed."""
        self._store.require_conditions()
        for chunk in _chunks(iter(judged), ROWS_PER_COMMIT):
            self._write(chunk)
        if not any(table.action is MigrationAction.FAILED for table in judged):
            self._directory.stamp()

    def _write(self, chunk: Sequence[Migrated]) -> None:
        self._lift([table for table in chunk if table.action is MigrationAction.LIFTED])
        self._add([table for table in chunk if table.action is MigrationAction.ADDED])

    def _judge(self, directory: str, snapshot: Snapshot, lifted: bool) -> Migrated:
        name = directory.removesuffix(names.TABLE_SUFFIX)

        def verdict(action: MigrationAction, reason: str | None = None) -> Migrated:
            return Migrated(name, directory, action, reason)

        if names.table_name(directory) is None:
            refused = names.why_refused(name) or "its name is reserved or too long"
            return verdict(MigrationAction.SKIPPED, f"not a table name: {refused}")
        if directory in snapshot.unusual_locations:
            owner = names.split_object_id(snapshot.unusual_locations[directory])
            return verdict(MigrationAction.PRESENT, f"it is registered as {names.display(owner)}")
        row = snapshot.get(name)
        if row is not None and not row.is_table:
            return verdict(MigrationAction.SKIPPED, "a namespace has this name")
        if row is not None and row.location != directory:
            return verdict(MigrationAction.SKIPPED, "its name is at another location")
        if row is not None and lifted:
            return verdict(MigrationAction.PRESENT)
        state = self._directory.look((name,))
        if state.hidden_by_peer and not state.marker.hides:
            reason = "it was deregistered by one of Lance's own clients"
            return verdict(MigrationAction.LIFTED, reason)
        if row is not None:
            return verdict(MigrationAction.PRESENT)
        if state.is_visible and (state.has_versions or state.is_reserved):
            has_rows = self._manifest.is_enabled
            return verdict(MigrationAction.ADDED if has_rows else MigrationAction.PRESENT)
        return verdict(MigrationAction.SKIPPED, why_hidden(state) or "it holds no Lance table")

    def _lift(self, tables: Sequence[Migrated]) -> None:
        """Say at the root what the nested file says: from then on a listing shows it."""
        for table in tables:
            present = marker.read(self._store, table.table)
            following = replace(
                present.forgotten(),
                state=State.DEREGISTERED,
                generation=self._clock.generation(),
            )
            marker.swap(self._store, table.table, present, following, self._clock)

    def _add(self, tables: Sequence[Migrated]) -> None:
        if tables:
            rows = (as_row(Table((table.table,), table.location)) for table in tables)
            self._manifest.submit(AllOf(tuple(IndexTable(row, keep=True) for row in rows)))


def _chunks(entries: Iterator[Migrated], size: int) -> Iterator[list[Migrated]]:
    while chunk := list(islice(entries, size)):
        yield chunk
