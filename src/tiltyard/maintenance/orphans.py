"""What lies in a catalog and nothing refers to: found, sized, and removed once it is old enough.

A file may be younger than the commit that will name it, so age is asked for first, and what refers
to files is read anew right before they are deleted. A directory with a committed version is never
deleted from here: it may be a table that somebody deregistered. It can be put into the trash.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence

from tiltyard import names
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.rows import STAGED
from tiltyard.catalog.pylance import Lance
from tiltyard.errors import InvalidTableStateError, TableNotFoundError
from tiltyard.maintenance.beside import Beside
from tiltyard.maintenance.needed import (
    DATA,
    DELETIONS,
    INDEXES,
    TRANSACTIONS,
    Needed,
    is_staged,
    read_needed,
)
from tiltyard.maintenance.orphan import FLOOR_MS, Kind, Orphan, is_old, orphan_of
from tiltyard.maintenance.sidecars import Sidecar, Sidecars
from tiltyard.store import Entry, Store
from tiltyard.world import World

log = logging.getLogger(__name__)

_PLACE = re.compile(
    rf"(?:{names.BRANCHES_DIRECTORY}/.+?/)?"
    rf"(?P<folder>{'|'.join((DATA, DELETIONS, INDEXES, TRANSACTIONS))})/.+",
    re.DOTALL,
)
# How writers on a disk name what is not complete yet.
_TEMPORARY = re.compile(r"\.tmp.*|.*\.tmp|.*#\d+")


class Orphans:
    """Finds and removes the orphans of one catalog."""

    def __init__(
        self,
        store: Store,
        world: World,
        access: Lance,
        catalog: Catalog,
        manifest: ManifestCatalog | None,
        sidecars: Sidecars,
        *,
        lists_directories: bool,
    ) -> None:
        self._store = store
        self._world = world
        self._lance = access
        self._catalog = catalog
        self._manifest = manifest
        self._sidecars = sidecars
        self._lists_directories = lists_directories
        self.beside = Beside(store, world, manifest, lists_directories=lists_directories)

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
        for found in map(self._found, self._catalog.list_all_tables()):
            try:
                yield from self.of_table(found, floor_ms) if found else ()
            except InvalidTableStateError as unreadable:  # one table does not stop the others
                log.warning("%s", unreadable)

    def _found(self, identifier: str) -> Table | None:
        try:
            return self._catalog.find(names.split_object_id(identifier))
        except TableNotFoundError:  # dropped since it was listed
            return None

    def of_table(self, table: Table, floor_ms: int = FLOOR_MS) -> Iterator[Orphan]:
        """The files of one table that no version needs. InvalidTableStateError if one of its
        versions can't be read: then nothing is an orphan."""
        needed, open_names = self._needed(table, floor_ms), self._noted(floor_ms)
        for entry in self._store.walk(table.location):
            orphan = self._judge(table.location, entry, needed, open_names, floor_ms)
            if orphan is not None:
                yield orphan

    def _judge(
        self,
        location: str,
        entry: Entry,
        needed: Needed,
        noted: set[str],
        floor_ms: int,
    ) -> Orphan | None:
        if not self._is_old(entry, floor_ms):
            return None
        inside = entry.key[len(location) + 1 :]
        parts = inside.split("/")
        if _TEMPORARY.fullmatch(entry.name):
            return orphan_of(entry, Kind.TEMPORARY, "it was never completed", location)
        if names.VERSIONS_DIRECTORY in parts[:-1]:
            if is_staged(entry) and entry.key not in needed.files:
                return orphan_of(entry, Kind.STAGED, "it was never published", location)
            return None
        place = _PLACE.fullmatch(inside)
        if place is None or needed.needs(place["folder"], parts) or noted.intersection(parts):
            return None
        return orphan_of(entry, Kind.FILE, "no version refers to it", location)

    def _needed(self, table: Table, floor_ms: int) -> Needed:
        """What versions refer to, and the staged manifests that count themselves."""
        staged = set(self._staged_of(table))
        found = read_needed(
            self._store,
            self._lance,
            table.location,
            lambda entry: entry.key in staged or not self._is_old(entry, floor_ms),
        )
        found.files |= staged
        return found

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

    def _noted(self, floor_ms: int) -> set[str]:
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
            table = self._table_at(location)
            if table is not None:
                yield from ((each.path, each.kind) for each in self.of_table(table, floor_ms))
        if any(each.kind not in _INSIDE_TABLES or each.location is None for each in listed):
            yield from ((each.path, each.kind) for each in self.beside.find(floor_ms))

    def _table_at(self, location: str) -> Table | None:
        name = names.table_name(location)
        if name is not None and self._lists_directories:
            found = self._found(name)
            if found is not None and found.location == location:
                return found
        return None if self._manifest is None else self._manifest.table_at(location)

    # -- what they share

    def _is_old(self, entry: Entry, floor_ms: int) -> bool:
        return is_old(self._world, entry, floor_ms)


_INSIDE_TABLES = (Kind.FILE, Kind.STAGED, Kind.TEMPORARY)
