"""Spark Connect: the same calls, to a server from the same package."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest

from tests.kit.process import Launch, free_port, running, tail

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("grpc") is None, reason="LEFT OUT: tiltyard[connect] is missing")
def test_a_client_of_spark_connect_reads_the_catalog(tmp_path: Path) -> None:
    port = free_port()
    modules = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    client = [sys.executable, "-m", "tests.spark.connected", f"sc://127.0.0.1:{port}"]

    with running("spark-connect", lambda folder: _server(port, folder, modules)) as log:
        ended = subprocess.run(
            [*client, str(tmp_path / "lake")],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([modules, *_inherited()])},
            capture_output=True,
            text=True,
            check=False,
        )

        assert ended.returncode == 0, ended.stderr + tail(log)


def _server(port: int, folder: Path, modules: str) -> Launch:
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.driver.memory": "1g",
        "spark.local.dir": folder,
        "spark.ui.enabled": "false",
    }
    listed = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    return Launch(
        [
            *(home / "bin/spark-submit", "--master", "local[2]", *listed),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            "spark-internal",
        ],
        lambda: _answers(port),
        {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([modules, *_inherited()]),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )


def _inherited() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
