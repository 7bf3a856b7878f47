"""`inventory`: what every table is made of, counted by executors; one row for each table."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tiltyard import names
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.inventory import InventoryState, TableInventory, VersionInventory
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.choosing import Name, choose
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress


def inventory(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    namespace: Name | None = None,
    tables: Sequence[Name] | None = None,
    versions: bool = False,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Count every table, those of a namespace and below, or the given ones; without any of both,
    what is in the trash too. With `versions` one row for each version instead.

    A table that can't be read is a row with its error.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    if versions:
        chosen = choose(opened, namespace, tables)
        every = run_versions(spark, opened, chosen, max_tasks=max_tasks, progress=progress)
        return frame(spark, VersionInventory, every)
    items: list[TableId | DroppedTable] = [*choose(opened, namespace, tables)]
    if namespace is None and tables is None:
        items += opened.list_trash()
    rows = run(spark, opened, items, max_tasks=max_tasks, progress=progress)
    return frame(spark, TableInventory, rows)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    items: Sequence[TableId | DroppedTable],
    *,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> list[TableInventory]:
    """The rows of tables, live or dropped, in their order."""
    return fanout.run(
        spark,
        catalog,
        _count,
        items,
        lambda item, error: TableInventory(_name(item), InventoryState.UNKNOWN, error=error),
        doing="count a table",
        max_tasks=max_tasks,
        progress=progress,
    )


def run_versions(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    tables: Sequence[TableId],
    *,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> list[VersionInventory]:
    """The rows of all versions of tables."""
    found = fanout.run(
        spark,
        catalog,
        _count_versions,
        tables,
        lambda item, error: [VersionInventory(_name(item), error=error)],
        doing="count a table",
        max_tasks=max_tasks,
        progress=progress,
    )
    return [row for rows in found for row in rows]


def _count(catalog: DirectoryNamespace, item: TableId | DroppedTable) -> TableInventory:
    if isinstance(item, DroppedTable):
        return catalog.maintenance.inventory_dropped(item)
    return catalog.maintenance.inventory_table(item)


def _count_versions(catalog: DirectoryNamespace, item: TableId) -> list[VersionInventory]:
    return catalog.maintenance.inventory_versions(item)


def _name(item: TableId | DroppedTable) -> str:
    return names.dotted(item.id if isinstance(item, DroppedTable) else item)
