"""Orphans that lie beside the tables of a catalog: notes and pins of what is long over, directories
that no row and no name knows, boundaries of tables that are gone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.rows import DIRECTORY
from tiltyard.catalog.manifest.snapshot import EMPTY, Snapshot
from tiltyard.clock import Clock, moment
from tiltyard.maintenance.orphan import FLOOR_MS, Kind, Orphan, is_old, orphan_of
from tiltyard.store import Entry, LocalStore, Store
from tiltyard.store.read_back import PROBES
from tiltyard.versions.pins import is_pin


class Beside:
    """Finds what lies beside the tables of one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        manifest: ManifestCatalog | None,
        *,
        lists_directories: bool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._manifest = manifest
        self._lists_directories = lists_directories

    def find(self, floor_ms: int = FLOOR_MS) -> Iterator[Orphan]:
        """All of it that is older than the floor."""
        yield from self._notes(floor_ms)
        yield from self.pins(floor_ms)
        yield from self.directories(floor_ms)

    def _notes(self, floor_ms: int) -> Iterator[Orphan]:
        """What was for a moment only."""
        for entry in self._store.walk(names.WRITES):
            if is_old(self._clock, entry, floor_ms):
                yield orphan_of(entry, Kind.NOTE, "its write is long over")
        for entry in self._store.walk(PROBES):
            if is_old(self._clock, entry, floor_ms):
                yield orphan_of(entry, Kind.PROBE, "it was for a moment only")
        if isinstance(self._store, LocalStore):
            for entry in self._store.left_behind():
                if is_old(self._clock, entry, floor_ms):
                    yield orphan_of(entry, Kind.TEMPORARY, "it was never completed")

    def pins(self, floor_ms: int = FLOOR_MS) -> Iterator[Orphan]:
        """Pins of restores that are long over; each keeps a version from every clean-up."""
        for entry in self._store.walk(names.BOUNDARIES):
            if is_pin(entry.key) and is_old(self._clock, entry, floor_ms):
                yield orphan_of(entry, Kind.PIN, "its restore is long over")

    def directories(self, floor_ms: int = FLOOR_MS) -> Iterator[Orphan]:
        """Directories that no row and no name knows.

        A create has its directory before its row, so the rows are read after the listing. Without
        rows to look at, nothing can be said about those that belong to rows.
        """
        listing = self._store.list()
        has_rows = DIRECTORY in listing.directories
        if has_rows and self._manifest is None:
            return
        snapshot = EMPTY if self._manifest is None else self._manifest.read()
        known = known_directories(snapshot)
        hidden = {
            names.marked_name(each.key) for each in listing.objects if marker.hides(each.size)
        }
        for directory in listing.directories:
            if directory in known or directory.startswith(names.RESERVED_PREFIX):
                continue
            name = names.table_name(directory)
            if name is not None and (self._lists_directories or name in hidden):
                continue  # the directory is the name, or its marker knows it
            yield from self._directory(directory, floor_ms)
        for area in (names.BOUNDARIES, names.BRANCH_LISTS):
            yield from self._left_of_tables(area, known, set(listing.directories), floor_ms)

    def _directory(self, directory: str, floor_ms: int) -> Iterator[Orphan]:
        entries = list(self._store.walk(directory))
        size, newest = sum(each.size for each in entries), _newest(entries)
        if not entries:
            return
        if any(_is_version(each) for each in entries):
            why = "it holds a table that has no name"
            yield Orphan(directory, Kind.TABLE, size, moment(newest), why, directory)
        elif names.is_hashed_directory(directory) and all(
            is_old(self._clock, each, floor_ms) for each in entries
        ):
            is_reserved = all(each.name == names.RESERVATION for each in entries)
            kind = Kind.RESERVATION if is_reserved else Kind.DIRECTORY
            why = "no name knows it, and it has no version"
            yield Orphan(directory, kind, size, moment(newest), why, directory)

    def _left_of_tables(
        self, area: str, known: set[str], there: set[str], floor_ms: int
    ) -> Iterator[Orphan]:
        """Of directories that are never used again, once they are gone."""
        for entry in self._store.walk(area):
            directory = entry.key.split("/")[1].removesuffix(".json")
            is_over = names.is_hashed_directory(directory) and directory not in known | there
            if is_over and not is_pin(entry.key) and is_old(self._clock, entry, floor_ms):
                yield orphan_of(entry, Kind.BOUNDARY, "its table was purged")


def known_directories(snapshot: Snapshot) -> set[str]:
    """Directories that some row has, live or in the trash, or one inside of which it has."""
    return {
        names.top_directory(location)
        for fragment in snapshot.fragments
        for location in fragment.rows.column("location").to_pylist()
        if location
    }


def _is_version(entry: Entry) -> bool:
    is_inside = f"/{names.VERSIONS_DIRECTORY}/" in entry.key
    return is_inside and version_files.parse(entry) is not None


def _newest(entries: Sequence[Entry]) -> int:
    return max((each.modified_ms for each in entries), default=0)
