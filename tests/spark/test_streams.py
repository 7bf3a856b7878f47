"""Streams by Spark itself: from a table into a table, restarted, aggregated, and on a cluster.

What a source and a sink do in every detail is tested without Spark: see test_stream_source.py and
test_stream_sink.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tests.spark.lake import Lake
from tests.spark.streams import numbers


def stream(lake: Lake, name: str, **options: Any) -> DataFrame:
    return lake.spark.readStream.format("tiltyard").options(root=lake.root, **options).load(name)


def pump(rows: DataFrame, lake: Lake, into: str, checkpoint: Path, mode: str = "append") -> int:
    """Stream all that there is now; the number of batches with rows is returned."""
    writer = rows.writeStream.format("tiltyard").outputMode(mode)
    writer = writer.options(root=lake.root, checkpointLocation=str(checkpoint))
    query = writer.trigger(availableNow=True).start(into)
    query.awaitTermination()
    return sum(progress["numInputRows"] > 0 for progress in query.recentProgress)


def ids(lake: Lake, name: str) -> list[int]:
    return sorted(lake.open(name).to_table().column("id").to_pylist())


def test_a_table_is_streamed_into_another_and_goes_on_from_its_checkpoint(
    lake: Lake, tmp_path: Path
) -> None:
    lake.put("a.source", numbers(1, 2, 3))
    checkpoint = tmp_path / "checkpoint"
    pump(stream(lake, "a.source"), lake, "a.sink", checkpoint)
    assert ids(lake, "a.sink") == [1, 2, 3]

    for number in (4, 5, 6):
        lake.append("a.source", numbers(number))
    batches = pump(stream(lake, "a.source", max_versions_per_batch=2), lake, "a.sink", checkpoint)

    assert batches == 2
    assert ids(lake, "a.sink") == [1, 2, 3, 4, 5, 6]
    properties = lake.open("a.sink").read_transaction(3).transaction_properties
    assert properties["tiltyard.stream.batch"] == "2"


@pytest.mark.slow
def test_an_aggregate_of_changes_is_replaced_by_each_batch(lake: Lake, tmp_path: Path) -> None:
    lake.put("source", numbers(1, 2, 3))
    lake.append("source", numbers(4))
    lake.open("source").delete("id < 3")
    rows = stream(lake, "source", change_kinds=True, starting_version=1, max_versions_per_batch=1)
    counts = rows.groupBy("_change_type").count()
    pump(counts, lake, "counts", tmp_path / "checkpoint", "complete")

    stored = lake.open("counts").to_table().to_pylist()
    assert {row["_change_type"]: row["count"] for row in stored} == {"insert": 4, "delete": 2}
    assert lake.open("counts").version == 3


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_stops_a_stream_is_told_by_the_query(lake: Lake, tmp_path: Path) -> None:
    lake.put("source", numbers(1, 2))
    lake.open("source").delete("id = 1")

    with pytest.raises(PySparkException, match="version 2 of 'source' did not only add rows"):
        pump(stream(lake, "source", starting_version=2), lake, "sink", tmp_path / "changes")
    with pytest.raises(PySparkException, match="Update mode"):
        pump(stream(lake, "source"), lake, "sink", tmp_path / "update", "update")


def test_options_of_a_stream_are_refused_by_a_read(lake: Lake) -> None:
    lake.put("source", numbers(1))

    with pytest.raises(PySparkException, match="unknown option 'starting_version'"):
        lake.load("source", starting_version=1).collect()


@pytest.mark.slow
def test_a_cluster_streams_too(cluster_lake: Lake, tmp_path: Path) -> None:
    lake = cluster_lake
    lake.put("source", numbers(*range(40)), files=8)
    rows = stream(lake, "source", num_partitions=4, max_rows_per_batch=20)
    batches = pump(rows.repartition(4), lake, "sink", tmp_path / "checkpoint")

    assert batches == 2
    assert ids(lake, "sink") == list(range(40))
