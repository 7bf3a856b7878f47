"""`orphans`: what lies in a catalog and nothing refers to, found by a join and removed in bulk.

Executors read what all versions refer to, and list the directories of tables, each a stream of
rows. Spark joins both: a file whose name no version has is a candidate. Then each table with
candidates is looked at once more, at the versions that came since, right before anything is
deleted. What lies beside the tables is found on the driver. `maintenance.orphans` says what an
orphan is; only its units are run here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tiltyard import names
from tiltyard.catalog.base import Table
from tiltyard.errors import InvalidInputError, translate
from tiltyard.maintenance.candidates import Candidate, candidate
from tiltyard.maintenance.orphan import Orphan
from tiltyard.maintenance.orphans import Orphans, state_of
from tiltyard.namespace import DirectoryNamespace
from tiltyard.namespace.health import Duration, orphan_floor_ms
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.packing import pack
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress
from tiltyard.spark.table import cores
from tiltyard.spark.target import opened
from tiltyard.store import Entry

ROWS_PER_BATCH = 16 * 1024
TASKS_PER_CORE = 4
# Names that one task remembers, so as not to send them again with each version.
REMEMBERED = 1_000_000

NAME, SEEN, ERROR = "name", "seen", "error"
_REFERENCES = "location string, kind string, value string"
_CANDIDATES = (
    "location string, path string, size long, modified_ms long, name string, names array<string>"
)
_FOUND = "location string, path string, size long, modified_ms long, error string"
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
    floor_ms = orphan_floor_ms(older_than, removes=not dry_run, even_if_young=even_if_young)
    _check(inventory)
    spark, place = fanout.session_of(spark), fanout.catalog_of(catalog)
    search = _Search(spark, place, floor_ms, dry_run=dry_run, max_tasks=max_tasks)
    rows = search.run(inventory, progress)
    return frame(spark, OrphanFile, rows)


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

    def run(self, inventory: DataFrame | None, progress: Progress | None) -> list[OrphanFile]:
        rows = list(self._beside())
        tables = fanout.run(
            self._spark,
            self._catalog,
            _find,
            self._catalog.choose_tables(),
            lambda table, error: OrphanFile(
                names.dotted(table), "table", action=Action.FAILED, error=error
            ),
            doing="find a table",
            max_tasks=self._max_tasks,
            progress=progress,
        )
        rows += [each for each in tables if isinstance(each, OrphanFile)]
        found = [each for each in tables if isinstance(each, Table)]
        return rows + self._inside(found, inventory) if found else rows

    def _beside(self) -> Iterator[OrphanFile]:
        """What belongs to no table, by the rules and the hand of the search in one process."""
        units = self._catalog.orphan_units
        found = [*units.around(self._floor_ms), *units.beside(self._floor_ms)]
        gone = set() if self._dry_run else set(units.remove(found, self._floor_ms))
        for each in found:
            done = Action.REMOVED if each in gone else Action.KEPT
            yield _row(each, Action.FOUND if self._dry_run else done)

    def _inside(self, tables: Sequence[Table], inventory: DataFrame | None) -> list[OrphanFile]:
        references = self._tasks(tables, _references, _REFERENCES)
        references = references.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            failed = references.where(F.col("kind") == ERROR).collect()
            broken = {row.location for row in failed}
            readable = [each for each in tables if each.location not in broken]
            if inventory is None:
                listed = self._tasks(readable, _listing, _CANDIDATES)
            else:
                listed = self._taken(inventory, readable)
            found = self._unreferred(listed, references)
            answer = self._looked_at_again(found, references, fresh=inventory is not None)
            rows = [_result(row, dry_run=self._dry_run) for row in answer.toArrow().to_pylist()]
        finally:
            references.unpersist()
        errors = [
            OrphanFile(each.location, "table", 0, action=Action.FAILED, error=each.value)
            for each in failed
        ]
        return [*errors, *sorted(rows, key=lambda each: each.path)]

    def _tasks(self, tables: Sequence[Table], work: Work, schema: str) -> DataFrame:
        """A stream of rows about tables, many of them to a task."""
        most = self._max_tasks or (cores(self._spark) or 1) * TASKS_PER_CORE
        packed = [[tables[at] for at in task] for task in pack(tables, most)]
        properties, floor_ms = self._properties, self._floor_ms

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            units = opened(properties).orphan_units
            numbers = (each for batch in batches for each in batch.column(0).to_pylist())
            for number in numbers:
                yield from work(units, packed[number], floor_ms, properties)

        count = max(1, len(packed))
        return self._spark.range(0, len(packed), 1, count).mapInArrow(run, schema)

    def _taken(self, inventory: DataFrame, tables: Sequence[Table]) -> DataFrame:
        """Candidates out of a listing that others made: of full addresses, or keys of the root."""
        by_location = {each.location: each for each in tables}
        properties, floor_ms = self._properties, self._floor_ms
        root = Settings.from_properties(properties).root.rstrip("/") + "/"

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            units = opened(properties).orphan_units
            noted = units.noted(floor_ms)
            for batch in batches:
                found: list[Candidate] = []
                for row in batch.to_pylist():
                    entry = _entry(row, root)
                    table = by_location.get(_location(entry.key, by_location))
                    if table is not None:
                        found += units.candidates(table, [entry], noted, floor_ms)
                yield _batch(found)

        listed = inventory.select(
            F.col("path"),
            F.col("size").cast("long"),
            F.unix_millis(F.col("modified").cast("timestamp")).alias("modified_ms"),
        )
        return listed.mapInArrow(run, _CANDIDATES)

    def _unreferred(self, listed: DataFrame, references: DataFrame) -> DataFrame:
        """Candidates that no version refers to: first by the likeliest of their names, which leaves
        few, then by all. Spark takes these streams for tiny, and would broadcast them."""
        known = references.where(F.col("kind") == NAME).select(
            "location", F.col("value").alias("name")
        )
        rest = listed.join(known.hint("merge"), ["location", "name"], "left_anti")
        rest = rest.persist(StorageLevel.MEMORY_AND_DISK)
        each_name = rest.select("path", "location", F.explode("names").alias("name"))
        needed = each_name.join(known.hint("merge"), ["location", "name"], "left_semi")
        return rest.join(needed.select("path").distinct().hint("merge"), "path", "left_anti")

    def _looked_at_again(
        self, found: DataFrame, references: DataFrame, *, fresh: bool
    ) -> DataFrame:
        seen = references.where(F.col("kind") == SEEN).select("location", "value")
        seen = seen.join(found.select("location").distinct().hint("merge"), "location", "left_semi")
        properties, floor_ms, dry_run = self._properties, self._floor_ms, self._dry_run

        def look(left: pa.Table, right: pa.Table) -> pa.Table:
            units = opened(properties).orphan_units
            rows = left.to_pylist()
            location = rows[0]["location"] if rows else ""
            try:
                going = _still(units, rows, set(right.column("value").to_pylist()), floor_ms, fresh)
                if not dry_run:
                    units.delete(going)
            except Exception as error:
                secrets = Settings.from_properties(properties).secrets
                ours = translate(error, f"look at {location} again", secrets)
                return _answer(location, [], str(ours))
            return _answer(location, going)

        chosen = found.select("location", "path", "size", "modified_ms")
        by_location = chosen.groupBy("location").cogroup(seen.groupBy("location"))
        return by_location.applyInArrow(look, _FOUND)


# ---------------------------------------------------------------- on executors


Work = Callable[[Orphans, Sequence[Table], int, Mapping[str, str]], Iterator[pa.RecordBatch]]


def _find(catalog: DirectoryNamespace, table: names.TableId) -> Table | None:
    return catalog.orphan_units.table(names.object_id(table))


def _listing(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    noted = units.noted(floor_ms)
    for table in tables:
        found = units.listed(table, noted, floor_ms)
        while some := list(islice(found, ROWS_PER_BATCH)):
            yield _batch(some)


def _references(
    units: Orphans, tables: Sequence[Table], floor_ms: int, properties: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    secrets = Settings.from_properties(properties).secrets
    for table in tables:
        sent: set[str] = set()
        try:
            manifests, indexes = units.manifests(table)
            yield _refer(table, SEEN, [state_of(each) for each in manifests])
            for needed in units.references(table, manifests, indexes, floor_ms):
                new = (needed.files | needed.uuids) - sent
                yield _refer(table, NAME, list(new))
                sent = sent | new if len(sent) < REMEMBERED else new
        except Exception as error:  # of whatever kind: the others go on
            ours = translate(error, f"read table {names.display(table.id)}", secrets)
            yield _refer(table, ERROR, [str(ours)])


def _refer(table: Table, kind: str, values: Sequence[str]) -> pa.RecordBatch:
    count = len(values)
    columns = [
        pa.array([table.location] * count, pa.string()),
        pa.array([kind] * count, pa.string()),
        pa.array(values, pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["location", "kind", "value"])


def _batch(found: Sequence[Candidate]) -> pa.RecordBatch:
    every = [each.names for each in found]
    columns = {
        "location": pa.array([each.location for each in found], pa.string()),
        "path": pa.array([each.entry.key for each in found], pa.string()),
        "size": pa.array([each.entry.size for each in found], pa.int64()),
        "modified_ms": pa.array([each.entry.modified_ms for each in found], pa.int64()),
        "name": pa.array([each[0] if each else "" for each in every], pa.string()),
        "names": pa.array(every, pa.list_(pa.string())),
    }
    return pa.RecordBatch.from_pydict(columns)


def _still(
    units: Orphans, rows: Sequence[dict[str, object]], seen: set[str], floor_ms: int, fresh: bool
) -> list[Candidate]:
    if not rows:
        return []
    location = str(rows[0]["location"])
    table = units.table_at(location)
    if table is None:  # dropped since: all of it belongs to the trash now
        return []
    found = [candidate(location, _as_entry(row)) for row in rows]
    candidates = [each for each in found if each is not None]
    if fresh:
        candidates = units.fresh(candidates)
    return units.still(table, candidates, seen, floor_ms)


def _as_entry(row: Mapping[str, object]) -> Entry:
    return Entry(str(row["path"]), int(str(row["size"])), int(str(row["modified_ms"])))


def _entry(row: Mapping[str, object], root: str) -> Entry:
    found = _as_entry(row)
    return Entry(found.key.removeprefix(root), found.size, found.modified_ms)


def _location(key: str, known: Mapping[str, Table]) -> str:
    """The directory of a table that a key lies in, the innermost one."""
    above = key
    while "/" in above:
        above = above.rpartition("/")[0]
        if above in known:
            return above
    return ""


def _answer(location: str, going: Sequence[Candidate], error: str | None = None) -> pa.Table:
    rows = [
        {
            "location": location,
            "path": each.entry.key,
            "size": each.entry.size,
            "modified_ms": each.entry.modified_ms,
        }
        for each in going
    ]
    if error is not None:
        rows = [{"location": location, "error": error}]
    schema = pa.schema(
        [
            ("location", pa.string()),
            ("path", pa.string()),
            ("size", pa.int64()),
            ("modified_ms", pa.int64()),
            ("error", pa.string()),
        ]
    )
    return pa.Table.from_pylist(rows, schema)


# ---------------------------------------------------------------- rows


def _result(row: Mapping[str, object], *, dry_run: bool) -> OrphanFile:
    location = str(row["location"])
    if row["error"] is not None:
        return OrphanFile(location, "table", action=Action.FAILED, error=str(row["error"]))
    found = candidate(location, _as_entry(row))
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
