"""One look at a whole catalog, which changes nothing: what is amiss, and the command that mends it.

What concerns one table is in `checkup`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.directory import DirectoryCatalog, is_lifted
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.rows import DIRECTORY, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.manifest.table import ManifestTable
from tiltyard.catalog.marker import KeptManifest, Marker, State
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock, moment
from tiltyard.errors import TableNotFoundError, TiltyardError
from tiltyard.lifecycle.trash import TrashReader
from tiltyard.maintenance.beside import Beside
from tiltyard.maintenance.checkup import Checkup
from tiltyard.maintenance.findings import Finding, Severity, error, info, warning
from tiltyard.maintenance.leftovers import LeftOvers, hidden_markers
from tiltyard.maintenance.orphan import FLOOR_MS, Kind
from tiltyard.maintenance.recovery import PATIENCE_MS
from tiltyard.maintenance.sidecars import Sidecars, Unreadable
from tiltyard.store import Listing, LocalStore, NotThere, Store

LOOKING_THREADS = 8
# What is younger, the command that is named would leave alone.
STALE_MS = FLOOR_MS

RECOVER, MIGRATE, PURGE = "tiltyard recover", "tiltyard migrate", "tiltyard trash purge --apply"
ORPHANS = "tiltyard orphans --apply"

Progress = Callable[[int, int], None]


class Doctor:
    """Examines one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
        manifest_table: ManifestTable | None,
        trash: TrashReader,
        sidecars: Sidecars,
        left_overs: LeftOvers,
        beside: Beside,
        checkup: Checkup,
    ) -> None:
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._directory = directory
        self._manifest = manifest
        self._manifest_table = manifest_table
        self._trash = trash
        self._sidecars = sidecars
        self._left_overs = left_overs
        self._beside = beside
        self._checkup = checkup

    def examine(self, progress: Progress | None = None) -> list[Finding]:
        """Every finding, errors first. A handful of requests for each table."""
        listing = self._store.list()
        found: list[Finding] = []
        try:
            if self._manifest is not None and self._manifest_table is not None:
                found += self._format(self._manifest_table)
                found += self._rows(self._manifest.read(), listing)
            found += self._markers(listing)
            found += self._underway(listing)
            found += self._around()
            found += self._tables(progress)
        except TiltyardError as problem:
            found.append(error("unreadable catalog", self._store.url, str(problem)))
        order = list(Severity)
        return sorted(found, key=lambda each: (order.index(each.severity), each.what, each.where))

    # -- the catalog itself

    def _format(self, table: ManifestTable) -> Iterator[Finding]:
        try:
            is_stamped = table.is_stamped()
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

    def _rows(self, snapshot: Snapshot, listing: Listing) -> Iterator[Finding]:
        """Rows of tables whose directory is gone."""
        there = set(listing.directories)
        for identifier in snapshot.table_ids:
            row = snapshot.get(identifier)
            assert row is not None
            if not self._has_files(row, there):
                is_index = names.root_table_at(row.location or "", row.id) is not None
                if is_index:
                    continue  # a row that only repeats a directory: see what is under way
                shown = names.dotted(row.id)
                told = f"its directory {row.location} is gone"
                yield error("missing directory", shown, told, f"tiltyard table deregister {shown}")

    def _has_files(self, row: Row, there: set[str]) -> bool:
        location = row.location or ""
        if names.top_directory(location) == location:
            return location in there
        return self._store.first(location) is not None

    def _underway(self, listing: Listing) -> Iterator[Finding]:
        for left in self._left_overs.find(listing):
            if self._clock.now_ms() - left.since_ms < PATIENCE_MS:
                continue
            shown = names.dotted(names.split_object_id(left.name))
            if left.kind == "row":
                told = "the manifest has a row for a table that is hidden or gone"
                yield warning("left-over row", shown, told, RECOVER)
            else:
                told = f"a {left.kind} was begun and not finished"
                yield warning(f"unfinished {left.kind}", shown, told, RECOVER)
        for sidecar in self._sidecars.every():
            if isinstance(sidecar, Unreadable):
                yield error("unreadable sidecar", sidecar.key, sidecar.reason, "upgrade tiltyard")
            elif self._clock.now_ms() - sidecar.started_at_ms >= PATIENCE_MS:
                told = f"a {sidecar.kind.value} of {len(sidecar.tables)} tables has not ended"
                yield warning("unfinished operation", sidecar.operation, told, RECOVER)

    # -- V1 locations

    def _markers(self, listing: Listing) -> Iterator[Finding]:
        there = set(listing.directories)
        lifted = is_lifted(listing)
        hidden = hidden_markers(self._store, listing)
        for name, present in hidden:
            if isinstance(present, str):
                yield error("unreadable marker", name, present, "upgrade tiltyard")
            elif names.table_directory(name) in there:
                yield from self._hidden(name, present)
        names_at_v1 = {names.table_name(each) for each in listing.directories} - {None}
        visible = sorted(each for each in names_at_v1 if each not in dict(hidden) and each)
        if visible and not lifted:
            told = "a listing has to look into every table"
            yield warning("not migrated", "the catalog", told, MIGRATE)
        with ThreadPoolExecutor(LOOKING_THREADS) as pool:
            states = pool.map(lambda name: self._directory.look((name,)), visible)
            for state in states:
                if state.hidden_by_peer:
                    told = "one of Lance's own clients has deregistered it; listings show it"
                    mend = f"tiltyard table register {state.name} or tiltyard table drop"
                    yield warning("hidden by a peer", state.name, told, mend)

    def _hidden(self, name: str, present: Marker) -> Iterator[Finding]:
        """Who knows no marker may write to a table that is hidden."""
        if present.state is State.PURGED:
            newest = version_files.latest(self._store, names.table_directory(name))
            kept = present.last_manifest
            if newest is not None and not self._is_kept(newest, kept):
                yield warning(
                    "created by a peer",
                    name,
                    f"the name was purged, and another client has written version "
                    f"{newest.version} there; it stays hidden",
                    f"tiltyard table register {name} {names.table_directory(name)}",
                )
        elif present.state is State.DELETED:
            newest = version_files.latest(self._store, names.table_directory(name))
            if newest is not None and newest.version > (present.version_at_drop or 0):
                yield info(
                    "written in the trash",
                    name,
                    f"it was dropped at version {present.version_at_drop or 0}, and is at "
                    f"{newest.version} now",
                    f"tiltyard table undrop {name} --keep-newer",
                )

    def _is_kept(self, newest: VersionFile, kept: KeptManifest | None) -> bool:
        """A create that was cut off may have put back the last manifest of the purged table."""
        if kept is None or newest.version != kept.version:
            return False
        try:
            return self._store.get(newest.key).body == kept.body
        except NotThere:
            return True

    # -- around the tables

    def _around(self) -> Iterator[Finding]:
        now = moment(self._clock.now_ms())
        for dropped in self._trash.list_tables():
            shown = names.dotted(dropped.id)
            if not dropped.restorable:
                yield warning("unfinished purge", shown, "a purge was begun", PURGE)
            elif dropped.is_purgable(now):
                yield info("trash due", shown, "its time in the trash is over", PURGE)
        for orphan in self._beside.directories(floor_ms=0):
            if orphan.kind is Kind.TABLE:
                yield self._nameless(orphan.path)
            elif orphan.kind is Kind.BOUNDARY:
                yield info("boundary without table", orphan.path, orphan.why, ORPHANS)
            elif (now - orphan.modified_at).total_seconds() * 1000 >= STALE_MS:
                yield info("orphan", orphan.path, orphan.why, ORPHANS)
        for pin in self._beside.pins():
            told = f"{pin.why}; its version stays whatever a clean-up is told"
            yield info("stale pin", pin.path, told, ORPHANS)
        if isinstance(self._store, LocalStore):
            stale = [
                each
                for each in self._store.left_behind()
                if self._clock.now_ms() - each.modified_ms >= STALE_MS
            ]
            if stale:
                told = f"{len(stale)} files were never completed"
                yield info("stale staged files", ".tiltyard/staged", told, ORPHANS)

    def _nameless(self, directory: str) -> Finding:
        name = names.table_name(directory)
        if name is not None:
            told = "a table that only clients see which list directories"
            return warning("directory without row", directory, told, MIGRATE)
        told = "a table that has no name: deregistered, or what a create has left"
        mend = f"tiltyard table register or tiltyard orphans --adopt {directory}"
        return info("directory without row", directory, told, mend)

    # -- every table

    def _tables(self, progress: Progress | None) -> Iterator[Finding]:
        identifiers = self._catalog.list_all_tables()
        with ThreadPoolExecutor(LOOKING_THREADS) as pool:
            looked = pool.map(self._examined, identifiers)
            for done, found in enumerate(looked, 1):
                yield from found
                if progress:
                    progress(done, len(identifiers))

    def _examined(self, identifier: str) -> list[Finding]:
        try:
            table: Table = self._catalog.find(names.split_object_id(identifier))
        except TableNotFoundError:
            return []
        except TiltyardError as problem:
            return [error("unreadable table", identifier, str(problem))]
        return self._checkup.of(table)
