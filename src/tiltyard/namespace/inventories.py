"""Operations that count: what tables are made of, and whose their bytes are."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tiltyard import names
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance import fleet
from tiltyard.maintenance.fleet import Progress
from tiltyard.maintenance.inventory import Inventory, State, TableInventory, VersionInventory
from tiltyard.namespace.maintenance import MaintenanceOperations
from tiltyard.namespace.requests import operation


class InventoryOperations(MaintenanceOperations):
    """The inventory of tables. Nothing is changed."""

    @functools.cached_property
    def _inventory(self) -> Inventory:
        return Inventory(self._store, self._lance, self._catalog, self._orphans, self._open)

    @operation("count table")
    def inventory_table(self, id: Sequence[str]) -> TableInventory:
        """Rows, fragments, files, and bytes by whom they are for. A listing of the table's files,
        and two requests for each of its versions."""
        return self._inventory.of(self._catalog.find(names.parse_table_id(id)))

    @operation("count the versions of table")
    def inventory_versions(self, id: Sequence[str]) -> list[VersionInventory]:
        """Every version that has a file, oldest first."""
        return list(self._inventory.versions(self._catalog.find(names.parse_table_id(id))))

    @operation("count a dropped table")
    def inventory_trashed(self, dropped: DroppedTable) -> TableInventory:
        """A table of `list_trash`: all of its bytes are trash."""
        return self._inventory.of_trashed(dropped)

    @operation("count the tables of")
    def inventory_all_tables(
        self,
        namespace: Sequence[str] | None = None,
        *,
        tables: Sequence[Sequence[str]] | None = None,
        progress: Progress[TableInventory] | None = None,
    ) -> list[TableInventory]:
        """Count every table, or those of a namespace and below, or the given ones.

        A table that can't be read has a row with its error.
        """
        return fleet.run(
            self.choose_tables(namespace, tables),
            self.inventory_table,
            lambda table, error: TableInventory(names.dotted(table), State.UNKNOWN, error=error),
            progress,
            self._settings.secrets,
        )
