"""Processes write to a table through pylance, others read it, while `maintain` runs again and
again. What was acknowledged is there, once, and no reader sees an error."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

import lance
import pytest
from pyspark.sql import SparkSession

import tiltyard
from tests.maintenance.test_busy_tables import SCHEMA, _answer, _start, write
from tiltyard.spark.jobs.maintain import run
from tiltyard.spark.jobs.policy import Policy

# Small targets, so that there are parts to be shared out while others write.
POLICY = Policy.parse(
    {
        "defaults": {
            "optimize": {"target_rows_per_fragment": 50},
            "cleanup": {"keep_versions": 3, "min_age": "20s", "allow_young": True},
        },
        "tables": {"t": {"indexes": [{"column": "id", "type": "BTREE"}]}},
        "limits": {"split_above": 1},
    }
)


def read(answers: Connection, opened: Mapping[str, str], number: int, seconds: float) -> None:
    """Read the whole table again and again; how often, and what went wrong."""
    catalog = tiltyard.DirectoryNamespace(**opened)
    until, reads, errors = time.monotonic() + seconds, 0, []
    while time.monotonic() < until:
        try:
            ids = catalog.open_table(["t"]).to_table(columns=["id"])["id"].to_pylist()
            if len(set(ids)) < len(ids):
                errors.append("a row came twice")
            reads += 1
        except Exception as error:
            errors.append(repr(error))
    answers.send((reads, errors))


def _busy(spark: SparkSession, root: Path, writers: int, seconds: float) -> list[str]:
    """Which steps changed something."""
    properties = {"root": str(root), "table_version_tracking_enabled": "true"}
    catalog = tiltyard.DirectoryNamespace(**properties)
    lance.write_dataset(SCHEMA.empty_table(), namespace_client=catalog, table_id=["t"])
    working = [_start(write, properties, number, seconds) for number in range(writers)]
    reading = [_start(read, properties, number, seconds) for number in range(2)]

    steps = []
    while not all(connection.poll() for _, connection in working):
        steps += run(spark, catalog, POLICY)
    steps += run(spark, catalog, POLICY)
    owned = [_answer(connection) for _, connection in working]
    reads = [connection.recv() for _, connection in reading]
    for process, _ in (*working, *reading):
        process.join()

    rows = catalog.open_table(["t"]).to_table().to_pylist()
    doubtful = set().union(*(writer.doubtful for writer in owned))
    assert set(Counter(row["id"] for row in rows).values()) <= {1}, "no row came twice"
    present = {row["id"]: row["value"] for row in rows if row["id"] not in doubtful}
    expected = {key: value for writer in owned for key, value in writer.values.items()}
    assert present == {key: value for key, value in expected.items() if key not in doubtful}
    assert [error for _, errors in reads for error in errors] == []
    assert all(count for count, _ in reads)
    assert [error for step in steps for error in step.errors if "first" not in error] == []
    return [step.step for step in steps if step.changed]


@pytest.mark.slow
def test_rows_are_right_while_a_catalog_is_maintained(spark: SparkSession, tmp_path: Path) -> None:
    assert "optimize" in _busy(spark, tmp_path / "lake", 2, 4)


@pytest.mark.slow
def test_rows_are_right_for_two_minutes(cluster: SparkSession, tmp_path: Path) -> None:
    changed = _busy(cluster, tmp_path / "lake", 4, 120)
    assert {"optimize", "index", "cleanup"} <= set(changed)
