"""What a client of Spark Connect does with a catalog; run as a program, because a process that has
a Spark of its own can't be one."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from tests.spark.lake import Lake
from tests.spark.samples import samples
from tiltyard.spark import attach, session, table
from tiltyard.spark.jobs import optimize
from tiltyard.spark.table import FEW_ROWS, frame


def main(server: str, root: str) -> None:
    spark = session(server)
    lake = Lake(Path(root), spark)
    lake.put("prod.people", {"id": [1, 2, 3]}, files=2)
    lake.put("many", {"id": np.arange(FEW_ROWS * 5)})
    lake.put("types", samples().drop_columns(["time32", "time64"]))

    assert lake.load("prod.people", filter="id > 1").count() == 2
    few = table(spark, "prod.people", root=lake.root, where="id < 3", limit=1)
    assert [row.id for row in few.collect()] == [1]
    assert table(spark, "many", root=lake.root, where="id >= 10").count() == FEW_ROWS * 5 - 10
    attach(spark, lake.root)
    assert spark.sql("SELECT * FROM prod_people").count() == 3
    tables = spark.sql(f"SELECT id FROM tiltyard_tables('{lake.root}')").collect()
    assert [row.id for row in tables] == ["many", "prod.people", "types"]
    planned = lake.plan("types")
    for rows in (lake.load("types"), frame(spark, planned), frame(spark, planned, few=False)):
        read = [row.asDict(recursive=True) for row in rows.collect()]
        expected = samples(in_spark=True)
        for name in rows.columns:
            assert [row[name] for row in read] == expected[name], name
    lake.put("scattered", {"id": np.arange(20)}, files=4)
    told: list[tuple[int, int]] = []
    done = optimize(lake.root, spark, progress=lambda *each: told.append(each)).collect()
    assert {row.table: row.rewritten_fragments_count for row in done}["scattered"] == 4
    assert (told[0], told[-1]) == ((0, len(done)), (len(done), len(done)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
