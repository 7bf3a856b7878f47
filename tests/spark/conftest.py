"""One Spark for the whole test run: a local session with two cores, and for the tests that ask for
it a cluster of two executor processes. A process can have one of them at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import Lake
from tiltyard.spark.session import session

ROOT = Path(__file__).resolve().parents[2]

# Tests start many short jobs on little data: a JVM that compiles less starts them sooner.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class Start:
    """Starts Spark on a master, after stopping the one that runs on another."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._master = ""
        self._spark: SparkSession | None = None

    def __call__(self, master: str) -> SparkSession:
        if self._spark is None or master != self._master:
            self.stop()
            self._master = master
            self._spark = session(master, memory="1g", settings=_settings(self._home))
            self._spark.sparkContext.setLogLevel("OFF")
        return self._spark

    def stop(self) -> None:
        if self._spark is not None:
            self._spark.stop()
        self._spark = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests with Spark go to one worker, and first, so that it is not the last to end. Among
    them those on the cluster, which needs a Spark of its own, come last, and only where all tests
    are run."""
    here = Path(__file__).parent

    def uses_spark(item: pytest.Item) -> bool:
        return here in item.path.parents and "start_spark" in _fixtures(item)

    for item in items:
        if uses_spark(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
        if "cluster" in _fixtures(item):
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: (not uses_spark(item), "cluster" in _fixtures(item)))


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture(scope="session")
def start_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    start = Start(tmp_path_factory.mktemp("spark"))
    yield start
    start.stop()


def _settings(home: Path) -> dict[str, str]:
    return {
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.local.dir": str(home / "local"),
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
    }


@pytest.fixture
def spark(start_spark: Start) -> SparkSession:
    """A local session with two cores."""
    return start_spark("local[2]")


@pytest.fixture
def jvm(spark: SparkSession) -> Any:
    """What is in Spark's JVM, by py4j."""
    return spark.sparkContext._jvm


@pytest.fixture
def cluster(start_spark: Start) -> SparkSession:
    """A session on two executor processes with a core each."""
    return start_spark("local-cluster[2,1,1024]")


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Lake:
    return Lake(tmp_path / "lake", spark)


@pytest.fixture
def cluster_lake(tmp_path: Path, cluster: SparkSession) -> Lake:
    return Lake(tmp_path / "lake", cluster)
