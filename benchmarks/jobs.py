"""`python -m benchmarks.jobs`: a sweep over many tables by Spark, by a pool of threads and by a
plain loop; one big table compacted by all executors and by one process; and how both grow from one
executor to two.

Each round works on fresh copies of the same tables, links to the same bytes; making them is not
timed, nor is the start of Spark. Loads and orphans: `python -m benchmarks.jobs_data`.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa

import tiltyard
from benchmarks.measure import Contest, quick_from, show_contests
from tiltyard.maintenance.optimize import OptimizeOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SWEEP = 0.9
COMPACTION = 0.7
ROUNDS = 3
SMALL_FRAGMENTS, SMALL_ROWS = 20, 200
BIG_FRAGMENTS = 64
PARTS = 8
WIDTH = 32

Work = Callable[[Path], object]


@dataclass(frozen=True)
class Sizes:
    """How many small tables, how many rows each fragment of the big one, how many rounds."""

    tables: int = 500
    big_rows: int = 200_000
    rounds: int = ROUNDS

    @property
    def options(self) -> OptimizeOptions:
        return OptimizeOptions(target_rows_per_fragment=BIG_FRAGMENTS * self.big_rows // PARTS)


QUICK = Sizes(tables=60, big_rows=2_000, rounds=1)


def main(*, quick: bool) -> int:
    """Compare, print, and return how many goals were missed."""
    from tiltyard.spark.session import session

    sizes = QUICK if quick else Sizes()
    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        templates = prepare(Path(folder), sizes)
        behind = compare(spark, Path(folder), templates, sizes)
        spark.stop()
        _growth(Path(folder), templates, sizes)
    return behind


def prepare(home: Path, sizes: Sizes) -> tuple[Path, Path]:
    """One small table, of which all others are copies, and a big one."""
    small, big = home / "small.lance", home / "big.lance"
    _write(small, SMALL_FRAGMENTS, SMALL_ROWS)
    _write(big, BIG_FRAGMENTS, sizes.big_rows)
    return small, big


def compare(spark: SparkSession, home: Path, templates: tuple[Path, Path], sizes: Sizes) -> int:
    """Spark against one process, in turns; how many goals were missed."""
    small, big = templates
    ways: list[Work] = [lambda root: _by_spark(spark, root), _by_threads, _by_a_loop]
    ours, threads, loop = _in_turns(ways, home, small, sizes.tables, sizes.rounds)
    ways = [
        lambda root: _in_parts(spark, root, sizes.options),
        lambda root: _in_process(root, sizes.options),
    ]
    parts, whole = _in_turns(ways, home, big, 1, sizes.rounds)
    size = sum(path.stat().st_size for path in big.rglob("*.lance"))
    print(
        f"sweep: {sizes.tables / ours:.0f} tables/s by Spark, {sizes.tables / threads:.0f} by "
        f"threads, {sizes.tables / loop:.0f} by a loop; one table of {size / 2**20:.0f} MiB: "
        f"{size / parts / 2**20:.0f} MiB/s by executors, {size / whole / 2**20:.0f} in process"
    )
    rounds = sizes.rounds
    return show_contests(
        f"{sizes.tables} tables of {SMALL_FRAGMENTS} fragments, and one of {BIG_FRAGMENTS}",
        [
            Contest("sweep by Spark, by a pool of threads", ours, threads, rounds, SWEEP),
            Contest("sweep by Spark, by a plain loop", ours, loop, rounds, SWEEP),
            Contest("one big table in parts, in process", parts, whole, rounds, COMPACTION),
        ],
    )


def _growth(home: Path, templates: tuple[Path, Path], sizes: Sizes) -> None:
    """The same work by one executor process and by two, with a core each."""
    from tiltyard.spark.session import session

    for executors in (1, 2):
        spark = session(f"local-cluster[{executors},1,1024]")
        spark.sparkContext.setLogLevel("OFF")
        small, big = templates
        sweep: Work = lambda root, spark=spark: _by_spark(spark, root)  # noqa: E731
        parts: Work = lambda root, spark=spark: _in_parts(spark, root, sizes.options)  # noqa: E731
        (swept,) = _in_turns([sweep], home, small, sizes.tables, sizes.rounds)
        (joined,) = _in_turns([parts], home, big, 1, sizes.rounds)
        spark.stop()
        print(
            f"{executors} executor(s): sweep {sizes.tables / swept:.0f} tables/s, "
            f"the big table in {joined:.1f} s"
        )


def _write(template: Path, fragments: int, rows: int) -> None:
    dice = np.random.default_rng(0)
    for number in range(fragments):
        vectors = pa.array(dice.random(rows * WIDTH, dtype=np.float32))
        data = pa.table(
            {
                "id": pa.array(range(number * rows, (number + 1) * rows)),
                "text": [f"row {each} of fragment {number}" for each in range(rows)],
                "vector": pa.FixedSizeListArray.from_arrays(vectors, WIDTH),
            }
        )
        mode = "append" if number else "create"
        lance.write_dataset(
            data, template, mode=mode, data_storage_version="2.2", enable_stable_row_ids=True
        )


def _in_turns(
    ways: Sequence[Work], home: Path, template: Path, tables: int, rounds: int
) -> list[float]:
    """The median time of each way. One round before them warms up, on a tenth of the tables."""
    times: list[list[float]] = [[] for _ in ways]
    for number in range(rounds + 1):
        order = list(zip(ways, times, strict=True))
        for work, taken in order[:: 1 if number % 2 else -1]:
            with _copies(home / "lake", template, tables if number else -(-tables // 10)) as root:
                start = time.perf_counter()
                work(root)
                if number:
                    taken.append(time.perf_counter() - start)
    return [statistics.median(each) for each in times]


@contextmanager
def _copies(root: Path, template: Path, tables: int) -> Iterator[Path]:
    """Files are never changed, only added, so links do."""
    for number in range(tables):
        shutil.copytree(template, root / f"table_{number:04}.lance", copy_function=os.link)
    try:
        yield root
    finally:
        shutil.rmtree(root)


def _by_spark(spark: SparkSession, root: Path) -> None:
    from tiltyard.spark.jobs import optimize

    rows = optimize(root, spark).collect()
    assert all(row.committed and row.added_fragments_count == 1 for row in rows)


def _by_threads(root: Path) -> None:
    rows = tiltyard.connect(root).maintenance.optimize_all_tables()
    assert all(row.committed and row.fragments_added == 1 for row in rows)


def _by_a_loop(root: Path) -> None:
    for table in sorted(root.glob("*.lance")):
        metrics = lance.dataset(table).optimize.compact_files()
        assert metrics.fragments_added == 1


def _in_parts(spark: SparkSession, root: Path, options: OptimizeOptions) -> None:
    from tiltyard.spark.jobs import optimize

    (row,) = optimize(
        root,
        spark,
        target_rows_per_fragment=options.target_rows_per_fragment,
        split_above=1,
    ).collect()
    assert (row.added_fragments_count, row.error) == (PARTS, None), row


def _in_process(root: Path, options: OptimizeOptions) -> None:
    row = tiltyard.connect(root).maintenance.optimize_table(["table_0000"], options=options)
    assert row.fragments_added == PARTS, row


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from(sys.argv[1:])) else 0)
