"""`ingest`: source files into tables, many to many in one job, each file exactly once.

The driver finds the files, leaves out those that the ledgers of the tables have, and packs the
others into pieces. Executors read pieces and write data files. The driver commits: the rows of
files and the note that they are loaded are one commit, so a crash at any point neither loses a file
nor loads it twice; the next run does the rest. Bad records are committed to the reject table first,
in the same way, so they are there once too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout, frames
from tiltyard.spark.jobs.fanout import Place
from tiltyard.spark.jobs.frames import Frame
from tiltyard.spark.jobs.ingest_plan import Action, Ingested, Source, limit, plan_table
from tiltyard.spark.jobs.ingest_work import Work, in_threads
from tiltyard.spark.jobs.results import frame
from tiltyard.spark.jobs.watching import Progress

__all__ = ["Action", "Frame", "Ingested", "Source", "ingest", "run"]

FILES_PER_COMMIT = 10_000

Given = Source | Frame | str | Sequence[str]
Sources = Mapping[str, Given]


def ingest(
    catalog: Place,
    tables: Sources,
    spark: SparkSession | None = None,
    *,
    storage: Mapping[str, str] | None = None,
    again: bool = False,
    files_per_commit: int = FILES_PER_COMMIT,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> DataFrame:
    """Load source files into tables by their dotted names; one row for each file. A `Frame` is a
    DataFrame as a source.

    A file that was loaded before is left alone, also if its rows were compacted, changed or deleted
    since; `again` loads it once more. `storage` are the options of the sources' bucket, if they
    are not those of the catalog. `max_bytes` is the most that one run reads.
    """
    spark, opened = fanout.session_of(spark), fanout.catalog_of(catalog)
    rows = run(
        spark,
        opened,
        tables,
        storage=storage,
        again=again,
        files_per_commit=files_per_commit,
        max_tasks=max_tasks,
        max_bytes=max_bytes,
        dry_run=dry_run,
        progress=progress,
    )
    return frame(spark, Ingested, rows)


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    tables: Sources,
    *,
    storage: Mapping[str, str] | None = None,
    again: bool = False,
    files_per_commit: int = FILES_PER_COMMIT,
    max_tasks: int | None = None,
    max_bytes: int | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[Ingested]:
    """The rows of `ingest`."""
    if files_per_commit < 1:
        raise InvalidInputError("files_per_commit must be at least 1")
    options = _storage_of(catalog) if storage is None else dict(storage)
    wanted = [
        (name, _as_source(each)) for name, each in tables.items() if not isinstance(each, Frame)
    ]
    plans = in_threads(lambda item: plan_table(catalog, *item, options, again), wanted)
    limit(plans, max_bytes)
    if not dry_run:
        work = Work(catalog, spark, files_per_commit, max_tasks, progress)
        work.run([each for each in plans if each.waiting])
    rows = [row for each in plans for row in each.rows()]
    for name, each in tables.items():
        if isinstance(each, Frame):
            rows.append(frames.load(catalog, name, each, dry_run=dry_run))
    return rows


def _as_source(given: Source | str | Sequence[str]) -> Source:
    return given if isinstance(given, Source) else Source(given)


def _storage_of(catalog: DirectoryNamespace) -> Mapping[str, str]:
    return Settings.from_properties(catalog.as_properties()).storage
