"""The session helper: settings that fit, a Java that is there, and Spark's own way to find us."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import tiltyard.spark.java as java
from tests.spark.lake import Lake
from tiltyard.errors import UnsupportedOperationError
from tiltyard.spark import register, session, table


def test_a_session_that_runs_is_the_answer(spark: SparkSession) -> None:
    assert session("local[2]") is spark
    assert register(spark) is spark


def test_the_settings_fit(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.pythonExec == os.environ["PYSPARK_PYTHON"]
    assert spark.sparkContext.getConf().get("spark.executorEnv.MALLOC_ARENA_MAX") == "1"
    java = spark.sparkContext._jvm
    assert java is not None
    assert java.java.lang.System.getProperty("arrow.enable_unsafe_memory_access") == "true"


def test_workers_look_at_what_they_imported_only_once(lake: Lake) -> None:
    lake.put("people", {"id": range(100_000)})
    assert len(table(lake.spark, "people", root=lake.root).collect()) == 100_000

    def frozen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"objects": [gc.get_freeze_count()]})

    counts = lake.spark.range(2).mapInArrow(frozen, "objects long").collect()
    assert max(row.objects for row in counts) > 100_000


def test_spark_finds_the_source_without_being_told(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    fresh = lake.spark.newSession()

    rows = fresh.read.format("tiltyard").option("root", lake.root).load("people")

    assert rows.count() == 2


def test_tiltyard_alone_needs_no_spark() -> None:
    program = "import sys, tiltyard; tiltyard.connect; assert 'pyspark' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], check=True)


# ---------------------------------------------------------------- Java


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


def _runtime(home: Path, version: str) -> Path:
    """A runtime that tells its version, and what else it was asked for."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\necho \'openjdk version "{version}"\' >&2\necho "$@"\n')
    program.chmod(0o755)
    for name in ("conf", "lib"):
        (home / name).mkdir()
    (home / "release").touch()
    return home


@pytest.mark.usefixtures("no_java")
def test_the_machines_java_is_taken_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(_runtime(tmp_path / "old", "11.0.2")))
    with pytest.raises(UnsupportedOperationError, match=r"tiltyard\[spark,java\]"):
        java.java_home()

    monkeypatch.setenv("JAVA_HOME", str(_runtime(tmp_path / "new", "17.0.15")))

    assert java.java_home() == tmp_path / "new"


def test_a_trimmed_java_is_not_asked_for_what_it_lacks(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path / "runtime", "21.0.8")

    home = java.laid_out(runtime, tmp_path / "cache")
    again = java.laid_out(runtime, tmp_path / "cache")

    asked = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=1"]
    answer = subprocess.run([home / "bin/java", *asked], capture_output=True, text=True, check=True)
    assert answer.stdout == "-cp a b -Dx=1\n"
    assert again == home
    assert [each.name for each in (tmp_path / "cache").iterdir()] == [home.name]
    assert (home / "lib").resolve() == runtime / "lib"
