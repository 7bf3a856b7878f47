"""`python -m benchmarks.jobs_data`: files into a table against Spark's own Parquet, and how many
files a second a search for orphans looks at.

Both sides of a load read the same Parquet files, in one session and in turns: we write a table,
Spark writes Parquet again. For the search a catalog is made whose tables have a thousand files
each, links to the same bytes; the figure has the whole job in it, planning and second look too.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tiltyard
from benchmarks.measure import (
    Contest,
    Count,
    contest,
    file_system_of,
    quick_from,
    show_contests,
    show_counts,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Not slower than by a quarter.
INGEST = 1 / 1.25
FILES_PER_SECOND = 20_000
FILES_PER_TABLE = 1_000
LONG_AGO = time.time() - 30 * 86_400


def main(*, quick: bool) -> int:
    """Measure, print, and return how many goals were missed."""
    from tiltyard.spark.session import session

    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    return compare(spark, quick=quick)


def compare(spark: SparkSession, *, quick: bool) -> int:
    """Both measurements in one session."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        home, where = Path(folder), file_system_of(folder)
        rows, files = (200_000, 4) if quick else (5_000_000, 16)
        load = ingest(spark, home / "load", rows, files)
        behind = show_contests(f"{rows:,} rows of {files} Parquet files ({where})", [load])
        tables = 20 if quick else 200
        scan = orphan_scan(spark, home / "scan", tables)
        title = f"Files a second, {tables * FILES_PER_TABLE:,} files ({where})"
        # Few files are over before a job has begun, so only many of them have a goal.
        return behind + show_counts(title, [scan]) * (not quick)


def ingest(spark: SparkSession, home: Path, rows: int, files: int) -> Contest:
    """Parquet files into a table, and into Parquet by Spark."""
    from tiltyard.job_options import IngestJob
    from tiltyard.spark.jobs.ingest import run

    home.mkdir()
    source = home / "source"
    source.mkdir()
    dice = np.random.default_rng(0)
    for number in range(files):
        size = rows // files
        data = pa.table(
            {
                "id": dice.integers(0, 2**40, size),
                "at": pa.array(np.arange(size), pa.timestamp("us")),
                "amount": dice.random(size),
                "group": dice.integers(0, 100, size).astype(np.int32),
                "text": [f"text {integer}" for integer in dice.integers(0, 10**6, size)],
            }
        )
        pq.write_table(data, source / f"{number:03}.parquet")
    catalog = tiltyard.connect(home / "lake")
    numbers = count()

    def ours() -> None:
        name = f"t{next(numbers)}"
        loaded = run(spark, catalog, {name: str(source)}, IngestJob())
        assert sum(piece.rows for piece in loaded) == rows // files * files
        shutil.rmtree(home / "lake" / f"{name}.lance")

    def theirs() -> None:
        spark.read.parquet(str(source)).write.mode("overwrite").parquet(str(home / "parquet"))

    return contest("files into a table, into Parquet", ours, theirs, goal=INGEST)


def orphan_scan(spark: SparkSession, home: Path, tables: int) -> Count:
    """How many files are looked at in a second; it may be more, so the goal is its negative."""
    from tiltyard.job_options import OrphansJob
    from tiltyard.spark.jobs.orphans import run

    catalog, planted = _littered(home, tables)
    run(spark, catalog, OrphansJob(dry_run=True))  # once for everything that happens only once
    began = time.perf_counter()
    found = run(spark, catalog, OrphansJob(dry_run=True))
    seconds = time.perf_counter() - began
    assert {file.path for file in found} == planted
    rate = round(tables * FILES_PER_TABLE / seconds)
    print(f"orphans: {rate:,} files/s, {seconds:.1f} s for {tables:,} tables")
    return Count("seconds of the search", round(seconds), 0, _most_seconds(tables))


def _most_seconds(tables: int) -> int:
    return max(1, tables * FILES_PER_TABLE // FILES_PER_SECOND)


def _littered(home: Path, tables: int) -> tuple[tiltyard.DirectoryNamespace, set[str]]:
    """A catalog with a stray file in every tenth table."""
    home.mkdir()
    first = home / "t0000.lance"
    rows = pa.table({"id": range(FILES_PER_TABLE)})
    lance.write_dataset(rows, first, max_rows_per_file=1, data_storage_version="2.2")
    for number in range(1, tables):
        shutil.copytree(first, home / f"t{number:04}.lance", copy_function=os.link)
    planted = set()
    for number in range(0, tables, 10):
        path = f"t{number:04}.lance/data/stray.lance"
        (home / path).write_bytes(b"bytes")
        planted.add(path)
    for each in home.rglob("*"):
        os.utime(each, (LONG_AGO, LONG_AGO))
    catalog = tiltyard.connect(home)
    catalog.maintenance.migrate()
    return catalog, planted


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from(sys.argv[1:])) else 0)
