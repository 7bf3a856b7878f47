"""Dropping tables: the name goes first, by the arbiter of its location, then the directory.

A drop that fails after the name is gone has succeeded; what is left of the directory is an orphan.
At a V1 location the directory is the name, so there it is the other way round: what is left can
still be found, and dropped again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tiltyard import names
from tiltyard.catalog.base import Catalog, DropBehaviour, Table, no_such_table
from tiltyard.catalog.directory import DirectoryCatalog
from tiltyard.catalog.manifest import edits
from tiltyard.catalog.manifest.catalog import ManifestCatalog, as_table
from tiltyard.catalog.marker import State
from tiltyard.errors import TableNotFoundError
from tiltyard.names import NamespaceId, TableId
from tiltyard.store import Entry, Store
from tiltyard.world import World


class Dropper:
    """Removes tables of one catalog. `manifest` is None in directory mode."""

    def __init__(
        self,
        store: Store,
        world: World,
        catalog: Catalog,
        directory: DirectoryCatalog,
        manifest: ManifestCatalog | None,
    ) -> None:
        self._store = store
        self._world = world
        self._catalog = catalog
        self._directory = directory
        self._manifest = manifest

    def drop(self, table: TableId) -> Table:
        """Delete a table; one that is deregistered from its V1 location too."""
        self._store.require_conditions()
        try:
            found = self._catalog.find(table)
        except TableNotFoundError:
            if len(table) > 1:
                raise
            found = self._deregistered(table)
        if names.root_table_at(found.location, table) is None:
            assert self._manifest is not None
            found = as_table(
                self._manifest.submit(edits.remove_table(table, found.location)).answer
            )
            self._erase(found)
        else:
            self._drop_directory(found)
        return found

    def drop_all(self, tables: Sequence[TableId]) -> list[Table]:
        """Drop any number of tables; those of the manifest go in one commit, all or none."""
        self._store.require_conditions()
        found = [self._catalog.find(table) for table in tables]
        rows = [each for each in found if names.root_table_at(each.location, each.id) is None]
        if rows:
            assert self._manifest is not None
            removals = [edits.remove_table(each.id, each.location) for each in rows]
            self._manifest.submit(edits.all_of(removals))
        for each in found:
            if names.root_table_at(each.location, each.id) is None:
                self._erase(each)
            else:
                self._drop_directory(each)
        return found

    def drop_namespace(self, namespace: NamespaceId, behaviour: DropBehaviour) -> dict[str, str]:
        """Remove a namespace and, with Cascade, all tables below it: one commit, then the bytes."""
        row, *below = self._catalog.drop_namespace(namespace, behaviour)
        for each in below:
            if each.is_table and each.location is not None:
                self._erase(as_table(each))
        return row.properties

    def _deregistered(self, table: TableId) -> Table:
        spot = self._directory.look(table)
        if spot.is_empty or not (spot.marker.state is State.DEREGISTERED or spot.hidden_by_peer):
            raise no_such_table(table)
        return spot.as_table()

    def _drop_directory(self, table: Table) -> None:
        """The row first: it is only an index, and what is left can still be found without it."""
        if self._manifest is not None:
            self._manifest.submit(edits.forget_table(table.id, table.location))
        self._erase(table)

    def _erase(self, table: Table) -> None:
        self._store.delete_many(_versions_last(table.location, self._store.walk(table.location)))


def _versions_last(location: str, entries: Iterable[Entry]) -> Iterable[str]:
    """While a version is left, whatever is left of the table can still be found and dropped."""
    versions = []
    for entry in entries:
        if entry.key.startswith(f"{location}/{names.VERSIONS_DIRECTORY}/"):
            versions.append(entry.key)
        else:
            yield entry.key
    yield from versions
