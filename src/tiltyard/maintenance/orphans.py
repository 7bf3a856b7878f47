"""What lies in a catalog and nothing refers to: found, sized, and removed once it is old enough.

A file may be younger than the commit that will name it, so age is asked for first, and what refers
to files is read anew right before they are deleted. A directory with a committed version is never
deleted from here: it may be a table that somebody deregistered. It can be put into the trash.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.rows import STAGED
from tiltyard.catalog.pylance import Lance
from tiltyard.clock import Clock
from tiltyard.errors import InvalidTableStateError, TableNotFoundError
from tiltyard.maintenance.beside import Beside
from tiltyard.maintenance.candidates import Candidate, candidate, is_noted, state_of
from tiltyard.maintenance.needed import (
    Keeps,
    Needed,
    is_staged,
    manifests_in,
    read_each,
    read_needed,
)
from tiltyard.maintenance.orphan import FLOOR_MS, Kind, Orphan, is_old
from tiltyard.maintenance.sidecars import Sidecar, Sidecars
from tiltyard.store import Entry, NotThere, Store

log = logging.getLogger(__name__)


class Orphans:
    """Finds and removes the orphans of one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        access: Lance,
        catalog: Catalog,
        manifest: ManifestCatalog | None,
        sidecars: Sidecars,
        *,
        lists_directories: bool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._lance = access
        self._catalog = catalog
        self._manifest = manifest
        self._sidecars = sidecars
        self._lists_directories = lists_directories
        self.beside = Beside(store, clock, manifest, lists_directories=lists_directories)

    # -- finding

    def find(
        self, tables: Sequence[Table] | None = None, floor_ms: int = FLOOR_MS
    ) -> Iterator[Orphan]:
        """Everything older than the floor that nothing refers to; of given tables, their files.

        One listing of all files, one of the root, and what reading every version takes. In a look
        at everything, a table of which a version can't be read is passed over.
        """
        if tables is not None:
            for table in tables:
                yield from self.of_table(table, floor_ms)
            return
        yield from self.beside.find(floor_ms)
        for found in map(self.table, self._catalog.list_all_tables()):
            try:
                yield from self.of_table(found, floor_ms) if found else ()
            except InvalidTableStateError as unreadable:  # one table does not stop the others
                log.warning("%s", unreadable)

    def table(self, identifier: str) -> Table | None:
        """A table by its object id; None if it was dropped since it was listed."""
        try:
            return self._catalog.find(names.split_object_id(identifier))
        except TableNotFoundError:
            return None

    def of_table(self, table: Table, floor_ms: int = FLOOR_MS) -> Iterator[Orphan]:
        """The files of one table that no version needs. InvalidTableStateError if one of its
        versions can't be read: then nothing is an orphan."""
        needed, noted = self._needed(table, floor_ms), self.noted(floor_ms)
        yield from (each.orphan for each in self.unneeded(table, needed, noted, floor_ms))

    def candidates(
        self, table: Table, entries: Iterable[Entry], noted: Collection[str], floor_ms: int
    ) -> Iterator[Candidate]:
        """Files of a table that are old enough and would be orphans if no version needed them;
        `noted` are data files of writes that are under way."""
        newest_ms = self._clock.now_ms() - floor_ms
        for entry in entries:
            found = candidate(table.location, entry) if entry.modified_ms <= newest_ms else None
            if found is not None and not (found.kind is Kind.FILE and is_noted(found, noted)):
                yield found

    def listed(self, table: Table, noted: Collection[str], floor_ms: int) -> Iterator[Candidate]:
        """The candidates among all files of a table, found one after the other."""
        return self.candidates(table, self._store.walk(table.location), noted, floor_ms)

    def unneeded(
        self, table: Table, needed: Needed, noted: Collection[str], floor_ms: int
    ) -> Iterator[Candidate]:
        """Those among all files of a table that nothing needs."""
        for each in self.listed(table, noted, floor_ms):
            if each.likeliest_name not in needed.files and not each.is_needed(needed):
                yield each

    def manifests(self, table: Table) -> tuple[list[Entry], set[str]]:
        """The manifests of a table, and the UUIDs of its indexes."""
        return manifests_in(self._store, table.location)

    def references(
        self, table: Table, manifests: Sequence[Entry], indexes: Collection[str], floor_ms: int
    ) -> Iterator[Needed]:
        """What each manifest of a table refers to, and which staged ones count."""
        keeps, staged = self._keeps(table, floor_ms)
        yield Needed(files=staged)
        yield from read_each(self._store, self._lance, table.location, manifests, indexes, keeps)

    def still(
        self, table: Table, found: Sequence[Candidate], seen: Collection[str], floor_ms: int
    ) -> list[Candidate]:
        """Those of the candidates that nothing needs after a second look: at manifests that were
        not `seen` in the first, and at all that are staged."""
        manifests, indexes = self.manifests(table)
        new = [each for each in manifests if state_of(each) not in seen or is_staged(each)]
        needed = Needed()
        for each in self.references(table, new, indexes, floor_ms):
            needed.add(each)
        entries = [each.entry for each in found]
        old = self.candidates(table, entries, self.noted(floor_ms), floor_ms)
        return [each for each in old if not each.is_needed(needed)]

    def fresh(self, found: Sequence[Candidate]) -> list[Candidate]:
        """Candidates as their files are now; those that are gone are left out. One request each."""
        there = []
        for each in found:
            with suppress(NotThere):
                there.append(replace(each, entry=self._store.head(each.entry.key)))
        return there

    def delete(self, going: Iterable[Candidate]) -> None:
        """Delete files of tables, in bulk requests. They have passed the second look."""
        self._store.delete_many(each.entry.key for each in going)

    def _needed(self, table: Table, floor_ms: int) -> Needed:
        """What versions refer to, and the staged manifests that count themselves."""
        keeps, staged = self._keeps(table, floor_ms)
        found = read_needed(self._store, self._lance, table.location, keeps)
        found.files |= staged
        return found

    def _keeps(self, table: Table, floor_ms: int) -> tuple[Keeps, set[str]]:
        """Which staged manifests count: those that something names, and young ones."""
        staged = set(self._staged_of(table))
        return lambda entry: entry.key in staged or not self._is_old(entry, floor_ms), staged

    def _staged_of(self, table: Table) -> Iterator[str]:
        """Staged manifests that a row or a sidecar names."""
        for sidecar in self._sidecars.every():
            if isinstance(sidecar, Sidecar):
                yield from (each.staged for each in sidecar.tables if each.staged)
        if self._manifest is None or not table.managed:
            return
        snapshot, identifier = self._manifest.read(), names.object_id(table.id)
        for number in snapshot.version_numbers(identifier):
            row = snapshot.version_row(identifier, number)
            if row is not None and STAGED in row.metadata:
                yield row.metadata[STAGED]

    def noted(self, floor_ms: int) -> set[str]:
        """Data files of writes that are under way."""
        entries = self._store.walk(names.WRITES)
        return {each.name for each in entries if not self._is_old(each, floor_ms)}

    # -- removing

    def remove(self, found: Iterable[Orphan], floor_ms: int = FLOOR_MS) -> list[Orphan]:
        """Delete what is still an orphan, and return what went. Tables are left alone.

        What refers to files is read anew, after everything was found and right before it goes.
        """
        listed = [each for each in found if each.kind.is_removable]
        fresh = set(self._again(listed, floor_ms))
        going = [each for each in listed if (each.path, each.kind) in fresh]
        for each in going:
            if each.kind in (Kind.DIRECTORY, Kind.RESERVATION):
                inside = list(self._store.walk(each.path))
                if all(self._is_old(entry, floor_ms) for entry in inside):
                    self._store.delete_many(entry.key for entry in inside)
        self._store.delete_many(
            each.path for each in going if each.kind not in (Kind.DIRECTORY, Kind.RESERVATION)
        )
        return going

    def _again(self, listed: Sequence[Orphan], floor_ms: int) -> Iterator[tuple[str, Kind]]:
        inside = {each.location for each in listed if each.kind in _INSIDE_TABLES}
        for location in sorted(each for each in inside if each):
            table = self.table_at(location)
            if table is not None:
                yield from ((each.path, each.kind) for each in self.of_table(table, floor_ms))
        if any(each.kind not in _INSIDE_TABLES or each.location is None for each in listed):
            yield from ((each.path, each.kind) for each in self.beside.find(floor_ms))

    def table_at(self, location: str) -> Table | None:
        """The table that lies at a location; None if nobody knows it."""
        name = names.table_name(location)
        if name is not None and self._lists_directories:
            found = self.table(name)
            if found is not None and found.location == location:
                return found
        return None if self._manifest is None else self._manifest.table_at(location)

    # -- what they share

    def _is_old(self, entry: Entry, floor_ms: int) -> bool:
        return is_old(self._clock, entry, floor_ms)


_INSIDE_TABLES = (Kind.FILE, Kind.STAGED, Kind.TEMPORARY)
