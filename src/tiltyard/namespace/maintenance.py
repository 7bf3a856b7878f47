"""Operations that keep tables and the catalog in shape."""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard import names
from tiltyard.maintenance import concurrent
from tiltyard.maintenance.cleanup import Cleaned, Cleaner
from tiltyard.maintenance.concurrent import RowProgress
from tiltyard.maintenance.indexing import IndexBuilder
from tiltyard.maintenance.optimize import (
    Optimized,
    OptimizeOptions,
    Optimizer,
    SplitCompaction,
)
from tiltyard.maintenance.optimize_catalog import (
    DEFAULT_MIN_AGE,
    CatalogOptimized,
    CatalogOptimizer,
)
from tiltyard.maintenance.policy import CleanupPolicy, Duration
from tiltyard.names import TableId
from tiltyard.namespace.requests import operation
from tiltyard.namespace.rooms import Rooms


class MaintenanceOperations(Rooms):
    """Optimizing tables and cleaning up their old versions."""

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
        skipped: `compaction_steps` is for those.
        """
        optimizer, table = Optimizer(self._ground, options), names.parse_table_id(id)
        return optimizer.plan(table) if dry_run else optimizer.run(table, most_bytes)

    def compaction_steps(self, options: OptimizeOptions | None = None) -> SplitCompaction:
        """The steps by which several processes share the compaction of one table."""
        return SplitCompaction(self._ground, options)

    def index_steps(self) -> IndexBuilder:
        """The steps by which several processes share the building of one index."""
        return IndexBuilder(self._ground)

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
        optimizer = Optimizer(self._ground, options)
        return concurrent.run(
            self.choose_tables(namespace, tables),
            optimizer.run,
            lambda table, error: Optimized(names.dotted(table), error=error),
            progress,
            self._settings.secrets,
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
        cleaner = Cleaner(self._ground, policy)
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
        cleaner = Cleaner(self._ground, policy)
        return concurrent.run(
            self.choose_tables(namespace, tables),
            cleaner.plan if dry_run else cleaner.run,
            lambda table, error: Cleaned(names.dotted(table), error=error),
            progress,
            self._settings.secrets,
        )

    @operation("optimize the catalog")
    def optimize_catalog(self, *, min_age: Duration = DEFAULT_MIN_AGE) -> CatalogOptimized:
        """Fold the fragments of `__manifest`, and remove its versions that were superseded longer
        ago than `min_age`, a day at least. In directory mode there is none, and nothing to do.
        """
        return CatalogOptimizer(self._ground).run(min_age)

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
            return [names.parse_table_id(each) for each in tables]
        inside = None if namespace is None else names.parse_namespace_id(namespace)
        if inside:
            self._catalog.describe_namespace(inside)
        return concurrent.tables_of(self._catalog.list_all_tables(), inside)
