"""`inventory`: what every table is made of, counted by executors; one row for each table."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.job_options import InventoryJob
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.inventory import InventoryState, TableInventory, VersionInventory
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import choose_tables, frame, job


@job(InventoryJob)
def inventory(spark: SparkSession, catalog: DirectoryNamespace, options: InventoryJob) -> DataFrame:
    """Count every table, those of a namespace and below, or the given ones; without any of both,
    what is in the trash too. With `versions` one row for each version instead.

    A table that can't be read is a row with its error.
    """
    if options.versions:
        return frame(spark, VersionInventory, run_versions(spark, catalog, options))
    return frame(spark, TableInventory, run(spark, catalog, options))


def run(
    spark: SparkSession, catalog: DirectoryNamespace, options: InventoryJob
) -> list[TableInventory]:
    """The rows of tables, live or dropped."""
    items: list[TableId | DroppedTable] = [
        *choose_tables(catalog, options.namespace, options.tables)
    ]
    if options.namespace is None and options.tables is None:
        items += catalog.list_trash()
    return fanout.run(
        spark,
        catalog,
        _count,
        items,
        lambda item, error: TableInventory(_name(item), InventoryState.UNKNOWN, error=error),
        doing="count a table",
        max_tasks=options.max_tasks,
        progress=options.progress,
    )


def run_versions(
    spark: SparkSession, catalog: DirectoryNamespace, options: InventoryJob
) -> list[VersionInventory]:
    """The rows of all versions of tables."""
    counted = fanout.run(
        spark,
        catalog,
        _count_versions,
        choose_tables(catalog, options.namespace, options.tables),
        lambda table, error: [VersionInventory(_name(table), error=error)],
        doing="count a table",
        max_tasks=options.max_tasks,
        progress=options.progress,
    )
    return [row for rows in counted for row in rows]


def _count(catalog: DirectoryNamespace, item: TableId | DroppedTable) -> TableInventory:
    if isinstance(item, DroppedTable):
        return catalog.maintenance.inventory_dropped(item)
    return catalog.maintenance.inventory_table(item)


def _count_versions(catalog: DirectoryNamespace, table: TableId) -> list[VersionInventory]:
    return catalog.maintenance.inventory_versions(table)


def _name(item: TableId | DroppedTable) -> str:
    return names.dotted(item.id if isinstance(item, DroppedTable) else item)
