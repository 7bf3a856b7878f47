"""Reading on several executor processes: none of them shares memory with the driver."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.executors import executor_of, executors, is_alive, kill_once_there
from tests.spark.lake import Lake, by_column
from tests.spark.samples import samples
from tiltyard.spark import attach, table
from tiltyard.spark.scan import FEWEST_ROWS
from tiltyard.spark.table import frame

ROWS = FEWEST_ROWS * 3


def test_two_executors_read_one_version(cluster_lake: Lake) -> None:
    lake = cluster_lake
    lake.put("many", {"id": np.arange(ROWS)})
    by_source = lake.load("many", num_partitions=4)
    by_table = table(lake.spark, "many", root=lake.root)
    lake.append("many", {"id": [-1]})

    assert len(executors(lake.spark)) == 2
    for rows in (by_source, by_table):
        assert rows.selectExpr("count(*)", "count(DISTINCT id)", "min(id)").first() == (
            ROWS,
            ROWS,
            0,
        )


def test_every_type_arrives_from_executors(cluster_lake: Lake) -> None:
    lake = cluster_lake
    lake.put("types", samples())

    for rows in (lake.load("types"), frame(lake.spark, lake.plan("types"), few=False)):
        assert by_column(rows) == samples(in_spark=True)


@pytest.mark.slow
def test_views_and_table_functions_work_on_executors(cluster_lake: Lake) -> None:
    lake = cluster_lake
    lake.put("prod.people", {"id": [1, 2, 3]})
    attach(lake.spark, lake.root)

    assert lake.spark.table("prod_people").count() == 3
    tables = lake.spark.sql(f"SELECT id FROM tiltyard_tables('{lake.root}')").collect()
    assert [row.id for row in tables] == ["prod.people"]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["source", "table"])
def test_an_executor_killed_while_it_reads_costs_no_row(cluster_lake: Lake, way: str) -> None:
    lake = cluster_lake
    lake.put("many", {"id": np.arange(ROWS), "text": ["x" * 50] * ROWS}, files=8)
    reading = Path(lake.root).parent / "reading"
    (victim, *_) = executors(lake.spark)
    if way == "source":
        rows = lake.load("many", fragments_per_partition=1, batch_size=500)
    else:
        rows = table(lake.spark, "many", root=lake.root, num_partitions=8, batch_size=500)

    def held(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.select(["id"])
            if executor_of(os.getpid()) == victim:
                reading.touch()
                threading.Event().wait()  # until it is killed

    killer = threading.Thread(target=kill_once_there, args=(victim, reading))
    killer.start()
    read = rows.mapInArrow(held, "id long")
    result = read.selectExpr("count(*)", "count(DISTINCT id)", "sum(id)").first()
    killer.join()

    assert result == (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
    assert not is_alive(victim)
