"""Reading through the data source: what arrives, of which version, in how many pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tests.spark.lake import Lake
from tiltyard.errors import TiltyardError
from tiltyard.spark.options import ReadOptions
from tiltyard.spark.scan import Scan

PEOPLE = {
    "id": list(range(100)),
    "name": [f"name {number}" for number in range(100)],
    "score": [number / 10 if number % 7 else None for number in range(100)],
}


def _ids(rows: DataFrame) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def _partitions(rows: DataFrame) -> int:
    return rows.rdd.getNumPartitions()


def test_a_table_is_read_by_its_name(lake: Lake) -> None:
    lake.put("prod.analytics.people", PEOPLE, files=3)

    rows = lake.load("prod.analytics.people")

    assert rows.schema.simpleString() == "struct<id:bigint,name:string,score:double>"
    assert [row.asDict() for row in rows.orderBy("id").collect()] == pa.table(PEOPLE).to_pylist()


def test_a_table_is_named_by_an_option_or_is_a_path(lake: Lake) -> None:
    dataset = lake.put("people", PEOPLE)
    reader = lake.spark.read.format("tiltyard")

    named = reader.option("root", lake.root).option("table", "people").load()
    path = lake.spark.read.format("tiltyard").load(dataset.uri)

    assert _ids(named) == _ids(path) == PEOPLE["id"]


def test_an_empty_table_has_its_schema(lake: Lake) -> None:
    lake.put("people", pa.table(PEOPLE).slice(0, 0))

    assert lake.load("people").count() == 0
    assert lake.load("people").columns == ["id", "name", "score"]


def test_only_some_columns_and_rows_are_read(lake: Lake) -> None:
    lake.put("people", PEOPLE, files=3)

    rows = lake.load("people", columns="name, id", filter="score > 9 OR id = 3")

    assert rows.columns == ["name", "id"]
    assert _ids(rows) == [3, *(number for number in range(91, 100) if number % 7)]


@pytest.mark.parametrize("options", [{}, {"filter": "id >= 0"}, {"columns": "id"}])
def test_a_limit_is_that_of_the_whole_table(lake: Lake, options: dict[str, str]) -> None:
    lake.put("people", PEOPLE, files=4)

    rows = lake.load("people", limit=30, num_partitions=3, **options)

    assert _ids(rows) == list(range(30))


def test_row_ids_and_addresses_come_on_request(lake: Lake) -> None:
    lake.put("people", PEOPLE, files=2)

    rows = lake.load("people", columns="id", with_row_id=True, with_row_address=True).collect()

    by_id = {row.id: row for row in rows}
    assert by_id[0].asDict() == {"id": 0, "_rowid": 0, "_rowaddr": 0}
    assert by_id[50].asDict() == {"id": 50, "_rowid": 50, "_rowaddr": 2**32}


@pytest.mark.parametrize("condition", [None, "id >= 0"])
@pytest.mark.parametrize("partitions", [1, 3, 7])
def test_one_fragment_is_read_by_many_tasks(
    lake: Lake, partitions: int, condition: str | None
) -> None:
    dataset = lake.put("people", PEOPLE)
    dataset.delete("id % 3 = 1 OR id < 20")
    options = {} if condition is None else {"filter": condition}

    rows = lake.load("people", num_partitions=partitions, **options)

    assert _partitions(rows) == partitions
    assert _ids(rows) == [number for number in range(20, 100) if number % 3 != 1]


def test_a_partition_holds_so_many_fragments(lake: Lake) -> None:
    lake.put("people", PEOPLE, files=5)

    rows = lake.load("people", fragments_per_partition=2)

    assert _partitions(rows) == 3
    assert _ids(rows) == PEOPLE["id"]


def test_batches_are_as_small_as_wanted(lake: Lake) -> None:
    lake.put("people", PEOPLE)

    planned = lake.plan("people", batch_size=30)
    (piece,) = planned.pieces()

    assert [batch.num_rows for batch in planned.read(piece)] == [30, 30, 30, 10]


@pytest.mark.parametrize(("dimensions", "rows"), [(1, 32768), (128, 16000), (4096, 1024)])
def test_a_batch_is_about_as_large_for_wide_rows(lake: Lake, dimensions: int, rows: int) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array([0.5] * dimensions, pa.float32()), dimensions
    )
    lake.put("wide", pa.table({"v": vectors}))
    planned = lake.plan("wide").wanted.batch_size
    assert planned is not None
    assert rows <= planned < 1.1 * rows


# ---------------------------------------------------------------- versions


def _history(lake: Lake) -> lance.LanceDataset:
    """Version n holds the rows 0 to n - 1; a branch has one more since version 2."""
    lake.put("people", {"id": [0]})
    lake.append("people", {"id": [1]})
    branch = lake.open("people").create_branch("dev")
    lance.write_dataset(pa.table({"id": [100]}), branch, mode="append")
    dataset = lake.append("people", {"id": [2]})
    dataset.tags.create("first", 1)
    dataset.tags.create("aside", ("dev", 3))
    return dataset


def test_time_travel(lake: Lake) -> None:
    dataset = _history(lake)
    second = dataset.versions()[1]["timestamp"].astimezone(UTC)

    assert _ids(lake.load("people")) == [0, 1, 2]
    assert _ids(lake.load("people", version=2)) == [0, 1]
    assert _ids(lake.load("people", tag="first")) == [0]
    assert _ids(lake.load("people", branch="dev")) == [0, 1, 100]
    assert _ids(lake.load("people", branch="dev", version=2)) == [0, 1]
    assert _ids(lake.load("people", tag="aside")) == [0, 1, 100]
    assert _ids(lake.load("people", as_of=second.isoformat())) == [0, 1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"version": 9}, "has no version 9"),
        ({"tag": "last"}, "has no tag 'last'"),
        ({"branch": "main2"}, "has no branch 'main2'"),
        ({"as_of": "2001-01-01"}, "no version as old"),
        ({"tag": "first", "version": 1}, "can't be combined"),
        ({"as_of": "2001-01-01", "version": 1}, "can't be combined"),
    ],
)
def test_a_version_that_is_not_there_is_told(
    lake: Lake, options: dict[str, Any], said: str
) -> None:
    _history(lake)

    with pytest.raises(TiltyardError, match=said):
        lake.plan("people", **options)


def test_a_relation_stays_at_the_version_it_was_made_of(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    rows = lake.load("people")
    rows.createOrReplaceTempView("pinned_people")

    lake.append("people", {"id": [3]})
    lake.spark.sql("REFRESH TABLE pinned_people")

    assert rows.count() == rows.where("id > 0").count() == 2
    assert lake.spark.sql("SELECT * FROM pinned_people WHERE id > 0").count() == 2
    assert lake.load("people").count() == 3


def test_a_table_that_is_dropped_meanwhile_is_read_to_its_end(lake: Lake) -> None:
    lake.put("people", {"id": [1, 2]})
    rows = lake.load("people")

    lake.catalog.drop_table(api.DropTableRequest(id=["people"]))

    assert _ids(rows) == [1, 2]
    with pytest.raises(TiltyardError, match="'people'"):
        lake.plan("people")


# ---------------------------------------------------------------- searches


def test_the_nearest_vectors_are_found_in_the_whole_table(lake: Lake) -> None:
    vectors = pa.array([[float(number), 0.0] for number in range(60)], pa.list_(pa.float32(), 2))
    lake.put("points", pa.table({"id": range(60), "v": vectors}), files=3)
    query = {"column": "v", "q": [31.2, 0.0], "k": 3}

    rows = lake.load("points", nearest=json.dumps(query), columns="id")
    even = lake.load("points", nearest=json.dumps(query), columns="id", filter="id % 2 = 0")

    assert [row.id for row in rows.collect()] == [31, 32, 30]
    assert "_distance" in rows.columns
    assert [row.id for row in even.collect()] == [32, 30, 34]


def test_words_are_found(lake: Lake) -> None:
    dataset = lake.put("notes", {"id": [1, 2, 3], "text": ["a red car", "a blue car", "a dog"]})
    dataset.create_scalar_index("text", "INVERTED")

    assert _ids(lake.load("notes", full_text="car")) == [1, 2]
    query = json.dumps({"query": "red", "columns": ["text"]})
    assert _ids(lake.load("notes", full_text=query)) == [1]


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "id,age"}, "age"),
        ({"filter": "age > 3"}, "age"),
        ({"filter": "id >"}, "could not read"),
        ({"nearest": '{"column": "no", "q": [1.0]}'}, "no"),
    ],
)
def test_a_wrong_option_is_told_before_anything_runs(
    lake: Lake, options: dict[str, str], said: str
) -> None:
    lake.put("people", {"id": [1]})

    with pytest.raises(TiltyardError, match=said):
        lake.plan("people", **options)


def test_what_is_wrong_is_told_by_spark_in_our_words(lake: Lake) -> None:
    lake.put("people", {"id": [1]})

    with pytest.raises(PySparkException, match="did you mean 'columns'"):
        lake.load("people", colums="id")


def test_what_is_not_there_is_told(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(TiltyardError, match="'people'"):
        lake.plan("people")
    with pytest.raises(TiltyardError, match="there is no Lance table at"):
        Scan.plan(ReadOptions.parse({"path": tmp_path / "none.lance"}))


def test_a_schema_of_the_readers_own_is_refused(lake: Lake) -> None:
    lake.put("people", {"id": [1]})

    with pytest.raises(PySparkException, match="has a schema of its own"):
        lake.spark.read.format("tiltyard").schema("id int").option("root", lake.root).load(
            "people"
        ).collect()


def test_a_type_that_spark_can_not_hold_is_refused_by_its_column(lake: Lake) -> None:
    wide = pa.array([None], pa.decimal256(60, 2))
    lake.put("people", pa.table({"id": [1], "wide": wide}))

    with pytest.raises(TiltyardError, match="'wide'"):
        lake.plan("people")
    assert _ids(lake.load("people", columns="id")) == [1]


# ---------------------------------------------------------------- Spark itself


class _TenRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ten_rows"

    def schema(self) -> str:
        return "id int"

    def reader(self, schema: Any) -> DataSourceReader:
        return _Pushing()


class _Pushing(DataSourceReader):
    wanted: int | None = None

    def pushFilters(self, filters: Any) -> Iterator[Any]:  # noqa: N802
        for condition in filters:
            if type(condition).__name__ == "EqualTo":
                self.wanted = condition.value
            else:
                yield condition

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield from ((number,) for number in range(10) if self.wanted in (None, number))


def test_sparks_own_filter_push_down_still_leaks(spark: SparkSession) -> None:
    """Why the source has no `pushFilters`: if this fails, Spark has mended it and we may use it."""
    spark.dataSource.register(_TenRows)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows = spark.read.format("ten_rows").load()
        assert rows.filter("id = 3").count() == 1
        assert rows.count() == 1  # and should be 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
