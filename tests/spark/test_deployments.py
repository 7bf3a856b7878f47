"""Spark as users deploy it: a standalone cluster of a master and two workers, and a Spark Connect
server from the same package. Each of them is a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyspark
import pytest

from tests.kit.process import Launch, free_port, running, tail
from tests.spark.conftest import Start
from tests.spark.executors import executors
from tests.spark.lake import Lake
from tiltyard.spark import delete_where, explain, merge_into, sql, write
from tiltyard.spark.scan import FEWEST_ROWS
from tiltyard.spark.session import java_home

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
LOCAL = "127.0.0.1"
ROWS = FEWEST_ROWS * 3
TRIES = 100


def environment() -> dict[str, str]:
    inherited = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT), *inherited]),
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": LOCAL,
    }


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((LOCAL, port), 1):
        return True
    return False


# -- a standalone cluster


@pytest.fixture
def master() -> Iterator[str]:
    """The address of a master with two workers of one core each."""
    port = free_port()
    address = f"spark://{LOCAL}:{port}"

    def launch(role: str, *arguments: str) -> Launch:
        program = [HOME / "bin/spark-class", f"org.apache.spark.deploy.{role.lower()}.{role}"]
        common = ["--host", LOCAL, "--webui-port", "0", *arguments]
        return Launch([*program, *common], lambda: listens(port), environment())

    def worker(folder: Path) -> Launch:
        size = ("--cores", "1", "--memory", "1g")
        return launch("Worker", *size, "--work-dir", str(folder / "work"), address)

    with ExitStack() as stack:
        stack.enter_context(
            running("spark-master", lambda folder: launch("Master", "--port", str(port)))
        )
        for number in range(2):
            stack.enter_context(running(f"spark-worker-{number}", worker))
        yield address


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


# -- Spark Connect


@pytest.mark.slow
@pytest.mark.skipif(find_spec("grpc") is None, reason="LEFT OUT: tiltyard[connect] is missing")
def test_a_client_of_spark_connect_reads_the_catalog(tmp_path: Path) -> None:
    port = free_port()
    client = [sys.executable, "-m", "tests.spark.connected", f"sc://{LOCAL}:{port}"]

    with running("spark-connect", lambda folder: _connect_server(port, folder)) as log:
        ended = subprocess.run(
            [*client, str(tmp_path / "lake")],
            cwd=ROOT,
            env={**os.environ, **environment()},
            capture_output=True,
            text=True,
            check=False,
        )

        assert ended.returncode == 0, ended.stderr + tail(log)


def _connect_server(port: int, folder: Path) -> Launch:
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.driver.memory": "1g",
        "spark.local.dir": folder,
        "spark.ui.enabled": "false",
    }
    listed = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    return Launch(
        [
            *(HOME / "bin/spark-submit", "--master", "local[2]", *listed),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            "spark-internal",
        ],
        lambda: listens(port),
        environment(),
    )
