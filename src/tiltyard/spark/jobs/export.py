"""`export`: tables into files that others read, each table at one version, whole or not at all.

Executors write the files of a table into its folder, under names that only this run has. When all
are there, the driver writes `_SUCCESS`, which names them: from then on they are the table, and the
files of an earlier export go. A run that broke off leaves files that no `_SUCCESS` names; the next
one removes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from tiltyard.errors import InvalidInputError, TiltyardError
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.spark.jobs import fanout, writers
from tiltyard.spark.jobs.choosing import Name, choose, parts_of
from tiltyard.spark.jobs.export_plan import (
    OURS,
    SUCCESS,
    Action,
    Exported,
    Part,
    Plan,
    Wish,
    plan_table,
)
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.sources import format_named
from tiltyard.spark.jobs.watching import Progress
from tiltyard.store import Store, open_store
from tiltyard.store.streams import open_streams
from tiltyard.tables import scan
from tiltyard.tables.scan import Wanted

ROWS_PER_FILE = 1024 * 1024
DRIVER_THREADS = 16


def export(
    catalog: Place,
    destination: str,
    spark: SparkSession | None = None,
    *,
    format: str = "parquet",
    namespace: Name | None = None,
    tables: Sequence[Name] | None = None,
    versions: Mapping[str, int] | None = None,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage: Mapping[str, str] | None = None,
    rows_per_file: int = ROWS_PER_FILE,
    max_tasks: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DataFrame:
    """Write tables into folders below `destination`, named as they are; one row for each table.

    A table is read at its latest version, or at the one that `versions` has for its dotted name. A
    folder that has the table at that version is left alone; one with another export only with
    `overwrite`. `storage` are the options of the destination's bucket, if not the catalog's.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    rows = run(
        spark,
        opened,
        destination,
        choose(opened, namespace, tables),
        format=format,
        versions=versions,
        columns=columns,
        overwrite=overwrite,
        storage=storage,
        rows_per_file=rows_per_file,
        max_tasks=max_tasks,
        dry_run=dry_run,
        progress=progress,
    )
    return frame(spark, Exported, rows)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    destination: str,
    chosen: Sequence[TableId],
    *,
    format: str = "parquet",
    versions: Mapping[str, int] | None = None,
    columns: Sequence[str] | None = None,
    overwrite: bool = False,
    storage: Mapping[str, str] | None = None,
    rows_per_file: int = ROWS_PER_FILE,
    max_tasks: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[Exported]:
    """The rows of `export`, for the tables that are given."""
    if rows_per_file < 1:
        raise InvalidInputError("rows_per_file must be at least 1")
    settings = _settings(catalog, destination, storage)
    pinned = {tuple(parts_of(name)): version for name, version in (versions or {}).items()}
    wanted = Wish(format_named(format), None if columns is None else tuple(columns), overwrite)
    store = open_store(settings)

    def plan(table: TableId) -> Plan:
        return plan_table(
            catalog, store, settings.root, table, pinned.get(table), wanted, rows_per_file
        )

    with ThreadPoolExecutor(DRIVER_THREADS) as pool:
        plans = list(pool.map(plan, chosen))
    if not dry_run:
        parts = [part for each in plans for part in each.parts]
        written = fanout.run(
            spark,
            catalog,
            _Write(settings, wanted),
            parts,
            lambda part, error: _File("", error=error),
            doing="export a table",
            max_tasks=max_tasks,
            fewest_items=1,
            progress=progress,
        )
        files = iter(written)
        ended = [(each, list(islice(files, len(each.parts)))) for each in plans]
        with ThreadPoolExecutor(DRIVER_THREADS) as pool:
            plans = list(pool.map(lambda each: _finish(store, each[0], each[1], wanted), ended))
    return [each.row for each in plans]


def _settings(
    catalog: DirectoryNamespace, destination: str, storage: Mapping[str, str] | None
) -> Settings:
    own = Settings.from_properties(catalog.as_properties())
    options = own.storage if storage is None else storage
    given = {f"{STORAGE_PREFIX}{key}": value for key, value in options.items()}
    found = Settings.from_properties({"root": destination, **given})
    if f"{found.root}/".startswith(f"{own.root}/"):
        raise InvalidInputError(
            "tables can't be exported into their own catalog", hint="choose another folder"
        )
    return found


@dataclass(frozen=True)
class _File:
    """One file that was written."""

    name: str
    rows: int = 0
    size: int = 0
    error: str | None = None


@dataclass(frozen=True)
class _Write:
    """On an executor: one file. Each try has a name of its own, so none spoils another's."""

    settings: Settings
    wanted: Wish

    def __call__(self, catalog: DirectoryNamespace, part: Part) -> _File:
        chosen = Wanted(columns=self.wanted.columns)
        own = uuid4().hex[:8]
        name = f"part-{part.number:05d}-{part.token}-{own}.{self.wanted.format}"
        schema = scan.schema_of(part.snapshot, chosen)
        rows = scan.read(part.snapshot, chosen, part.piece)
        key = f"{part.folder}/{name}"
        with open_streams(self.settings).writer(key) as file:
            count = writers.write(self.wanted.format, file, schema, rows)
        return _File(name, count, open_store(self.settings).head(key).size)


def _finish(store: Store, plan: Plan, files: Sequence[_File], wanted: Wish) -> Plan:
    """Make the files the table, or remove them."""
    if not plan.parts:
        return plan
    errors = [each.error for each in files if each.error is not None]
    row = plan.row
    try:
        if errors:
            row = replace(row, action=Action.FAILED, error=errors[0])
            _remove(store, plan, [], only_own=True)
        else:
            rows = sum(each.rows for each in files)
            listed = [{"name": e.name, "rows": e.rows, "bytes": e.size} for e in files]
            body = {**wanted.record(row.version), "table": row.table, "rows": rows, "files": listed}
            store.put(f"{plan.folder}/{SUCCESS}", json.dumps(body, indent=1).encode())
            size = sum(each.size for each in files)
            row = replace(row, action=Action.EXPORTED, rows=rows, files=len(files), bytes=size)
            _remove(store, plan, files, only_own=False)
    except TiltyardError as error:
        row = replace(row, action=Action.FAILED, error=str(error))
    return replace(plan, row=row)


def _remove(store: Store, plan: Plan, keep: Sequence[_File], *, only_own: bool) -> None:
    """Remove files of this run, or of every other too, that are not among those to keep."""
    kept = {each.name for each in keep}
    going = []
    for entry in store.list(plan.folder).objects:
        ours = OURS.fullmatch(entry.name)
        if ours and entry.name not in kept and (not only_own or ours[1] == plan.token):
            going.append(entry.key)
    store.delete_many(going)
