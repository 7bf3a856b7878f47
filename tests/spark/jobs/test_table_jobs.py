"""Jobs over a catalog of many shapes, ten tables of it broken in ten ways: a row for each table,
the rows of the tables as they were, and nothing left to do for a second run. On the cluster, an
executor dies in the middle."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from tests.behaviours.calls import drop
from tests.spark.executors import Killer, is_alive
from tests.spark.jobs.mixed_catalog import MixedCatalog, make_mixed_catalog
from tests.spark.lake import Lake
from tiltyard.catalog import names
from tiltyard.errors import InvalidInputError
from tiltyard.job_options import IndexJob
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind
from tiltyard.spark.jobs import build_index, cleanup, maintain, optimize, purge
from tiltyard.spark.jobs.indexes import request, run_all

FEW, MANY = 16, 300
KEEP_THREE: dict[str, Any] = {"keep_versions": 3, "min_age": 0, "allow_young": True}
Progress = Callable[[int, int], None]
# Progress moves with the tasks that are done, and the executor is killed when it moves.
TASKS = 16


@pytest.fixture
def few(tmp_path: Path) -> MixedCatalog:
    return make_mixed_catalog(tmp_path / "lake", FEW)


# -- optimize


def _optimize(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    first = {
        row.table: row
        for row in optimize(made.catalog, spark, progress=progress, max_tasks=TASKS).collect()
    }
    again = optimize(made.catalog, spark).collect()

    assert first.keys() == made.all_names
    assert {name for name in made.healthy if first[name].error} == set()
    assert sum(first[name].error is not None for name in made.broken) >= len(made.broken) - 2
    assert [row.table for row in again if row.committed] == []
    assert all(len(_files(made, name)) <= 1 for name in made.healthy)
    made.must_have_all_rows()


def _files(made: MixedCatalog, name: str) -> list[object]:
    return list(made.catalog.open_table(names.parse_dotted(name)).get_fragments())


def test_the_unfinished_commit_of_a_dead_executor_keeps_no_table_from_being_optimized(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["tiltyard.spark.jobs.optimize"], "COMMIT_TIME", 0.1)
    for name in ("left", "batch", "other"):
        lake.put(name, {"id": list(range(20))}, files=4)
    sidecars = lake.catalog.services.recovery.sidecars
    for name, kind in (("left", OperationKind.COMPACTION), ("batch", OperationKind.BATCH)):
        version = lake.open(name).version
        covered = CoveredTable((name,), f"{name}.lance", version, version, "of-a-dead-executor")
        sidecars.publishing(sidecars.arm(kind, [covered]))

    rows = {row.table: row for row in optimize(lake.catalog, spark).collect()}

    done = {name: row.committed for name, row in rows.items()}
    assert done == {"left": True, "batch": False, "other": True}
    assert "has not ended" in rows["batch"].error
    assert [sidecar.kind for sidecar in sidecars.every()] == [OperationKind.BATCH]


# -- cleanup


def _cleanup(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    made.catalog.maintenance.optimize_all_tables()
    planned = {row.table: row for row in _cleaned(spark, made, dry_run=True)}
    first = {row.table: row for row in _cleaned(spark, made, progress=progress)}
    again = _cleaned(spark, made)

    assert first.keys() == planned.keys() == made.all_names
    assert {name for name in made.healthy if first[name].error} == set()
    if progress is None:  # a dead executor had counted some of its tables
        for name in made.healthy:
            assert first[name].deleted_versions_count == planned[name].deleted_versions_count
    assert any(first[name].deleted_files_count for name in made.healthy)
    assert [row.table for row in again if row.deleted_versions_count] == []
    for name in made.healthy:
        assert len(made.catalog.open_table(names.parse_dotted(name)).versions()) <= 4, name
    made.must_have_all_rows()


def _cleaned(
    spark: SparkSession,
    made: MixedCatalog,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> list[Row]:
    return cleanup(
        made.catalog, spark, **KEEP_THREE, dry_run=dry_run, max_tasks=TASKS, progress=progress
    ).collect()


# -- purge


def _purge(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    going = [name for at, name in enumerate([*made.healthy, *made.broken]) if at % 2]
    kept = {name: ids for name, ids in made.healthy.items() if name not in going}
    places = {name: made.root / _location(made, name) for name in going}
    for name in going:
        drop(made.catalog, *names.parse_dotted(name), ttl=0)
    held = made.catalog.hold_table(names.parse_dotted(going[0]))
    sizes = {row.id: row.bytes for row in made.catalog.list_trash(with_bytes=True)}

    planned = purge(made.catalog, spark, dry_run=True).collect()
    rows = purge(made.catalog, spark, max_tasks=TASKS, progress=progress).collect()

    assert {row.table for row in planned} == {row.table for row in rows} == set(going[1:])
    assert {row.outcome for row in planned} == {"planned"}
    assert {row.outcome for row in rows} == {"purged"}
    for row in rows:
        assert row.deleted_bytes_count == sizes[tuple(names.parse_dotted(row.table))], row.table
    assert {name for name, place in places.items() if _files_below(place)} == {going[0]}
    assert [row.id for row in made.catalog.list_trash()] == [held.id]
    assert purge(made.catalog, spark).collect() == []
    (file,) = (made.root / "__audit").glob("purge-*.jsonl")
    receipts = [json.loads(line) for line in file.read_text().splitlines()]
    assert {receipt["table"] for receipt in receipts} == set(going[1:])
    made.healthy = kept
    made.must_have_all_rows()


def _location(made: MixedCatalog, name: str) -> str:
    return made.catalog.context.catalog.find(tuple(names.parse_dotted(name))).location


def _files_below(place: Path) -> list[Path]:
    """What counts as there: a V1 location keeps the note by which old clients know of the drop."""
    return [path for path in place.rglob("*") if path.is_file()]


# -- maintain


def _maintain(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    indexed = next(name for name in made.healthy if name.startswith("scattered"))
    policy = {
        "defaults": {"cleanup": KEEP_THREE},
        "tables": {indexed: {"indexes": [{"column": "id", "type": "BTREE"}]}},
        "orphans": {"older_than": "7d"},
        "limits": {"max_tasks": TASKS},
    }
    dropped = next(name for name in made.healthy if name.startswith("prod.one"))
    drop(made.catalog, *names.parse_dotted(dropped), ttl=0)
    del made.healthy[dropped]

    first = {row.step: row for row in _run_maintain(spark, made, policy, progress)}
    again = {row.step: row for row in _run_maintain(spark, made, policy)}

    assert list(first) == ["recover", "optimize", "index", "cleanup", "purge", "orphans"]
    assert {step for step, row in first.items() if row.changed} >= {"optimize", "index", "purge"}
    assert {step: row.changed for step, row in again.items()} == dict.fromkeys(first, 0)
    assert all(error.partition(":")[0] in made.broken for error in first["optimize"].errors)
    assert first["optimize"].failed == again["optimize"].failed
    made.must_have_all_rows()


def _run_maintain(
    spark: SparkSession,
    made: MixedCatalog,
    policy: dict[str, Any],
    progress: Progress | None = None,
) -> list[Row]:
    def report(step: str, done: int, total: int) -> None:
        if progress is not None:
            progress(done, total)

    return maintain(made.catalog, spark, policy=policy, progress=report).collect()


# -- indexes


def test_an_index_is_built_in_segments_and_committed_once(
    spark: SparkSession, few: MixedCatalog
) -> None:
    name = next(name for name in few.healthy if name.startswith("scattered"))
    before = few.catalog.open_table([name]).version

    (row,) = build_index(few.catalog, spark, table=name, column="id", index_type="btree").collect()
    (again,) = build_index(
        few.catalog, spark, table=name, column="id", index_type="btree"
    ).collect()

    dataset = few.catalog.open_table([name])
    assert (row.index_name, row.segments, row.error) == ("id_idx", 2, None)
    assert row.rows_indexed == sum(few.healthy[name].values())
    assert dataset.version == row.version == before + 1
    assert "ScalarIndexQuery" in dataset.scanner(filter="id = 7").explain_plan()
    assert dataset.to_table(filter="id = 7").num_rows == 1
    assert (again.committed, again.skipped) == (False, "it is there already")


def _index(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    tables = sorted(made.all_names)

    def run(progress: Progress | None = None) -> dict[str, Row]:
        rows = build_index(
            made.catalog,
            spark,
            tables=tables,
            column="id",
            index_type="BTREE",
            name="by_id",
            max_tasks=TASKS,
            progress=progress,
        ).collect()
        assert [row.table for row in rows] == tables
        return {row.table: row for row in rows}

    first, again = run(progress), run()

    assert {name for name in made.healthy if first[name].error or again[name].error} == set()
    assert sum(first[name].error is not None for name in made.broken) >= len(made.broken) - 3
    assert [name for name, row in again.items() if row.committed] == []
    for name, ids in made.healthy.items():
        dataset = made.catalog.open_table(names.parse_dotted(name))
        known = [index.name for index in dataset.describe_indices()]
        assert known == (["by_id"] if ids else []), name
        indexed = "ScalarIndexQuery" in dataset.scanner(filter="id = 7").explain_plan()
        assert indexed == bool(ids), name
    made.must_have_all_rows()


def test_one_of_many_tables_that_is_big_is_built_in_segments(
    spark: SparkSession, lake: Lake
) -> None:
    lake.put("big", {"id": list(range(20))}, files=4)
    lake.put("small", {"id": [1]})
    rows = run_all(
        spark,
        lake.catalog,
        [request([name], IndexJob(column="id")) for name in ("big", "small", "none")],
        split_above=10,
    )
    assert [(row.table, row.committed, row.rows_indexed) for row in rows] == [
        ("big", True, 20),
        ("small", True, 1),
        ("none", False, 0),
    ]
    assert len(lake.open("big").describe_indices()[0].segments) == 2
    assert rows[-1].error == "table 'none' was not found"


def test_an_index_needs_a_table_or_several(spark: SparkSession, lake: Lake) -> None:
    for given in ({}, {"table": "a", "tables": ["b"]}):
        with pytest.raises(InvalidInputError, match="name the table, or several"):
            build_index(lake.catalog, spark, column="id", index_type="BTREE", **given)


# -- all of them

JOBS = [_optimize, _cleanup, _purge, _maintain, _index]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_does_every_table_that_can_be_done_and_leaves_nothing_for_a_second_run(
    spark: SparkSession, few: MixedCatalog, job: Callable[[SparkSession, MixedCatalog], None]
) -> None:
    job(spark, few)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_survives_the_death_of_an_executor(
    cluster: SparkSession,
    tmp_path: Path,
    job: Callable[[SparkSession, MixedCatalog, Progress], None],
) -> None:
    many = make_mixed_catalog(tmp_path / "lake", MANY)
    killer = Killer(cluster)
    job(cluster, many, killer)
    assert killer.killed_at
    assert not is_alive(killer.victim)
