"""Orphans outside of tables: notes and pins of operations that are long over, directories that no
row and no name refers to, and boundaries of tables that are gone."""

from __future__ import annotations

from collections.abc import Iterator

from tiltyard import names
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.rows import DIRECTORY
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.clock import moment
from tiltyard.maintenance.orphan_candidates import ORPHAN_MIN_AGE_MS, Orphan, OrphanKind, is_old
from tiltyard.store import Entry, LocalStore
from tiltyard.store.read_back import PROBES
from tiltyard.versions.retention import is_pin


class CatalogOrphans:
    """Finds the orphans of one catalog that lie outside of its tables."""

    def __init__(self, context: CatalogContext) -> None:
        self._context = context
        self._store = context.store

    def find(self, min_age_ms: int = ORPHAN_MIN_AGE_MS) -> Iterator[Orphan]:
        """All that are older than `min_age_ms`."""
        yield from self._notes(min_age_ms)
        yield from self.pins(min_age_ms)
        yield from self.directories(min_age_ms)

    def _notes(self, min_age_ms: int) -> Iterator[Orphan]:
        for entry in self._store.walk(names.WRITES):
            if self._is_old(entry, min_age_ms):
                yield Orphan.of(entry, OrphanKind.NOTE, "its write is long over")
        for entry in self._store.walk(PROBES):
            if self._is_old(entry, min_age_ms):
                yield Orphan.of(entry, OrphanKind.PROBE, "it was for a moment only")
        if isinstance(self._store, LocalStore):
            for entry in self._store.left_behind():
                if self._is_old(entry, min_age_ms):
                    yield Orphan.of(entry, OrphanKind.TEMPORARY, "it was never completed")

    def pins(self, min_age_ms: int = ORPHAN_MIN_AGE_MS) -> Iterator[Orphan]:
        """Pins of restores that are long over; each keeps a version from every clean-up."""
        for entry in self._store.walk(names.BOUNDARIES):
            if is_pin(entry.key) and self._is_old(entry, min_age_ms):
                yield Orphan.of(entry, OrphanKind.PIN, "its restore is long over")

    def directories(self, min_age_ms: int = ORPHAN_MIN_AGE_MS) -> Iterator[Orphan]:
        """Directories that no row and no name refers to, and what is left of tables.

        A create makes its directory before its row, so the rows are read after the listing. If
        there are rows and this client does not read them, it can't tell: it finds nothing.
        """
        listing = self._store.list()
        manifest = self._context.manifest
        if DIRECTORY in listing.directories and not manifest.is_enabled:
            return
        referenced = _referenced_directories(manifest.read())
        hidden = {
            names.marked_name(entry.key) for entry in listing.objects if marker.hides(entry.size)
        }
        is_listed = self._context.settings.dir_listing_enabled
        for directory in listing.directories:
            if directory in referenced or directory.startswith(names.RESERVED_PREFIX):
                continue
            name = names.table_name(directory)
            if name is not None and (is_listed or name in hidden):
                continue  # the directory is the name, or its marker refers to it
            yield from self._directory(directory, min_age_ms)
        present = referenced.union(listing.directories)
        for area in (names.BOUNDARIES, names.BRANCH_LISTS):
            yield from self._left_of_tables(area, present, min_age_ms)

    def _directory(self, directory: str, min_age_ms: int) -> Iterator[Orphan]:
        entries = list(self._store.walk(directory))
        if not entries:
            return
        size = sum(entry.size for entry in entries)
        newest = moment(max(entry.modified_ms for entry in entries))
        if any(_is_version(entry) for entry in entries):
            why = "it holds a table that has no name"
            yield Orphan(directory, OrphanKind.TABLE, size, newest, why, directory)
        elif names.is_hashed_directory(directory) and all(
            self._is_old(entry, min_age_ms) for entry in entries
        ):
            is_reserved = all(entry.name == names.RESERVATION for entry in entries)
            kind = OrphanKind.RESERVATION if is_reserved else OrphanKind.DIRECTORY
            why = "no name knows it, and it has no version"
            yield Orphan(directory, kind, size, newest, why, directory)

    def _left_of_tables(self, area: str, present: set[str], min_age_ms: int) -> Iterator[Orphan]:
        """Objects about directories that are gone, and whose names are never used again."""
        for entry in self._store.walk(area):
            directory = entry.key.split("/")[1].removesuffix(".json")
            is_gone = names.is_hashed_directory(directory) and directory not in present
            if is_gone and not is_pin(entry.key) and self._is_old(entry, min_age_ms):
                yield Orphan.of(entry, OrphanKind.BOUNDARY, "its table was purged")

    def _is_old(self, entry: Entry, min_age_ms: int) -> bool:
        return is_old(self._context.clock, entry, min_age_ms)


def _referenced_directories(snapshot: Snapshot) -> set[str]:
    """Directories of rows, live or in the trash; of a location below one, its top directory."""
    return {
        names.top_directory(location)
        for fragment in snapshot.fragments
        for location in fragment.rows.column("location").to_pylist()
        if location
    }


def _is_version(entry: Entry) -> bool:
    is_inside = f"/{names.VERSIONS_DIRECTORY}/" in entry.key
    return is_inside and version_files.parse(entry) is not None
