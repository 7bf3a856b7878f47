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

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.errors import InvalidInputError, translate
from tiltyard.maintenance.orphan_candidates import Orphan, candidate
from tiltyard.namespace import DirectoryNamespace
from tiltyard.namespace.health import Duration, orphan_floor_ms
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout, orphan_join, orphan_rows
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.packing import pack
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress, watched
from tiltyard.spark.table import cores
from tiltyard.spark.target import opened

TASKS_PER_CORE = 4
# Names that versions of one table have, and one process holds: some hundred MB of them.
MOST_NAMES = 1_000_000
_LISTED = ("path", "size", "modified")


class Action(StrEnum):
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
    action: Action = Action.FOUND
    error: str | None = None


def orphans(
    catalog: Place,
    spark: SparkSession | None = None,
    *,
    older_than: Duration | None = None,
    even_if_young: bool = False,
    dry_run: bool = False,
    inventory: DataFrame | None = None,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> DataFrame:
    """Find what is older than seven days, or `older_than`, and nothing refers to; and remove it
    unless it is a `dry_run`. One row for each orphan, and one for each table that can't be read.

    `inventory` takes the place of a listing of the tables: rows of path, size and modified, as a
    bucket's inventory has them. Its files are looked at before they are removed. The driver holds
    the orphans, never the listing.
    """
    spark, opened_catalog = fanout.session_of(spark), fanout.catalog_of(catalog)
    rows = run(
        spark,
        opened_catalog,
        older_than=older_than,
        even_if_young=even_if_young,
        dry_run=dry_run,
        inventory=inventory,
        max_tasks=max_tasks,
        progress=progress,
    )
    return frame(spark, OrphanFile, rows)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    *,
    older_than: Duration | None = None,
    even_if_young: bool = False,
    dry_run: bool = False,
    inventory: DataFrame | None = None,
    max_tasks: int | None = None,
    progress: Progress | None = None,
) -> list[OrphanFile]:
    """The rows of `orphans`."""
    floor_ms = orphan_floor_ms(older_than, removes=not dry_run, even_if_young=even_if_young)
    _check(inventory)
    search = _Search(spark, catalog, floor_ms, dry_run=dry_run, max_tasks=max_tasks)
    return search.run(inventory, progress)


def _check(inventory: DataFrame | None) -> None:
    missing = [] if inventory is None else [e for e in _LISTED if e not in inventory.columns]
    if missing:
        raise InvalidInputError(
            f"the inventory has no column {missing[0]!r}",
            hint=f"it needs {', '.join(_LISTED)}; rename those that it has",
        )


class _Search:
    """One search through one catalog."""

    def __init__(
        self,
        spark: SparkSession,
        catalog: DirectoryNamespace,
        floor_ms: int,
        *,
        dry_run: bool,
        max_tasks: int | None,
    ) -> None:
        self._spark = spark
        self._catalog = catalog
        self._properties = catalog.as_properties()
        self._floor_ms = floor_ms
        self._dry_run = dry_run
        self._max_tasks = max_tasks
        # Spark takes what it has cached for a plan that looks the same, of another run too.
        self._token = uuid4().hex

    def run(self, inventory: DataFrame | None, progress: Progress | None) -> list[OrphanFile]:
        rows = list(self._beside())
        tables = fanout.run(
            self._spark,
            self._catalog,
            _find,
            self._catalog.maintenance.choose_tables(),
            lambda table, error: OrphanFile(
                names.dotted(table), "table", action=Action.FAILED, error=error
            ),
            doing="find a table",
            max_tasks=self._max_tasks,
        )
        rows += [each for each in tables if isinstance(each, OrphanFile)]
        found = [each for each in tables if isinstance(each, Table)]
        return rows + self._inside(found, inventory, progress) if found else rows

    def _beside(self) -> Iterator[OrphanFile]:
        """What belongs to no table, by the rules and the hand of the search in one process."""
        units = self._catalog.services.orphans
        found = list(units.outside_tables.find(self._floor_ms))
        gone = set() if self._dry_run else set(units.remove(found, self._floor_ms))
        for each in found:
            done = Action.REMOVED if each in gone else Action.KEPT
            yield _row(each, Action.FOUND if self._dry_run else done)

    def _inside(
        self, tables: Sequence[Table], inventory: DataFrame | None, progress: Progress | None
    ) -> list[OrphanFile]:
        look = partial(orphan_rows.strays, most_names=MOST_NAMES)
        work = look if inventory is None else orphan_rows.references
        with ExitStack() as stack:
            references = self._tasks(tables, work, orphan_rows.REFERENCES)
            references = _kept(references, stack)
            with watched(self._spark, self._count(tables), len(tables), progress):
                told = orphan_join.of(references, orphan_rows.ERROR, orphan_rows.BIG).collect()
            failed = {each.location: each.value for each in told if each.kind == orphan_rows.ERROR}
            found = orphan_join.strays(references, failed)
            if inventory is None:
                listed = self._listed(tables, {each.location for each in told} - failed.keys())
            else:
                listed = self._taken(inventory, [e for e in tables if e.location not in failed])
            if listed is not None:
                known = orphan_join.known(references)
                rest = _kept(orphan_join.without(listed, known), stack)
                found = found.union(orphan_join.without_all(rest, known).select(*found.columns))
            answer = self._looked_at_again(found, references, fresh=inventory is not None)
            rows = [_result(row, dry_run=self._dry_run) for row in answer.toArrow().to_pylist()]
        errors = [
            OrphanFile(location, "table", action=Action.FAILED, error=error)
            for location, error in failed.items()
        ]
        return [*errors, *sorted(rows, key=lambda each: each.path)]

    def _listed(self, tables: Sequence[Table], big: Collection[str]) -> DataFrame | None:
        """The files of tables that have too many names; None if there is no such table."""
        chosen = [each for each in tables if each.location in big]
        if not chosen:
            return None
        return self._tasks(chosen, orphan_rows.listing, orphan_rows.CANDIDATES)

    def _tasks(self, tables: Sequence[Table], work: orphan_rows.Work, schema: str) -> DataFrame:
        """A stream of rows about tables, many of them to a task."""
        packed = [[tables[at] for at in task] for task in pack(tables, self._count(tables))]
        properties, floor_ms, token = self._properties, self._floor_ms, self._token

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            assert token
            units = opened(properties).services.orphans
            numbers = (each for batch in batches for each in batch.column(0).to_pylist())
            for number in numbers:
                yield from work(units, packed[number], floor_ms, properties)

        count = max(1, len(packed))
        return self._spark.range(0, len(packed), 1, count).mapInArrow(run, schema)

    def _count(self, tables: Sequence[Table]) -> int:
        """How many tasks there are."""
        most = self._max_tasks or (cores(self._spark) or 1) * TASKS_PER_CORE
        return max(1, min(most, len(tables)))

    def _taken(self, inventory: DataFrame, tables: Sequence[Table]) -> DataFrame:
        """Candidates out of a listing that others made: of full addresses, or keys of the root."""
        by_location = {each.location: each for each in tables}
        properties, floor_ms, token = self._properties, self._floor_ms, self._token
        root = Settings.from_properties(properties).root.rstrip("/") + "/"

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            assert token
            units = opened(properties).services.orphans
            yield from orphan_rows.taken(units, batches, by_location, floor_ms, root)

        listed = inventory.select(
            functions.col("path"),
            functions.col("size").cast("long"),
            functions.unix_millis(functions.col("modified").cast("timestamp")).alias("modified_ms"),
        )
        return listed.mapInArrow(run, orphan_rows.CANDIDATES)

    def _looked_at_again(
        self, found: DataFrame, references: DataFrame, *, fresh: bool
    ) -> DataFrame:
        seen = orphan_join.of(references, orphan_rows.SEEN).select(
            functions.col("location").alias("at"), "value"
        )
        properties, floor_ms, dry_run = self._properties, self._floor_ms, self._dry_run

        def look(left: pa.Table, right: pa.Table) -> pa.Table:
            units = opened(properties).services.orphans
            rows = left.to_pylist()
            location = rows[0]["location"] if rows else ""
            try:
                going = orphan_rows.still(
                    units, rows, set(right.column("value").to_pylist()), floor_ms, fresh
                )
                if not dry_run:
                    units.delete(going)
            except Exception as error:
                secrets = Settings.from_properties(properties).secrets
                ours = translate(error, f"look at {location} again", secrets)
                return orphan_rows.answer(location, [], str(ours))
            return orphan_rows.answer(location, going)

        by_location = found.groupBy("location").cogroup(seen.groupBy("at"))
        return by_location.applyInArrow(look, orphan_rows.FOUND)


def _kept(rows: DataFrame, stack: ExitStack) -> DataFrame:
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    stack.callback(kept.unpersist)
    return kept


def _find(catalog: DirectoryNamespace, table: names.TableId) -> Table | None:
    return catalog.services.orphans.table(names.object_id(table))


def _result(row: Mapping[str, object], *, dry_run: bool) -> OrphanFile:
    location = str(row["location"])
    if row["error"] is not None:
        return OrphanFile(location, "table", action=Action.FAILED, error=str(row["error"]))
    found = candidate(location, orphan_rows.as_entry(row))
    assert found is not None
    return _row(found.orphan, Action.FOUND if dry_run else Action.REMOVED)


def _row(orphan: Orphan, action: Action) -> OrphanFile:
    return OrphanFile(
        orphan.path,
        orphan.kind.value,
        orphan.bytes,
        orphan.modified_at,
        orphan.why,
        orphan.location,
        action,
    )
