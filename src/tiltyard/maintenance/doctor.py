"""One look at a whole catalog, which changes nothing: what is wrong, and the command that mends it.

`Doctor` examines the catalog as a whole, `TableDoctor` each of its tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

import lance

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.directory import is_lifted
from tiltyard.catalog.manifest.rows import DIRECTORY, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.marker import KeptManifest, Marker, State
from tiltyard.catalog.pylance import FAILURES
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import moment
from tiltyard.errors import TableNotFoundError, TiltyardError, redact
from tiltyard.lifecycle.trash import TrashReader
from tiltyard.maintenance.context import MaintenanceContext, Progress
from tiltyard.maintenance.inventory import TableInventory, count_fragments
from tiltyard.maintenance.orphan_candidates import ORPHAN_MIN_AGE_MS, OrphanKind
from tiltyard.maintenance.orphans import CatalogOrphans
from tiltyard.maintenance.policy import auto_cleanup_settings
from tiltyard.maintenance.recovery import RECOVERY_MIN_AGE_MS
from tiltyard.maintenance.sidecars import UnreadableSidecar
from tiltyard.maintenance.unfinished import UnfinishedOperations, hidden_markers
from tiltyard.store import Listing, LocalStore, NotThere

EXAMINING_THREADS = 8
MANY_VERSIONS = 500
MANY_FRAGMENTS = 100
SMALL_FRAGMENT_ROWS = 10_000

RECOVER, MIGRATE, PURGE = "tiltyard recover", "tiltyard migrate", "tiltyard trash purge --apply"
ORPHANS = "tiltyard orphans --apply"


class Severity(StrEnum):
    """An error loses data or stops a client, a warning will, an info is good to know."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `what` is the same word for the same thing always,
    `mend` the command that mends it."""

    severity: Severity
    what: str
    where: str
    message: str
    mend: str | None = None


def error(what: str, where: str, message: str, mend: str | None = None) -> Finding:
    return Finding(Severity.ERROR, what, where, message, mend)


def warning(what: str, where: str, message: str, mend: str | None = None) -> Finding:
    return Finding(Severity.WARNING, what, where, message, mend)


def info(what: str, where: str, message: str, mend: str | None = None) -> Finding:
    return Finding(Severity.INFO, what, where, message, mend)


class Doctor:
    """Examines one catalog."""

    def __init__(
        self,
        maintenance: MaintenanceContext,
        trash: TrashReader,
        unfinished: UnfinishedOperations,
    ) -> None:
        self._context = maintenance.context
        self._store = maintenance.context.store
        self._sidecars = maintenance.recovery.sidecars
        self._trash = trash
        self._unfinished = unfinished
        self._orphans = CatalogOrphans(maintenance.context)
        self._tables = TableDoctor(maintenance)

    def examine(self, progress: Progress | None = None) -> list[Finding]:
        """Every finding, errors first. A handful of requests for each table."""
        listing = self._store.list()
        findings: list[Finding] = []
        try:
            if self._context.manifest.is_enabled:
                findings += self._check_format()
                findings += self._check_rows(self._context.manifest.read(), listing)
            findings += self._check_markers(listing)
            findings += self._check_unfinished(listing)
            findings += self._check_trash()
            findings += self._check_orphans()
            findings += self._check_tables(progress)
        except TiltyardError as problem:
            findings.append(error("unreadable catalog", self._store.url, str(problem)))
        order = list(Severity)
        return sorted(
            findings,
            key=lambda finding: (order.index(finding.severity), finding.what, finding.where),
        )

    # -- rows

    def _check_format(self) -> Iterator[Finding]:
        try:
            is_stamped = self._context.manifest.table.is_stamped()
        except TiltyardError as problem:
            yield error("foreign format", DIRECTORY, problem.message, problem.hint)
            return
        if not is_stamped:
            yield info(
                "unstamped",
                DIRECTORY,
                "Lance's own clients have made the manifest, or rewritten it",
                "nothing: the next change through tiltyard stamps it",
            )

    def _check_rows(self, snapshot: Snapshot, listing: Listing) -> Iterator[Finding]:
        """Rows of tables whose directory is gone."""
        present = set(listing.directories)
        for object_id in snapshot.table_ids:
            row = snapshot.get(object_id)
            assert row is not None
            if self._has_files(row, present):
                continue
            if names.root_table_at(row.location or "", row.id) is not None:
                continue  # a row that only repeats a directory: an unfinished operation
            shown = names.dotted(row.id)
            message = f"its directory {row.location} is gone"
            yield error("missing directory", shown, message, f"tiltyard table deregister {shown}")

    def _has_files(self, row: Row, present: set[str]) -> bool:
        location = row.location or ""
        if names.top_directory(location) == location:
            return location in present
        return self._store.first(location) is not None

    # -- operations

    def _check_unfinished(self, listing: Listing) -> Iterator[Finding]:
        now_ms = self._context.clock.now_ms
        for unfinished in self._unfinished.find(listing):
            if now_ms() - unfinished.since_ms < RECOVERY_MIN_AGE_MS:
                continue
            shown = names.dotted(names.split_object_id(unfinished.name))
            if unfinished.kind == "row":
                message = "the manifest has a row for a table that is hidden or gone"
                yield warning("left-over row", shown, message, RECOVER)
            else:
                message = f"a {unfinished.kind} was begun and not finished"
                yield warning(f"unfinished {unfinished.kind}", shown, message, RECOVER)
        for sidecar in self._sidecars.every():
            if isinstance(sidecar, UnreadableSidecar):
                yield error("unreadable sidecar", sidecar.key, sidecar.reason, "upgrade tiltyard")
            elif now_ms() - sidecar.started_at_ms >= RECOVERY_MIN_AGE_MS:
                message = f"a {sidecar.kind.value} of {len(sidecar.tables)} tables has not ended"
                yield warning("unfinished operation", sidecar.operation, message, RECOVER)

    # -- V1 locations

    def _check_markers(self, listing: Listing) -> Iterator[Finding]:
        present = set(listing.directories)
        hidden = dict(hidden_markers(self._store, listing))
        for name, marker in hidden.items():
            if isinstance(marker, str):
                yield error("unreadable marker", name, marker, "upgrade tiltyard")
            elif names.table_directory(name) in present:
                yield from self._check_hidden(name, marker)
        at_v1 = {names.table_name(directory) for directory in listing.directories}
        visible = sorted(name for name in at_v1 if name and name not in hidden)
        if visible and not is_lifted(listing):
            message = "a listing has to look into every table"
            yield warning("not migrated", "the catalog", message, MIGRATE)
        with ThreadPoolExecutor(EXAMINING_THREADS) as pool:
            states = pool.map(lambda name: self._context.directory.look((name,)), visible)
            for state in states:
                if state.hidden_by_peer:
                    message = "one of Lance's own clients has deregistered it; listings show it"
                    mend = f"tiltyard table register {state.name} or tiltyard table drop"
                    yield warning("hidden by a peer", state.name, message, mend)

    def _check_hidden(self, name: str, marker: Marker) -> Iterator[Finding]:
        """Writes to a table that is hidden, by clients that know no markers."""
        if marker.state not in (State.PURGED, State.DELETED):
            return
        newest = version_files.latest(self._store, names.table_directory(name))
        if newest is None:
            return
        if marker.state is State.PURGED:
            if not self._is_kept(newest, marker.last_manifest):
                yield warning(
                    "created by a peer",
                    name,
                    f"the name was purged, and another client has written version "
                    f"{newest.version} there; it stays hidden",
                    f"tiltyard table register {name} {names.table_directory(name)}",
                )
        elif newest.version > (marker.version_at_drop or 0):
            yield info(
                "written in the trash",
                name,
                f"it was dropped at version {marker.version_at_drop or 0}, and is at "
                f"{newest.version} now",
                f"tiltyard table undrop {name} --keep-newer",
            )

    def _is_kept(self, newest: VersionFile, kept: KeptManifest | None) -> bool:
        """An interrupted create may have put back the last manifest of the purged table."""
        if kept is None or newest.version != kept.version:
            return False
        try:
            return self._store.get(newest.key).body == kept.body
        except NotThere:
            return True

    # -- trash and orphans

    def _check_trash(self) -> Iterator[Finding]:
        now = moment(self._context.clock.now_ms())
        for dropped in self._trash.list_tables():
            shown = names.dotted(dropped.id)
            if not dropped.restorable:
                yield warning("unfinished purge", shown, "a purge was begun", PURGE)
            elif dropped.is_purgable(now):
                yield info("trash due", shown, "its time in the trash is over", PURGE)

    def _check_orphans(self) -> Iterator[Finding]:
        """Orphans outside of tables; those that are too young for the command are left out."""
        now_ms = self._context.clock.now_ms()
        for orphan in self._orphans.directories(min_age_ms=0):
            age = moment(now_ms) - orphan.modified_at
            if orphan.kind is OrphanKind.TABLE:
                yield _unnamed_table(orphan.path)
            elif orphan.kind is OrphanKind.BOUNDARY:
                yield info("boundary without table", orphan.path, orphan.why, ORPHANS)
            elif age.total_seconds() * 1000 >= ORPHAN_MIN_AGE_MS:
                yield info("orphan", orphan.path, orphan.why, ORPHANS)
        for pin in self._orphans.pins():
            message = f"{pin.why}; its version stays whatever a clean-up is told"
            yield info("stale pin", pin.path, message, ORPHANS)
        if isinstance(self._store, LocalStore):
            ages = [now_ms - entry.modified_ms for entry in self._store.left_behind()]
            stale = sum(age_ms >= ORPHAN_MIN_AGE_MS for age_ms in ages)
            if stale:
                message = f"{stale} files were never completed"
                yield info("stale staged files", ".tiltyard/staged", message, ORPHANS)

    # -- every table

    def _check_tables(self, progress: Progress | None) -> Iterator[Finding]:
        object_ids = self._context.catalog.list_all_tables()
        with ThreadPoolExecutor(EXAMINING_THREADS) as pool:
            for done, findings in enumerate(pool.map(self._check_table, object_ids), 1):
                yield from findings
                if progress:
                    progress(done, len(object_ids))

    def _check_table(self, object_id: str) -> list[Finding]:
        try:
            table = self._context.catalog.find(names.split_object_id(object_id))
        except TableNotFoundError:
            return []
        except TiltyardError as problem:
            return [error("unreadable table", object_id, str(problem))]
        return self._tables.examine(table)


def _unnamed_table(directory: str) -> Finding:
    name = names.table_name(directory)
    if name is not None:
        message = "a table that only clients see which list directories"
        return warning("directory without row", directory, message, MIGRATE)
    message = "a table that has no name: deregistered, or what a create has left"
    mend = f"tiltyard table register or tiltyard orphans --adopt {directory}"
    return info("directory without row", directory, message, mend)


class TableDoctor:
    """Examines tables of one catalog: whether they open, who writes past the catalog, what would
    make them faster."""

    def __init__(self, maintenance: MaintenanceContext) -> None:
        self._maintenance = maintenance
        self._store = maintenance.context.store

    def examine(self, table: Table) -> list[Finding]:
        """What is wrong with one table, an error that stops the look included."""
        shown = names.dotted(table.id)
        try:
            return list(self._examine(table, shown))
        except TableNotFoundError:  # dropped since it was listed
            return []
        except (TiltyardError, *FAILURES) as problem:
            return [error("unreadable table", shown, redact(str(problem)))]

    def _examine(self, table: Table, shown: str) -> Iterator[Finding]:
        files = version_files.every(self._store, table.location)
        if not files:
            folder = f"{table.location}/{names.VERSIONS_DIRECTORY}"
            if table.only_declared is False and self._store.first(folder) is None:
                yield error("missing versions", shown, "none of its versions has a file")
            return
        if table.managed and not table.becoming_managed:
            yield from self._check_drift(table, shown)
        dataset = self._maintenance.open_table(table)
        yield from _check_settings(dataset, shown)
        yield from _check_size(dataset, len(files), shown)
        for branch in self._maintenance.branches.orphans(table, dataset):
            yield warning(
                "orphaned branch",
                f"{shown}@{branch}",
                "Lance has this branch, and the catalog's list does not",
                f"tiltyard repair {shown} --branches --apply",
            )
        stale = self._maintenance.versions.stale(table)
        if stale:
            yield info(
                "stale versions",
                shown,
                f"{len(stale)} versions were written behind the boundary and count for nothing",
                f"tiltyard repair {shown} --scrub --apply",
            )

    def _check_drift(self, table: Table, shown: str) -> Iterator[Finding]:
        drift = self._maintenance.versions.drifts.of(table)
        if not drift:
            return
        if drift.is_benign:
            message = f"{drift.summary}; no row differs"
            yield info("drift", shown, message, f"tiltyard repair {shown} --apply")
            return
        mend = f"tiltyard repair {shown} --adopt or --discard, and --apply"
        yield error("drift", shown, f"{drift.summary}, and readers do not see them", mend)


def _check_settings(dataset: lance.LanceDataset, shown: str) -> Iterator[Finding]:
    settings = auto_cleanup_settings(dataset)
    if settings:
        yield warning(
            "auto cleanup",
            shown,
            f"Lance deletes its versions, past the catalog: {', '.join(settings)}",
            f"tiltyard repair {shown} --no-auto-cleanup --apply",
        )


def _check_size(dataset: lance.LanceDataset, versions: int, shown: str) -> Iterator[Finding]:
    if versions > MANY_VERSIONS:
        message = f"it has {versions:,} versions"
        yield info("many versions", shown, message, f"tiltyard cleanup {shown}")
    counted = count_fragments(TableInventory(shown), dataset)
    is_small = counted.rows < SMALL_FRAGMENT_ROWS * counted.fragments
    if counted.fragments > MANY_FRAGMENTS and is_small:
        rows = counted.rows // counted.fragments
        message = f"it has {counted.fragments:,} fragments of {rows:,} rows each"
        yield info("small fragments", shown, message, f"tiltyard optimize {shown}")
