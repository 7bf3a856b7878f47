"""Writing by Spark itself, on one machine and on a cluster of several processes."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.executors import executor_of, executors, kill_once_there
from tests.spark.lake import Lake
from tests.spark.samples import samples
from tiltyard.spark import delete_where, merge_into, update_where, write


def save(df: DataFrame, lake: Lake, mode: str = "append", table: str = "t", **options: Any) -> None:
    df.write.format("tiltyard").mode(mode).option("root", lake.root).options(**options).save(table)


def numbers(lake: Lake, table: str = "t") -> Counter[int]:
    return Counter(lake.open(table).to_table(columns=["id"])["id"].to_pylist())


def test_every_mode(lake: Lake) -> None:
    few = lake.spark.range(3)
    save(few, lake)
    save(lake.spark.range(3, 5), lake)
    assert numbers(lake) == Counter(range(5))
    assert lake.open("t").version == 2

    save(few, lake, "overwrite")
    assert numbers(lake) == Counter(range(3))

    write(lake.spark.range(9), "t", mode="ignore", root=lake.root)
    with pytest.raises(PySparkException, match="already exists"):
        write(lake.spark.range(9), "t", root=lake.root)
    assert numbers(lake) == Counter(range(3))
    write(lake.spark.range(4), "other", root=lake.root)
    assert numbers(lake, "other") == Counter(range(4))


def test_sparks_own_words_for_the_other_modes_do_not_reach_us(lake: Lake) -> None:
    """Why `if_exists` is an option: if this fails, Spark hands these modes over."""
    for mode in ("ignore", "errorifexists"):
        with pytest.raises(PySparkException, match="UNSUPPORTED_DATA_SOURCE_SAVE_MODE"):
            save(lake.spark.range(3), lake, mode)


def test_whatever_spark_can_hold_comes_back_as_it_was(lake: Lake) -> None:
    stored = samples()
    lake.put("t", stored)
    everything = lake.load("t")

    save(everything, lake, table="copy")
    save(everything, lake, "overwrite")
    save(everything, lake)

    assert lake.load("copy").toArrow() == everything.toArrow()
    assert lake.open("copy").schema.types == lake.open("t").schema.types
    assert lake.open("t").count_rows() == 2 * stored.num_rows


def test_a_view_can_be_inserted_into(lake: Lake) -> None:
    lake.put("t", {"id": [1]})
    lake.load("t").createOrReplaceTempView("t_to_write")

    lake.spark.sql("INSERT INTO t_to_write SELECT id + 1 FROM t_to_write")

    assert numbers(lake) == Counter([1, 2])


def test_a_job_that_fails_leaves_nothing(lake: Lake) -> None:
    save(lake.spark.range(3), lake)
    before = lake.data_files()
    bad = lake.spark.range(0, 100, 1, 4).select(
        f.when(f.col("id") == 99, f.raise_error("boom").cast("long"))
        .otherwise(f.col("id"))
        .alias("id")
    )

    with pytest.raises(PySparkException, match="boom"):
        save(bad, lake)

    assert numbers(lake) == Counter(range(3))
    assert lake.data_files() == before


@pytest.mark.slow
def test_files_are_as_small_as_asked_for(lake: Lake) -> None:
    save(lake.spark.range(0, 100, 1, 1), lake, max_rows_per_file=30)

    assert [fragment.count_rows() for fragment in lake.open("t").get_fragments()] == [
        30,
        30,
        30,
        10,
    ]


@pytest.mark.slow
def test_two_jobs_append_while_others_overwrite(lake: Lake) -> None:
    """Every job that was told "done" has its rows in the table, unless an overwrite that was done
    later took them out; every one that was refused has none."""
    save(lake.spark.range(-1, 0), lake)
    done: set[int] = set()
    lock = threading.Lock()

    def job(number: int, mode: str) -> None:
        rows = lake.spark.range(0, 40, 1, 2).select((f.col("id") + number * 1000).alias("id"))
        try:
            write(rows, "t", mode=mode, root=lake.root)
        except PySparkException as refused:
            assert "ConcurrentModificationError" in str(refused)  # noqa: PT017
            return
        with lock:
            done.add(number)

    with ThreadPoolExecutor(3) as pool:
        work = [(number, "overwrite" if number % 3 == 0 else "append") for number in range(1, 13)]
        list(pool.map(lambda terms: job(*terms), work))

    latest = lake.open("t")
    held: set[int] = set()
    seen: set[int] = set()
    for version in sorted(entry["version"] for entry in latest.versions()):
        counts = Counter(
            number // 1000
            for number in latest.checkout_version(version).to_table()["id"].to_pylist()
            if number >= 0
        )
        assert set(counts.values()) <= {40}, "all rows of a job or none"
        new = set(counts) - held
        gone = held - set(counts)
        assert len(new) <= 1
        assert not gone or (new and set(counts) == new), "only an overwrite takes rows out, and all"
        held, seen = set(counts), seen | new
    assert seen == done
    assert done
    assert lake.data_files() == lake.owned_files()


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_an_executor_that_is_killed_in_the_middle_changes_nothing(
    cluster_lake: Lake, tmp_path: Path, times: int
) -> None:
    lake, spark = cluster_lake, cluster_lake.spark
    rows = 400_000
    padding = "x" * 200  # a task that waits has sent more than fits into the buffers before it
    save(spark.range(-5, 0).withColumn("padding", f.lit(padding)), lake)
    before = lake.data_files()
    victims = sorted(executors(spark))[:times]

    def hold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On the executors to be killed: wait in the middle of the first task."""
        for number, batch in enumerate(batches):
            yield batch
            if number == 2 and executor_of(os.getpid()) in victims:
                (tmp_path / f"held-{executor_of(os.getpid())}").touch()
                threading.Event().wait()

    def kill() -> None:
        for victim in victims:
            kill_once_there(victim, tmp_path / f"held-{victim}", tmp_path / "written")

    def look_for_files() -> None:
        waiting = threading.Event()
        while lake.data_files() == before:
            waiting.wait(0.01)
        (tmp_path / "written").touch()

    source = spark.range(0, rows, 1, 8).withColumn("padding", f.lit(padding))
    held = source.mapInArrow(hold, "id long, padding string")
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(kill), pool.submit(look_for_files)]
        save(held, lake, max_rows_per_file=1000, batch_size=1000)
        for thread in running:
            thread.result(timeout=60)

    assert numbers(lake) == Counter(range(-5, rows))
    assert lake.open("t").version == 2, "one commit"
    fragments = lake.open("t").get_fragments()
    named = [file.path for fragment in fragments for file in fragment.data_files()]
    assert len(named) == len(set(named))
    stray = {name for name in lake.data_files() - lake.owned_files() if not name.startswith(".tmp")}
    assert not stray, "what the killed task had written is swept by name"


@pytest.mark.slow
def test_the_cluster_writes_and_merges_as_one_process_does(cluster_lake: Lake) -> None:
    lake, spark = cluster_lake, cluster_lake.spark
    save(spark.range(0, 50_000, 1, 4).withColumn("v", f.lit("old")), lake, max_rows_per_file=5_000)
    source = spark.range(40_000, 60_000, 1, 4).withColumn("v", f.lit("new"))

    merged = merge_into(source, "t", on="id", root=lake.root)
    deleted = delete_where(spark, "t", "id < 1000", root=lake.root)
    updated = update_where(spark, "t", {"v": "'mid'"}, "id % 1000 = 0", root=lake.root)

    assert (merged.updated, merged.inserted) == (10_000, 10_000)
    assert (deleted.deleted, updated.updated) == (1000, 59)
    expected = {
        number: "mid" if number % 1000 == 0 else "old" if number < 40_000 else "new"
        for number in range(1000, 60_000)
    }
    stored = lake.open("t").to_table()
    assert stored.num_rows == len(expected)
    assert dict(zip(stored["id"].to_pylist(), stored["v"].to_pylist(), strict=True)) == expected
    assert lake.data_files() == lake.owned_files()
