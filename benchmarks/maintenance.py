"""`python -m benchmarks.maintenance`: many tables of small fragments, optimized by us and by a
plain loop over pylance's `compact_files`, and how fast they are read before and after.

Each round works on fresh copies of the same tables; copying is not timed. What is read is the sum
of a column of every table, opened anew.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import tiltyard
from benchmarks.measure import Contest, quick_from, show_contests

GOAL = 1.3
ROUNDS = 3
FRAGMENTS = 20
ROWS = 200
WIDTH = 16


def main(*, quick: bool) -> int:
    """Compare, print, and return how many goals were missed."""
    tables, rounds = (60, 2) if quick else (500, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        template = Path(folder) / "template.lance"
        _write(template)
        done = _compare(Path(folder), template, tables, rounds)
    return show_contests(f"{tables} tables of {FRAGMENTS} fragments", done)


def _write(template: Path) -> None:
    dice = np.random.default_rng(0)
    for number in range(FRAGMENTS):
        vectors = pa.array(dice.random(ROWS * WIDTH, dtype=np.float32))
        data = pa.table(
            {
                "id": pa.array(range(number * ROWS, (number + 1) * ROWS)),
                "text": [f"row {each} of fragment {number}" for each in range(ROWS)],
                "vector": pa.FixedSizeListArray.from_arrays(vectors, WIDTH),
            }
        )
        mode = "append" if number else "create"
        lance.write_dataset(
            data, template, mode=mode, data_storage_version="2.2", enable_stable_row_ids=True
        )


def _compare(folder: Path, template: Path, tables: int, rounds: int) -> list[Contest]:
    ours: list[float] = []
    theirs: list[float] = []
    before: list[float] = []
    after: list[float] = []
    for work in (_ours, _theirs):  # once for everything that happens only once
        with _copies(folder / "lake", template, 2) as root:
            work(root)
    for number in range(rounds):
        for work, times in ((_ours, ours), (_theirs, theirs))[:: 1 if number % 2 else -1]:
            with _copies(folder / "lake", template, tables) as root:
                if work is _ours:
                    before.append(_timed(lambda root=root: _read(root)))
                times.append(_timed(lambda root=root, work=work: work(root)))
                if work is _ours:
                    after.append(_timed(lambda root=root: _read(root)))
    middle = statistics.median
    print(
        f"optimize: {tables / middle(ours):.0f} tables/s, "
        f"a plain loop {tables / middle(theirs):.0f} tables/s; "
        f"reading {tables / middle(before):.0f} tables/s before and "
        f"{tables / middle(after):.0f} after"
    )
    return [
        Contest("optimize_all_tables, plain loop", middle(ours), middle(theirs), rounds, GOAL),
        Contest("reading after, before", middle(after), middle(before), rounds, 1.0),
    ]


@contextmanager
def _copies(root: Path, template: Path, tables: int) -> Iterator[Path]:
    for number in range(tables):
        shutil.copytree(template, root / f"table_{number:04}.lance")
    try:
        yield root
    finally:
        shutil.rmtree(root)


def _ours(root: Path) -> None:
    rows = tiltyard.connect(root).maintenance.optimize_all_tables()
    assert all(row.committed and not row.error for row in rows)
    assert all(row.fragments_added == 1 for row in rows)


def _theirs(root: Path) -> None:
    for table in sorted(root.glob("*.lance")):
        metrics = lance.dataset(table).optimize.compact_files()
        assert metrics.fragments_added == 1


def _read(root: Path) -> None:
    for table in sorted(root.glob("*.lance")):
        rows = lance.dataset(table).to_table(columns=["id"])
        assert pc.sum(rows["id"]).as_py() == sum(range(FRAGMENTS * ROWS))


def _timed(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from(sys.argv[1:])) else 0)
