"""How Spark cuts rows into batches on their way to Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tiltyard.spark.batches import BYTES, ROWS_PER_BATCH, UNWEIGHED, WEIGHED, fit_for

LARGE = 128 * 1024


def _batches(rows: DataFrame) -> list[tuple[int, int]]:
    """The rows and bytes of each batch."""

    def weigh(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    found = rows.mapInArrow(weigh, "rows long, bytes long").collect()
    return [(each.rows, each.bytes) for each in found]


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 1)


def test_narrow_rows_are_cut_by_their_number(spark: SparkSession) -> None:
    rows = _numbers(spark, 3 * ROWS_PER_BATCH)
    with fit_for(rows):
        assert spark.conf.get(BYTES) == str(UNWEIGHED)
        assert [count for count, _ in _batches(rows)] == [ROWS_PER_BATCH] * 3


def test_rows_with_binaries_are_cut_by_their_bytes(spark: SparkSession) -> None:
    text = f.repeat(f.lit("x"), LARGE)
    rows = _numbers(spark, 2 * WEIGHED // LARGE).select(f.encode(text, "utf-8").alias("image"))
    with fit_for(rows):
        weighed = _batches(rows)
    assert len(weighed) > 1
    assert max(size for _, size in weighed) < WEIGHED + 2 * LARGE
    assert len(_batches(rows)) == 1, "what held for these rows holds for the next, too"


@pytest.mark.parametrize(
    "kind",
    ["binary", "array<binary>", "struct<a: int, b: array<binary>>", "map<string, binary>"],
)
def test_binaries_are_found_wherever_they_are(spark: SparkSession, kind: str) -> None:
    with fit_for(spark.createDataFrame([], f"id long, held {kind}")):
        assert spark.conf.get(BYTES) == str(WEIGHED)
    assert spark.conf.get(BYTES) == str(UNWEIGHED)


def test_a_failure_leaves_the_setting_as_it_was(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), fit_for(spark.createDataFrame([], "image binary")):
        _ = 1 / 0
    assert spark.conf.get(BYTES) == str(UNWEIGHED)


def test_what_a_user_has_set_stays(spark: SparkSession) -> None:
    spark.conf.set(BYTES, 1024)
    try:
        with fit_for(spark.createDataFrame([], "image binary")):
            assert spark.conf.get(BYTES) == "1024"
        assert spark.conf.get(BYTES) == "1024"
    finally:
        spark.conf.set(BYTES, UNWEIGHED)
