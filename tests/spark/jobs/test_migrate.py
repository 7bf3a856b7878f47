"""A migration by a job does what one by a single process does."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tiltyard
from tests.behaviours.calls import create, drop
from tiltyard.spark.jobs.migrate import migrate


def test_every_directory_gets_a_row_and_a_second_run_finds_nothing_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "lake"
    old = tiltyard.connect(root, manifest_enabled=False)
    for number in range(7):
        create(old, f"t{number}")
    drop(old, "t6")
    (root / "t5.lance" / ".lance-deregistered").touch()
    (root / "no table.lance").mkdir()
    (root / "no table.lance" / "x").touch()
    monkeypatch.setattr(sys.modules["tiltyard.spark.jobs.migrate"], "TOGETHER", 3)
    catalog = tiltyard.connect(root)

    def run(**options: bool) -> Counter[str]:
        rows = migrate(catalog, spark, **options).collect()
        assert len({row.location for row in rows}) == len(rows) == 8
        return Counter(row.action for row in rows)

    assert run(dry_run=True) == {"added": 5, "lifted": 1, "skipped": 2}
    assert run() == {"added": 5, "lifted": 1, "skipped": 2}
    assert run()["added"] == run()["lifted"] == 0

    rows = tiltyard.connect(root, dir_listing_enabled=False)
    assert rows.context.catalog.list_all_tables() == [f"t{number}" for number in range(5)]
