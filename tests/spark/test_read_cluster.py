"""Reading on several executor processes: none of them shares memory with the driver."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import Lake
from tests.spark.samples import samples
from tiltyard.spark import attach, table
from tiltyard.spark.scan import FEWEST_ROWS
from tiltyard.spark.table import frame

ROWS = FEWEST_ROWS * 3


def executors_of(spark: SparkSession) -> set[int]:
    """The processes that run the Python workers' parents: the executors."""

    def parents(batches: object) -> object:
        yield pa.record_batch({"pid": [_executor_of(os.getpid())]})

    found = spark.range(0, 8, 1, 8).mapInArrow(parents, "pid long")
    return {row.pid for row in found.collect()}


def _executor_of(worker: int) -> int:
    """A Python worker is a child of a daemon, which is a child of the executor."""
    for _ in range(2):
        status = Path(f"/proc/{worker}/stat").read_text()
        worker = int(status.rpartition(")")[2].split()[1])
    return worker


def test_two_executors_read_one_version(cluster_lake: Lake) -> None:
    lake = cluster_lake
    lake.put("many", {"id": np.arange(ROWS)})
    by_source = lake.load("many", num_partitions=4)
    by_table = table(lake.spark, "many", root=lake.root)
    lake.append("many", {"id": [-1]})

    assert len(executors_of(lake.spark)) == 2
    for rows in (by_source, by_table):
        assert rows.selectExpr("count(*)", "count(DISTINCT id)", "min(id)").first() == (
            ROWS,
            ROWS,
            0,
        )


def test_every_type_arrives_fromexecutors_of(cluster_lake: Lake) -> None:
    lake = cluster_lake
    lake.put("types", samples())

    for read in (lake.load("types"), frame(lake.spark, lake.plan("types"), few=False)):
        rows = [row.asDict(recursive=True) for row in read.collect()]
        assert {name: [row[name] for row in rows] for name in read.columns} == samples(
            in_spark=True
        )


@pytest.mark.slow
def test_views_and_table_functions_work_onexecutors_of(cluster_lake: Lake) -> None:
    lake = cluster_lake
    lake.put("prod.people", {"id": [1, 2, 3]})
    attach(lake.spark, lake.root)

    assert lake.spark.table("prod_people").count() == 3
    found = lake.spark.sql(f"SELECT id FROM tiltyard_tables('{lake.root}')").collect()
    assert [row.id for row in found] == ["prod.people"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["source", "table"])
def test_an_executor_killed_while_it_reads_costs_no_row(cluster_lake: Lake, way: str) -> None:
    lake = cluster_lake
    lake.put("many", {"id": np.arange(ROWS), "text": ["x" * 50] * ROWS}, files=8)
    begun = Path(lake.root).parent / "begun"
    (victim, *_) = executors_of(lake.spark)
    if way == "source":
        rows = lake.load("many", fragments_per_partition=1, batch_size=500)
    else:
        rows = table(lake.spark, "many", root=lake.root, num_partitions=8, batch_size=500)

    def slowly(batches: object) -> object:
        import time

        for batch in batches:  # type: ignore[attr-defined]
            if _executor_of(os.getpid()) == victim:
                begun.touch()
                time.sleep(0.05)
            yield batch.select(["id"])

    killer = threading.Thread(target=_kill_once_begun, args=(victim, begun))
    killer.start()
    read = rows.mapInArrow(slowly, "id long")
    result = read.selectExpr("count(*)", "count(DISTINCT id)", "sum(id)").first()
    killer.join()

    assert result == (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
    assert not _is_alive(victim)


def _kill_once_begun(victim: int, begun: Path) -> None:
    waiting = threading.Event()
    while not begun.exists():
        waiting.wait(0.01)
    os.kill(victim, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
