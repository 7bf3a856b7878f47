"""What a client of Spark Connect does with a catalog; run as a program, because a process that has
a Spark of its own can't be one."""

from __future__ import annotations

import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.behaviours.calls import drop
from tests.spark.lake import Lake, by_column
from tests.spark.samples import samples
from tiltyard.spark import attach, jobs, session, table
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
        expected = samples(in_spark=True)
        for name, values in by_column(rows).items():
            assert values == expected[name], name
    lake.put("scattered", {"id": np.arange(20)}, files=4)
    told: list[tuple[int, int]] = []
    done = optimize(lake.root, spark, progress=lambda *counts: told.append(counts)).collect()
    assert {row.table: row.rewritten_fragments_count for row in done}["scattered"] == 4
    assert (told[0], told[-1]) == ((0, len(done)), (len(done), len(done)))
    _every_job(lake)
    spark.stop()


def _every_job(lake: Lake) -> None:
    """None of them asks for a JVM beside the client."""
    catalog, spark, home = lake.catalog, lake.spark, Path(lake.root)
    lake.put("going", {"id": [1]})
    drop(catalog, "going", ttl=0)
    (home / "scattered.lance/data/stray.lance").write_bytes(b"bytes")
    pq.write_table(pa.table({"id": [100]}), home.parent / "more.parquet")
    lance.write_dataset(pa.table({"id": [1]}), home / "old.lance")

    assert jobs.migrate(catalog, spark).where("action = 'added'").first().table == "old"
    loaded = jobs.ingest(catalog, {"scattered": str(home.parent / "more.parquet")}, spark).first()
    assert (loaded.action, loaded.rows) == ("loaded", 1)
    built = jobs.build_index(catalog, spark, table="scattered", column="id", index_type="BTREE")
    assert built.first().rows_indexed == 21
    named = jobs.build_index(catalog, spark, tables=["many"], column="id", index_type="BTREE")
    assert named.first().committed
    counted = {row.table: row.rows for row in jobs.inventory(catalog, spark).collect()}
    assert (counted["scattered"], counted["old"]) == (21, 1)
    written = jobs.export(catalog, str(home.parent / "out"), spark, tables=["scattered"]).first()
    assert (written.action, written.rows) == ("exported", 21)
    listed = jobs.orphans(catalog, spark, older_than=0, even_if_young=True).collect()
    assert ("scattered.lance/data/stray.lance", "removed") in [
        (row.path, row.action) for row in listed
    ]
    cleaned = jobs.cleanup(catalog, spark, keep_versions=3, min_age=0, allow_young=True).collect()
    assert {row.error for row in cleaned} == {None}
    assert jobs.purge(catalog, spark).first().outcome == "purged"
    assert jobs.maintain(catalog, spark).where("failed > 0").count() == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
