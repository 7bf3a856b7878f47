"""`catalog.maintenance`: optimizing, cleaning up, counting and migrating tables."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.catalog import names
from tiltyard.catalog.migration import Migrated
from tiltyard.catalog.names import TableId
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance import context
from tiltyard.maintenance.cleanup import Cleaned, Cleaner
from tiltyard.maintenance.context import Progress, RowProgress
from tiltyard.maintenance.inventory import InventoryState, TableInventory, VersionInventory
from tiltyard.maintenance.optimize import Optimized, OptimizeOptions, Optimizer
from tiltyard.maintenance.optimize_catalog import (
    DEFAULT_MIN_AGE,
    CatalogOptimized,
    CatalogOptimizer,
)
from tiltyard.maintenance.policy import CleanupPolicy, Duration
from tiltyard.namespace.base import OperationGroup, operation


class Maintenance(OperationGroup):
    """Operations on the files of tables and of the catalog. No row of a table changes."""

    @operation("optimize table")
    def optimize_table(
        self,
        id: Sequence[str],
        *,
        options: OptimizeOptions | None = None,
        dry_run: bool = False,
        most_bytes: int | None = None,
    ) -> Optimized:
        """Join small files of a table, drop rows that are only marked as deleted, and bring new
        rows into its indexes. No row changes, and nothing is committed if there is nothing to do.

        Others may write meanwhile; ConcurrentModificationError if they came first every time. A
        table of which more than `most_bytes` would be written again, and that can be split, is
        skipped: `maintenance.optimize.SplitCompaction` is for those.
        """
        optimizer, table = Optimizer(self.services.maintenance, options), names.parse_table_id(id)
        return optimizer.plan(table) if dry_run else optimizer.run(table, most_bytes)

    @operation("optimize the tables of")
    def optimize_all_tables(
        self,
        namespace: Sequence[str] | None = None,
        *,
        tables: Sequence[Sequence[str]] | None = None,
        options: OptimizeOptions | None = None,
        progress: RowProgress[Optimized] | None = None,
    ) -> list[Optimized]:
        """Optimize every table, or those of a namespace and below, or the given ones.

        A table that fails has a row with its error. Several are worked on at once:
        `TILTYARD_MAINTENANCE_CONCURRENCY`, or 8.
        """
        optimizer = Optimizer(self.services.maintenance, options)
        return context.run(
            self.choose_tables(namespace, tables),
            optimizer.run,
            lambda table, error: Optimized(names.dotted(table), error=error),
            progress,
            self.context.settings.secrets,
        )

    @operation("clean up table")
    def cleanup_table(
        self, id: Sequence[str], policy: CleanupPolicy, *, dry_run: bool = False
    ) -> Cleaned:
        """Delete old versions of a table as the policy says, and the files that only they had.

        Never the latest version, nor one that a tag, a branch or a restore under way refers to.
        The removal of a branch that a crash cut off is finished first. Safe to break off and to
        repeat: the next run goes on.
        """
        cleaner = Cleaner(self.services.maintenance, policy)
        work = cleaner.plan if dry_run else cleaner.run
        return work(names.parse_table_id(id))

    @operation("clean up the tables of")
    def cleanup_all_tables(
        self,
        policy: CleanupPolicy,
        namespace: Sequence[str] | None = None,
        *,
        tables: Sequence[Sequence[str]] | None = None,
        dry_run: bool = False,
        progress: RowProgress[Cleaned] | None = None,
    ) -> list[Cleaned]:
        """Clean up every table, or those of a namespace and below, or the given ones.

        A table that fails has a row with its error. Dropped tables are left as they are.
        """
        cleaner = Cleaner(self.services.maintenance, policy)
        return context.run(
            self.choose_tables(namespace, tables),
            cleaner.plan if dry_run else cleaner.run,
            lambda table, error: Cleaned(names.dotted(table), error=error),
            progress,
            self.context.settings.secrets,
        )

    @operation("optimize the catalog")
    def optimize_catalog(self, *, min_age: Duration = DEFAULT_MIN_AGE) -> CatalogOptimized:
        """Fold the fragments of `__manifest`, and remove its versions that were superseded longer
        ago than `min_age`, a day at least. In directory mode there is none, and nothing to do.
        """
        return CatalogOptimizer(self.services.maintenance).run(min_age)

    @operation("choose tables of")
    def choose_tables(
        self,
        namespace: Sequence[str] | None = None,
        tables: Sequence[Sequence[str]] | None = None,
    ) -> list[TableId]:
        """The ids of every table, or of those in a namespace and below it, or of the given ones.

        NamespaceNotFoundError. Nothing is said about whether given tables exist.
        """
        if tables is not None:
            return [names.parse_table_id(id) for id in tables]
        inside = None if namespace is None else names.parse_namespace_id(namespace)
        if inside:
            self.context.catalog.describe_namespace(inside)
        return context.tables_of(self.context.catalog.list_all_tables(), inside)

    # -- inventories: what tables are made of, and what their bytes are for

    @operation("count table")
    def inventory_table(self, id: Sequence[str]) -> TableInventory:
        """Rows, fragments, files, and bytes by whom they are for. A listing of the table's files,
        and two requests for each of its versions."""
        return self.services.inventory.of(self.services.access.find(id))

    @operation("count the versions of table")
    def inventory_versions(self, id: Sequence[str]) -> list[VersionInventory]:
        """Every version that has a file, oldest first."""
        return list(self.services.inventory.versions(self.services.access.find(id)))

    @operation("count a dropped table")
    def inventory_dropped(self, dropped: DroppedTable) -> TableInventory:
        """A table of `list_trash`: all of its bytes are trash."""
        return self.services.inventory.of_trashed(dropped)

    @operation("count the tables of")
    def inventory_all_tables(
        self,
        namespace: Sequence[str] | None = None,
        *,
        tables: Sequence[Sequence[str]] | None = None,
        progress: RowProgress[TableInventory] | None = None,
    ) -> list[TableInventory]:
        """Count every table, or those of a namespace and below, or the given ones.

        A table that can't be read has a row with its error.
        """
        return context.run(
            self.choose_tables(namespace, tables),
            self.inventory_table,
            lambda table, error: TableInventory(
                names.dotted(table), InventoryState.UNKNOWN, error=error
            ),
            progress,
            self.context.settings.secrets,
        )

    # -- migration

    def migrate(self, *, dry_run: bool = False, progress: Progress | None = None) -> list[Migrated]:
        """Give every V1 table of the directory a row in the manifest; its bytes do not move.

        Safe to repeat. Afterwards `dir_listing_enabled=false` shows the same tables.
        """
        return self.services.migration.run(dry_run=dry_run, progress=progress)
