"""`orphans`: what lies in a catalog and nothing refers to, found by a join and removed in bulk.

Executors read what all versions of a table refer to, and then list its directory: a file whose
name no version has is a candidate. Where the names of one table are too many for a process, or the
listing is somebody else's, both are streams of rows, and Spark joins them. Then each table with
candidates is looked at once more, at the versions that came since, right before anything is
deleted. What lies beside the tables is found on the driver. `maintenance.orphans` says what an
orphan is; only its units are run here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from uuid import uuid4

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.errors import InvalidInputError, translate
from tiltyard.job_options import OrphansJob
from tiltyard.maintenance.orphan_candidates import Orphan, candidate
from tiltyard.namespace import DirectoryNamespace
from tiltyard.namespace.health import orphan_floor_ms
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout, orphan_rows
from tiltyard.spark.jobs.fanout import pack
from tiltyard.spark.jobs.job import frame, job
from tiltyard.spark.table import cores
from tiltyard.spark.target import opened

# Names that versions of one table have, and one process holds: some hundred MB of them.
MOST_NAMES = 1_000_000
_LISTED = ("path", "size", "modified")
# Spark takes these streams for tiny, and would broadcast them.
_MERGE = "merge"
_NAMED = ["location", "name"]


class OrphanAction(StrEnum):
    """What became of an orphan."""

    FOUND = "found"
    REMOVED = "removed"
    KEPT = "kept"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """Something that nothing refers to; or, with an error, a table of which nothing can be told."""

    path: str
    kind: str
    bytes: int = 0
    modified_at: datetime | None = None
    why: str = ""
    location: str | None = None
    action: OrphanAction = OrphanAction.FOUND
    error: str | None = None


@job(OrphansJob)
def orphans(spark: SparkSession, catalog: DirectoryNamespace, options: OrphansJob) -> DataFrame:
    """Find what is older than seven days, or `older_than`, and nothing refers to; and remove it
    unless it is a `dry_run`. One row for each orphan, and one for each table that can't be read.

    `inventory` takes the place of a listing of the tables: rows of path, size and modified, as a
    bucket's inventory has them. Its files are looked at before they are removed. The driver holds
    the orphans, never the listing.
    """
    return frame(spark, OrphanFile, run(spark, catalog, options))


def run(spark: SparkSession, catalog: DirectoryNamespace, options: OrphansJob) -> list[OrphanFile]:
    """The rows of `orphans`."""
    floor_ms = orphan_floor_ms(
        options.older_than, removes=not options.dry_run, even_if_young=options.even_if_young
    )
    _check(options.inventory)
    return _OrphanSearch(spark, catalog, floor_ms, options).run()


def _check(inventory: DataFrame | None) -> None:
    missing = (
        [] if inventory is None else [name for name in _LISTED if name not in inventory.columns]
    )
    if missing:
        raise InvalidInputError(
            f"the inventory has no column {missing[0]!r}",
            hint=f"it needs {', '.join(_LISTED)}; rename those that it has",
        )


class _OrphanSearch:
    """One search through one catalog."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        floor_ms: int,
        options: OrphansJob,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._properties = catalog.as_properties()
        self._floor_ms = floor_ms
        self._options = options
        # Spark takes what it has cached for a plan that looks the same, of another run too.
        self._token = uuid4().hex

    def run(self) -> list[OrphanFile]:
        rows = list(self._outside_tables())
        answers = fanout.run(
            self._spark,
            self._catalog,
            _find,
            self._catalog.maintenance.choose_tables(),
            lambda table, error: _failed(names.dotted(table), error),
            doing="find a table",
            max_tasks=self._options.max_tasks,
        )
        rows += [answer for answer in answers if isinstance(answer, OrphanFile)]
        tables = [answer for answer in answers if isinstance(answer, Table)]
        return rows + self._inside(tables) if tables else rows

    def _outside_tables(self) -> Iterator[OrphanFile]:
        """What belongs to no table, found and removed as the search in one process does."""
        units = self._catalog.services.orphans
        orphans = list(units.outside_tables.find(self._floor_ms))
        dry_run = self._options.dry_run
        removed = set() if dry_run else set(units.remove(orphans, self._floor_ms))
        for orphan in orphans:
            done = OrphanAction.REMOVED if orphan in removed else OrphanAction.KEPT
            yield _row(orphan, OrphanAction.FOUND if dry_run else done)

    def _inside(self, tables: Sequence[Table]) -> list[OrphanFile]:
        inventory = self._options.inventory
        unreferenced = partial(orphan_rows.unreferenced, most_names=MOST_NAMES)
        work = unreferenced if inventory is None else orphan_rows.references
        with ExitStack() as stack:
            references = _cached(self._tasks(tables, work, orphan_rows.REFERENCES), stack)
            progress = self._options.progress
            with fanout.reported(self._spark, self._count(tables), len(tables), progress):
                exceptional = _of_kind(references, orphan_rows.ERROR, orphan_rows.BIG).collect()
            failed = {
                row.location: row.value for row in exceptional if row.kind == orphan_rows.ERROR
            }
            candidates = _unreferenced(references, failed)
            if inventory is None:
                big = {row.location for row in exceptional} - failed.keys()
                listed = self._list_files([table for table in tables if table.location in big])
            else:
                readable = [table for table in tables if table.location not in failed]
                listed = self._take_inventory(inventory, readable)
            if listed is not None:
                known = _known_names(references)
                rest = _cached(_without_likeliest_name(listed, known), stack)
                more = _without_any_name(rest, known).select(*candidates.columns)
                candidates = candidates.union(more)
            answer = self._look_again(candidates, references)
            rows = [self._result(row) for row in answer.toArrow().to_pylist()]
        errors = [_failed(location, error) for location, error in failed.items()]
        return [*errors, *sorted(rows, key=lambda row: row.path)]

    def _list_files(self, tables: Sequence[Table]) -> DataFrame | None:
        """The files of tables that have too many names; None if there is no such table."""
        if not tables:
            return None
        return self._tasks(tables, orphan_rows.listing, orphan_rows.CANDIDATES)

    def _tasks(
        self, tables: Sequence[Table], work: orphan_rows.OrphanWork, schema: str
    ) -> DataFrame:
        """A stream of rows about tables, many of them to a task."""
        packed = [[tables[at] for at in task] for task in pack(tables, self._count(tables))]
        properties, floor_ms, token = self._properties, self._floor_ms, self._token

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            assert token
            units = opened(properties).services.orphans
            for number in (value for batch in batches for value in batch.column(0).to_pylist()):
                yield from work(units, packed[number], floor_ms, properties)

        count = max(1, len(packed))
        return self._spark.range(0, len(packed), 1, count).mapInArrow(run, schema)

    def _count(self, tables: Sequence[Table]) -> int:
        """How many tasks there are."""
        most = self._options.max_tasks or (cores(self._spark) or 1) * fanout.TASKS_PER_CORE
        return max(1, min(most, len(tables)))

    def _take_inventory(self, inventory: DataFrame, tables: Sequence[Table]) -> DataFrame:
        """Candidates out of a listing that others made: of full addresses, or keys of the root."""
        by_location = {table.location: table for table in tables}
        properties, floor_ms, token = self._properties, self._floor_ms, self._token
        root = Settings.from_properties(properties).root.rstrip("/") + "/"

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            assert token
            units = opened(properties).services.orphans
            yield from orphan_rows.from_inventory(units, batches, by_location, floor_ms, root)

        listed = inventory.select(
            functions.col("path"),
            functions.col("size").cast("long"),
            functions.unix_millis(functions.col("modified").cast("timestamp")).alias("modified_ms"),
        )
        return listed.mapInArrow(run, orphan_rows.CANDIDATES)

    def _look_again(self, candidates: DataFrame, references: DataFrame) -> DataFrame:
        """Those candidates that no version refers to that came since, removed unless it is a dry
        run."""
        seen = _of_kind(references, orphan_rows.SEEN).select(
            functions.col("location").alias("at"), "value"
        )
        properties, floor_ms = self._properties, self._floor_ms
        dry_run, fresh = self._options.dry_run, self._options.inventory is not None

        def look(left: pa.Table, right: pa.Table) -> pa.Table:
            units = opened(properties).services.orphans
            rows = left.to_pylist()
            location = rows[0]["location"] if rows else ""
            try:
                manifests = set(right.column("value").to_pylist())
                going = orphan_rows.still_unreferenced(units, rows, manifests, floor_ms, fresh)
                if not dry_run:
                    units.delete(going)
            except Exception as error:
                secrets = Settings.from_properties(properties).secrets
                ours = translate(error, f"look at {location} again", secrets)
                return orphan_rows.answer(location, [], str(ours))
            return orphan_rows.answer(location, going)

        by_location = candidates.groupBy("location").cogroup(seen.groupBy("at"))
        return by_location.applyInArrow(look, orphan_rows.ANSWER)

    def _result(self, row: Mapping[str, object]) -> OrphanFile:
        location = str(row["location"])
        if row["error"] is not None:
            return _failed(location, str(row["error"]))
        orphan = candidate(location, orphan_rows.as_entry(row))
        assert orphan is not None
        dry_run = self._options.dry_run
        return _row(orphan.orphan, OrphanAction.FOUND if dry_run else OrphanAction.REMOVED)


def _cached(rows: DataFrame, stack: ExitStack) -> DataFrame:
    cached = rows.persist(StorageLevel.MEMORY_AND_DISK)
    stack.callback(cached.unpersist)
    return cached


def _find(catalog: DirectoryNamespace, table: names.TableId) -> Table | None:
    return catalog.services.orphans.table(names.object_id(table))


def _failed(path: str, error: str) -> OrphanFile:
    return OrphanFile(path, "table", action=OrphanAction.FAILED, error=error)


def _row(orphan: Orphan, action: OrphanAction) -> OrphanFile:
    return OrphanFile(
        orphan.path,
        orphan.kind.value,
        orphan.bytes,
        orphan.modified_at,
        orphan.why,
        orphan.location,
        action,
    )


# -- what Spark does: choose rows by their kind, and join names of files with those of versions


def _of_kind(rows: DataFrame, *kinds: str) -> DataFrame:
    """The rows of some kinds."""
    return rows.where(functions.col("kind").isin(*kinds))


def _unreferenced(rows: DataFrame, broken: Collection[str]) -> DataFrame:
    """Files that nothing refers to, of tables that could be read to the end."""
    rows = _of_kind(rows, orphan_rows.UNREFERENCED).where(~functions.col("location").isin(*broken))
    return rows.select("location", functions.col("value").alias("path"), "size", "modified_ms")


def _known_names(rows: DataFrame) -> DataFrame:
    """The names that versions have."""
    return _of_kind(rows, orphan_rows.NAME).select("location", functions.col("value").alias("name"))


def _without_likeliest_name(listed: DataFrame, known: DataFrame) -> DataFrame:
    """Files whose likeliest name no version has: of those that are needed, few are left."""
    return listed.join(known.hint(_MERGE), _NAMED, "left_anti")


def _without_any_name(rest: DataFrame, known: DataFrame) -> DataFrame:
    """Files of which no version has any name."""
    names_of_rest = rest.mapInArrow(orphan_rows.every_name, orphan_rows.NAMES)
    referenced = names_of_rest.join(known.hint(_MERGE), _NAMED, "left_semi")
    return rest.join(referenced.select("path").hint(_MERGE), "path", "left_anti")
