"""Sessions: their settings, the Java they run on, and how Spark cuts rows into batches."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.lake import Lake
from tiltyard.errors import UnsupportedOperationError
from tiltyard.spark import register, session, table
from tiltyard.spark.session import (
    BATCH_BYTES_SETTING,
    MEASURED,
    ROWS_PER_BATCH,
    UNMEASURED,
    bounded_batches,
    java_home,
    make_java_home,
)


def test_a_session_that_runs_is_the_answer(spark: SparkSession) -> None:
    assert session("local[2]") is spark
    assert register(spark) is spark


def test_the_settings_fit(spark: SparkSession, jvm: Any) -> None:
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.pythonExec == os.environ["PYSPARK_PYTHON"]
    assert spark.sparkContext.getConf().get("spark.executorEnv.MALLOC_ARENA_MAX") == "1"
    assert jvm.java.lang.System.getProperty("arrow.enable_unsafe_memory_access") == "true"


def test_workers_do_not_collect_garbage_among_what_they_imported(lake: Lake) -> None:
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
    monkeypatch.setattr(sys.modules["tiltyard.spark.session"], "find_spec", lambda name: None)
    monkeypatch.setenv("JAVA_HOME", str(_runtime(tmp_path / "old", "11.0.2")))
    with pytest.raises(UnsupportedOperationError, match=r"tiltyard\[spark,java\]"):
        java_home()

    monkeypatch.setenv("JAVA_HOME", str(_runtime(tmp_path / "new", "17.0.15")))

    assert java_home() == tmp_path / "new"


def test_a_trimmed_java_is_not_asked_for_what_it_lacks(tmp_path: Path) -> None:
    runtime = _runtime(tmp_path / "runtime", "21.0.8")

    home = make_java_home(runtime, tmp_path / "cache")
    again = make_java_home(runtime, tmp_path / "cache")

    asked = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=1"]
    answer = subprocess.run([home / "bin/java", *asked], capture_output=True, text=True, check=True)
    assert answer.stdout == "-cp a b -Dx=1\n"
    assert again == home
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [home.name]
    assert (home / "lib").resolve() == runtime / "lib"


# ---------------------------------------------------------------- batches for Python

LARGE_VALUE = 128 * 1024


def _sizes(rows: DataFrame) -> list[tuple[int, int]]:
    """The rows and bytes of each batch."""

    def measure(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    batches = rows.mapInArrow(measure, "rows long, bytes long").collect()
    return [(batch.rows, batch.bytes) for batch in batches]


def test_narrow_rows_are_cut_by_their_number(spark: SparkSession) -> None:
    rows = spark.range(0, 3 * ROWS_PER_BATCH, 1, 1)
    with bounded_batches(rows):
        assert spark.conf.get(BATCH_BYTES_SETTING) == str(UNMEASURED)
        assert [count for count, _ in _sizes(rows)] == [ROWS_PER_BATCH] * 3


def test_rows_with_binaries_are_cut_by_their_bytes(spark: SparkSession) -> None:
    text = f.repeat(f.lit("x"), LARGE_VALUE)
    images = f.encode(text, "utf-8").alias("image")
    rows = spark.range(0, 2 * MEASURED // LARGE_VALUE, 1, 1).select(images)
    with bounded_batches(rows):
        measured = _sizes(rows)
    assert len(measured) > 1
    assert max(size for _, size in measured) < MEASURED + 2 * LARGE_VALUE
    assert len(_sizes(rows)) == 1, "afterwards bytes are not measured"


@pytest.mark.parametrize(
    "kind",
    ["binary", "array<binary>", "struct<a: int, b: array<binary>>", "map<string, binary>"],
)
def test_binaries_are_found_wherever_they_are(spark: SparkSession, kind: str) -> None:
    with bounded_batches(spark.createDataFrame([], f"id long, held {kind}")):
        assert spark.conf.get(BATCH_BYTES_SETTING) == str(MEASURED)
    assert spark.conf.get(BATCH_BYTES_SETTING) == str(UNMEASURED)


def test_a_failure_leaves_the_setting_as_it_was(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], "image binary")
    with pytest.raises(ZeroDivisionError), bounded_batches(rows):
        _ = 1 / 0
    assert spark.conf.get(BATCH_BYTES_SETTING) == str(UNMEASURED)


def test_what_a_user_has_set_stays(spark: SparkSession) -> None:
    spark.conf.set(BATCH_BYTES_SETTING, 1024)
    try:
        with bounded_batches(spark.createDataFrame([], "image binary")):
            assert spark.conf.get(BATCH_BYTES_SETTING) == "1024"
        assert spark.conf.get(BATCH_BYTES_SETTING) == "1024"
    finally:
        spark.conf.set(BATCH_BYTES_SETTING, UNMEASURED)
