"""A standalone cluster as users run one: a master and two workers, each a process of its own."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyspark
import pytest

from tests.kit.process import free_port
from tests.spark.conftest import Start
from tests.spark.executors import executors
from tests.spark.lake import Lake
from tiltyard.spark import delete_where, merge_into
from tiltyard.spark.scan import FEWEST_ROWS
from tiltyard.spark.session import java_home
from tiltyard.spark.sql import explain, sql
from tiltyard.spark.write import write

LOCAL = "127.0.0.1"
ROWS = FEWEST_ROWS * 3
TRIES = 100


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    home = Path(pyspark.__file__).parent
    address = f"spark://{LOCAL}:{free_port()}"
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOCAL,
    }

    def started(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        role, _, _ = name.partition(" ")
        kind = f"org.apache.spark.deploy.{role.lower()}.{role}"
        common = ["--host", LOCAL, "--webui-port", "0", *arguments]
        with (tmp_path / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(home / "bin" / "spark-class"), kind, *common],
                env=environment,
                stdout=log,
                stderr=log,
            )

    port = address.rpartition(":")[2]
    running = [started("Master", "--port", port)]
    for number in range(2):
        work = ("--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"work{number}"))
        running.append(started(f"Worker {number}", *work, address))
    yield address
    for process in reversed(running):
        process.terminate()
        process.wait()


@pytest.mark.slow
def test_a_standalone_cluster_reads_and_writes(
    master: str, start_spark: Start, tmp_path: Path
) -> None:
    spark = start_spark(master)
    try:
        lake = Lake(tmp_path / "lake", spark)
        assert any(len(executors(spark)) == 2 for _ in range(TRIES))

        rows = spark.range(0, ROWS, 1, 4).selectExpr("id", "id % 3 AS k")
        write(rows, "many", root=lake.root)
        assert np.array_equal(
            np.sort(lake.open("many").to_table()["id"].to_numpy()), np.arange(ROWS)
        )
        assert lake.open("many").version == 1

        assert delete_where(spark, "many", "id < 10", root=lake.root).deleted == 10
        changes = spark.createDataFrame([(10, 7), (ROWS, 7)], "id long, k long")
        changed = merge_into(changes, "many", on=["id"], root=lake.root)
        assert (changed.updated, changed.inserted) == (1, 1)

        grouped = "SELECT k, count(*) AS n FROM many GROUP BY k"
        assert explain(spark, lake.root, grouped)[0].grouped
        expected = Counter(number % 3 for number in range(11, ROWS)) + Counter({7: 2})
        assert {row.k: row.n for row in sql(spark, lake.root, grouped).collect()} == expected
        assert lake.load("many").where("k = 7").count() == 2
    finally:
        start_spark.stop()
