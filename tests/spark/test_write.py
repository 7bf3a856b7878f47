"""Writing by Spark itself, on one machine and on a cluster of several processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.lake import Lake
from tests.spark.samples import samples
from tiltyard.spark.write import write


def save(df: DataFrame, lake: Lake, mode: str = "append", table: str = "t", **options: Any) -> None:
    df.write.format("tiltyard").mode(mode).option("root", lake.root).options(**options).save(table)


def numbers(lake: Lake, table: str = "t") -> Counter[int]:
    return Counter(lake.open(table).to_table(columns=["id"])["id"].to_pylist())


def data_files(lake: Lake, table: str = "t") -> set[str]:
    return {each.name for each in Path(lake.root).glob(f"{table}.lance/data/*")}


def owned(lake: Lake, table: str = "t") -> set[str]:
    latest = lake.open(table)
    return {
        file.path
        for version in latest.versions()
        for each in latest.checkout_version(version["version"]).get_fragments()
        for file in each.data_files()
    }


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
    assert [each.type for each in lake.open("copy").schema] == [
        each.type for each in lake.open("t").schema
    ]
    assert lake.open("t").count_rows() == 2 * stored.num_rows


def test_a_view_can_be_inserted_into(lake: Lake) -> None:
    lake.put("t", {"id": [1]})
    lake.load("t").createOrReplaceTempView("t_to_write")

    lake.spark.sql("INSERT INTO t_to_write SELECT id + 1 FROM t_to_write")

    assert numbers(lake) == Counter([1, 2])


def test_a_job_that_fails_leaves_nothing(lake: Lake) -> None:
    save(lake.spark.range(3), lake)
    before = data_files(lake)
    bad = lake.spark.range(0, 100, 1, 4).select(
        f.when(f.col("id") == 99, f.raise_error("boom").cast("long"))
        .otherwise(f.col("id"))
        .alias("id")
    )

    with pytest.raises(PySparkException, match="boom"):
        save(bad, lake)

    assert numbers(lake) == Counter(range(3))
    assert data_files(lake) == before


@pytest.mark.slow
def test_files_are_as_small_as_asked_for(lake: Lake) -> None:
    save(lake.spark.range(0, 100, 1, 1), lake, max_rows_per_file=30)

    assert [each.count_rows() for each in lake.open("t").get_fragments()] == [30, 30, 30, 10]


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
        work = [(at, "overwrite" if at % 3 == 0 else "append") for at in range(1, 13)]
        list(pool.map(lambda each: job(*each), work))

    latest = lake.open("t")
    held: set[int] = set()
    seen: set[int] = set()
    for version in sorted(each["version"] for each in latest.versions()):
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
    assert data_files(lake) == owned(lake)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_an_executor_that_is_killed_in_the_middle_changes_nothing(
    cluster_lake: Lake, times: int
) -> None:
    lake, spark = cluster_lake, cluster_lake.spark
    save(spark.range(-5, 0), lake)
    rows = 400_000

    def slowly(batches: Any) -> Any:
        for batch in batches:
            time.sleep(0.05)
            yield batch

    source = spark.range(0, rows, 1, 8).mapInArrow(slowly, "id long")
    killed: list[int] = []

    def killer() -> None:
        for _ in range(times):
            seen = len(list(Path(lake.root).glob("t.lance/data/*")))
            while len(list(Path(lake.root).glob("t.lance/data/*"))) < seen + 1:
                time.sleep(0.02)
            victim = next(each for each in _java_children() if each not in killed)
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(killer)
        save(source, lake, max_rows_per_file=20_000)
        running.result(timeout=60)

    assert len(killed) == times
    assert numbers(lake) == Counter(range(-5, rows))
    assert lake.open("t").version == 2, "one commit"
    named = [file.path for each in lake.open("t").get_fragments() for file in each.data_files()]
    assert len(named) == len(set(named))
    stray = {each for each in data_files(lake) - owned(lake) if not each.startswith(".tmp")}
    assert not stray, "what the killed task had written is swept by name"


def _java_children() -> list[int]:
    """Executors of the local cluster: JVMs that run the executor's main class."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                command = (each / "cmdline").read_bytes()
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in command and str(os.getpid()) in _ancestry(
                each.name
            ):
                found.append(int(each.name))
    return sorted(found)


def _ancestry(pid: str) -> list[str]:
    """The processes above one, so that only our own executors are killed."""
    found = []
    while pid not in ("0", "1"):
        try:
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            break
        pid = stat[1]
        found.append(pid)
    return found


@pytest.mark.slow
def test_the_cluster_writes_and_merges_as_one_process_does(cluster_lake: Lake) -> None:
    from tiltyard.spark.merge import delete_where, merge_into, update_where

    lake, spark = cluster_lake, cluster_lake.spark
    save(spark.range(0, 50_000, 1, 4).withColumn("v", f.lit("old")), lake, max_rows_per_file=5_000)
    source = spark.range(40_000, 60_000, 1, 4).withColumn("v", f.lit("new"))

    merged = merge_into(source, "t", on="id", root=lake.root)
    deleted = delete_where(spark, "t", "id < 1000", root=lake.root)
    updated = update_where(spark, "t", {"v": "'mid'"}, "id % 1000 = 0", root=lake.root)

    assert (merged.updated, merged.inserted) == (10_000, 10_000)
    assert (deleted.deleted, updated.updated) == (1000, 59)
    expected = {
        each: "mid" if each % 1000 == 0 else "old" if each < 40_000 else "new"
        for each in range(1000, 60_000)
    }
    found = lake.open("t").to_table()
    assert found.num_rows == len(expected)
    assert dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True)) == expected
    assert data_files(lake) == owned(lake)
