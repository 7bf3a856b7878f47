"""What lies in a catalog and nothing refers to: found, sized, and removed once it is old enough.

A file may be written long before the commit that will name it, so only old files are candidates,
and what refers to files is read anew right before they are deleted. A directory with a committed
version is never deleted from here: it may be a table that somebody deregistered. It can be adopted
into the trash. The rules, and what fails without each, are in docs/design/orphans.md.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tiltyard.catalog import marker, names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.rows import DIRECTORY, STAGED
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.clock import moment
from tiltyard.errors import InvalidTableStateError, TableNotFoundError
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.orphan_candidates import (
    ORPHAN_MIN_AGE_MS,
    Candidate,
    Orphan,
    OrphanKind,
    candidate,
    is_old,
    state_of,
)
from tiltyard.maintenance.referenced_files import (
    Counts,
    ReferencedFiles,
    is_staged,
    list_manifests,
    read_all,
    read_manifests,
)
from tiltyard.store import Entry, LocalStore, NotThere
from tiltyard.store.read_back import PROBES
from tiltyard.versions.retention import is_pin

log = logging.getLogger(__name__)

_INSIDE_TABLES = (OrphanKind.FILE, OrphanKind.STAGED, OrphanKind.TEMPORARY)
_DIRECTORIES = (OrphanKind.DIRECTORY, OrphanKind.RESERVATION)


class Orphans:
    """Finds and removes the orphans of one catalog."""

    def __init__(self, maintenance: MaintenanceContext) -> None:
        self._context = maintenance.context
        self._store = maintenance.context.store
        self._sidecars = maintenance.recovery.sidecars
        self.outside_tables = CatalogOrphans(maintenance.context)

    # -- finding

    def find(
        self, tables: Sequence[Table] | None = None, min_age_ms: int = ORPHAN_MIN_AGE_MS
    ) -> Iterator[Orphan]:
        """Everything older than `min_age_ms` that nothing refers to; of given tables, their files.

        One listing of all files, one of the root, and what reading every version takes. In a search
        of the whole catalog, a table of which a version can't be read is left out.
        """
        if tables is not None:
            for table in tables:
                yield from self.of_table(table, min_age_ms)
            return
        yield from self.outside_tables.find(min_age_ms)
        for listed in map(self.table, self._context.catalog.list_all_tables()):
            try:
                yield from self.of_table(listed, min_age_ms) if listed else ()
            except InvalidTableStateError as unreadable:  # one table does not stop the others
                log.warning("%s", unreadable)

    def of_table(self, table: Table, min_age_ms: int = ORPHAN_MIN_AGE_MS) -> Iterator[Orphan]:
        """The files of one table that no version needs. InvalidTableStateError if one of its
        versions can't be read: then nothing is an orphan."""
        referenced, noted = self.referenced(table, min_age_ms), self.noted(min_age_ms)
        for file in self.unreferenced(table, referenced, noted, min_age_ms):
            yield file.orphan

    def table(self, object_id: str) -> Table | None:
        """A table by its object id; None if it was dropped since it was listed."""
        try:
            return self._context.catalog.find(names.split_object_id(object_id))
        except TableNotFoundError:
            return None

    def table_at(self, location: str) -> Table | None:
        """The table at a location; None if no name and no row has it."""
        name = names.table_name(location)
        if name is not None and self._context.settings.dir_listing_enabled:
            table = self.table(name)
            if table is not None and table.location == location:
                return table
        return self._context.manifest.table_at(location)

    # -- the steps of a search, which jobs run one by one

    def list_candidates(
        self, table: Table, noted: Collection[str], min_age_ms: int
    ) -> Iterator[Candidate]:
        """The candidates among all files of a table, one after the other."""
        return self.candidates(table, self._store.walk(table.location), noted, min_age_ms)

    def candidates(
        self, table: Table, entries: Iterable[Entry], noted: Collection[str], min_age_ms: int
    ) -> Iterator[Candidate]:
        """Files of a table that are old enough and would be orphans if no version needed them;
        `noted` are data files of writes under way."""
        newest_ms = self._context.clock.now_ms() - min_age_ms
        for entry in entries:
            file = candidate(table.location, entry) if entry.modified_ms <= newest_ms else None
            if file is not None and not (file.kind is OrphanKind.FILE and file.is_noted(noted)):
                yield file

    def unreferenced(
        self,
        table: Table,
        referenced: ReferencedFiles,
        noted: Collection[str],
        min_age_ms: int,
    ) -> Iterator[Candidate]:
        """The candidates among all files of a table that nothing refers to."""
        for file in self.list_candidates(table, noted, min_age_ms):
            if file.likeliest_name not in referenced.files and not file.is_referenced(referenced):
                yield file

    def noted(self, min_age_ms: int) -> set[str]:
        """Data files of writes under way."""
        entries = self._store.walk(names.WRITES)
        return {entry.name for entry in entries if not self._is_old(entry, min_age_ms)}

    def manifests(self, table: Table) -> tuple[list[Entry], set[str]]:
        """The manifests of a table, and the UUIDs of its indexes."""
        return list_manifests(self._store, table.location)

    def referenced(self, table: Table, min_age_ms: int) -> ReferencedFiles:
        """What all versions of a table refer to, and the staged manifests that count."""
        counts, staged = self._staged(table, min_age_ms)
        referenced = read_all(self._context, table.location, counts)
        referenced.files |= staged
        return referenced

    def references(
        self, table: Table, manifests: Sequence[Entry], indexes: Collection[str], min_age_ms: int
    ) -> Iterator[ReferencedFiles]:
        """What each manifest of a table refers to, and the staged manifests that count."""
        counts, staged = self._staged(table, min_age_ms)
        yield ReferencedFiles(files=staged)
        yield from read_manifests(self._context, table.location, manifests, indexes, counts)

    def _staged(self, table: Table, min_age_ms: int) -> tuple[Counts, set[str]]:
        """Which staged manifests count: those that something names, which are returned, and young
        ones."""
        named = set(self._named_manifests(table))
        return lambda entry: entry.key in named or not self._is_old(entry, min_age_ms), named

    def _named_manifests(self, table: Table) -> Iterator[str]:
        """Staged manifests that a row or a sidecar names."""
        for sidecar in self._sidecars.readable():
            yield from (covered.staged for covered in sidecar.tables if covered.staged)
        if not table.managed:
            return
        snapshot, object_id = self._context.manifest.read(), names.object_id(table.id)
        for number in snapshot.version_numbers(object_id):
            row = snapshot.version_row(object_id, number)
            if row is not None and STAGED in row.metadata:
                yield row.metadata[STAGED]

    def still_unreferenced(
        self, table: Table, files: Sequence[Candidate], seen: Collection[str], min_age_ms: int
    ) -> list[Candidate]:
        """Those of the files that nothing refers to at a second look: at manifests that were not
        `seen` at the first, and at all that are staged."""
        manifests, indexes = self.manifests(table)
        new = [entry for entry in manifests if state_of(entry) not in seen or is_staged(entry)]
        referenced = ReferencedFiles()
        for part in self.references(table, new, indexes, min_age_ms):
            referenced.add(part)
        entries = [file.entry for file in files]
        old = self.candidates(table, entries, self.noted(min_age_ms), min_age_ms)
        return [file for file in old if not file.is_referenced(referenced)]

    def refresh(self, files: Sequence[Candidate]) -> list[Candidate]:
        """Candidates as their files are now, without those that are gone. One request each."""
        present = []
        for file in files:
            with suppress(NotThere):
                present.append(replace(file, entry=self._store.head(file.entry.key)))
        return present

    def delete(self, files: Iterable[Candidate]) -> None:
        """Delete files of tables that have passed the second look, in bulk requests."""
        self._store.delete_many(file.entry.key for file in files)

    # -- removing

    def remove(
        self, orphans: Iterable[Orphan], min_age_ms: int = ORPHAN_MIN_AGE_MS
    ) -> list[Orphan]:
        """Delete what is still an orphan, and return what was deleted. Tables are left alone.

        What refers to files is read anew, after everything was found and right before the deletes.
        """
        removable = [orphan for orphan in orphans if orphan.kind.is_removable]
        confirmed = set(self._find_again(removable, min_age_ms))
        going = [orphan for orphan in removable if (orphan.path, orphan.kind) in confirmed]
        for orphan in going:
            if orphan.kind in _DIRECTORIES:
                inside = list(self._store.walk(orphan.path))
                if all(self._is_old(entry, min_age_ms) for entry in inside):
                    self._store.delete_many(entry.key for entry in inside)
        self._store.delete_many(orphan.path for orphan in going if orphan.kind not in _DIRECTORIES)
        return going

    def _find_again(
        self, orphans: Sequence[Orphan], min_age_ms: int
    ) -> Iterator[tuple[str, OrphanKind]]:
        inside = {orphan.location for orphan in orphans if orphan.kind in _INSIDE_TABLES}
        for location in sorted(location for location in inside if location):
            table = self.table_at(location)
            if table is not None:
                for orphan in self.of_table(table, min_age_ms):
                    yield orphan.path, orphan.kind
        if any(orphan.kind not in _INSIDE_TABLES or orphan.location is None for orphan in orphans):
            for orphan in self.outside_tables.find(min_age_ms):
                yield orphan.path, orphan.kind

    def _is_old(self, entry: Entry, min_age_ms: int) -> bool:
        return is_old(self._context.clock, entry, min_age_ms)


# -- orphans beside the tables


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
