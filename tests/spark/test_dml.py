"""Merging, deleting and updating rows: distributed, in one commit, and as a plain loop would."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.lake import Lake
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableNotFoundError,
    TableSchemaValidationError,
)
from tiltyard.spark import RowChanges, dml
from tiltyard.spark.dml import delete_where, merge_into, update_where

PEOPLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "name": [f"n{number}" for number in range(10)],
        "spot": pa.array([[number, -number] for number in range(10)], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def people(lake: Lake) -> Lake:
    lake.put("people", PEOPLE, files=3)
    return lake


def rows(lake: Lake) -> list[dict[str, Any]]:
    stored = lake.open("people").to_table().to_pylist()
    return sorted(stored, key=lambda row: (row["id"] is None, row["id"]))


def ids(lake: Lake) -> list[int]:
    return [row["id"] for row in rows(lake)]


@pytest.fixture
def before_changes(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Lets something happen after the rows to change were chosen, once or each time they are; the
    tries are counted in the list that it returns."""

    def let(happen: Callable[[], object], *, once: bool = False) -> list[int]:
        apply, tries = dml.apply_changes, []

        def late(*given: Any) -> RowChanges:
            if not (once and tries):
                happen()
            tries.append(len(tries) + 1)
            return apply(*given)

        monkeypatch.setattr(dml, "apply_changes", late)
        return tries

    return let


def test_an_upsert_updates_what_is_there_and_inserts_what_is_not(people: Lake) -> None:
    people.open("people").create_scalar_index("id", "BTREE")
    version = people.open("people").version
    source = people.spark.createDataFrame(
        [(3, "x3", [3.0, 3.0]), (42, "x42", [4.0, 2.0])], "id long, name string, spot array<float>"
    )

    done = merge_into(source, "people", on="id", root=people.root)

    assert done == RowChanges(version + 1, inserted=1, updated=1)
    by_id = {row["id"]: row for row in rows(people)}
    assert len(by_id) == people.open("people").count_rows() == 11
    assert by_id[3] == {"id": 3, "name": "x3", "spot": [3.0, 3.0]}
    assert by_id[42]["name"] == "x42"
    assert by_id[4] == {"id": 4, "name": "n4", "spot": [4.0, -4.0]}
    table = people.open("people")
    assert table.schema == PEOPLE.schema
    assert table.to_table(filter="id = 3")["name"].to_pylist() == ["x3"]
    assert [index.name for index in table.describe_indices()] == ["id_idx"]
    assert people.data_files("people") == people.owned_files("people")


def test_columns_that_the_source_lacks_stay_as_they_are(people: Lake) -> None:
    source = people.spark.createDataFrame([(2, "x2"), (50, "x50")], "ID int, name string")

    done = merge_into(source, "people", on=["id"], root=people.root)

    assert (done.inserted, done.updated) == (1, 1)
    by_id = {row["id"]: row for row in rows(people)}
    assert by_id[2] == {"id": 2, "name": "x2", "spot": [2.0, -2.0]}
    assert by_id[50] == {"id": 50, "name": "x50", "spot": None}


@pytest.mark.parametrize(
    ("clauses", "counts", "names"),
    [
        (
            {"when_not_matched_by_source": "delete"},
            {"inserted": 1, "updated": 1, "deleted": 9},
            ["same", "new"],
        ),
        ({"when_matched": None}, {"inserted": 1}, [*PEOPLE["name"].to_pylist(), "new"]),
        (
            {"when_matched": {"name": "concat(target.name, source.name)"}},
            {"inserted": 1, "updated": 1},
            ["n0", "n1same", *PEOPLE["name"].to_pylist()[2:], "new"],
        ),
    ],
    ids=["a mirror of the source", "inserts only", "expressions over both sides"],
)
def test_clauses_say_what_a_merge_does(
    people: Lake, clauses: dict[str, Any], counts: dict[str, int], names: list[str]
) -> None:
    source = people.spark.createDataFrame([(1, "same"), (99, "new")], "id long, name string")

    done = merge_into(source, "people", on="id", root=people.root, **clauses)

    assert done == RowChanges(done.version, **counts)
    assert [row["name"] for row in rows(people)] == names
    assert rows(people)[-1] == {"id": 99, "name": "new", "spot": None}


def test_matched_rows_can_be_deleted(people: Lake) -> None:
    source = people.spark.range(4, 100).select("id")

    done = merge_into(
        source, "people", on="id", when_matched="delete", when_not_matched=None, root=people.root
    )

    assert done.deleted == 6
    assert ids(people) == [0, 1, 2, 3]
    assert len(people.open("people").get_fragments()) == 1, "what has no rows is gone"


@pytest.mark.parametrize("key", [3, 77], ids=["of a row", "of none"])
def test_two_rows_of_the_source_with_one_key_are_refused(people: Lake, key: int) -> None:
    version, files = people.open("people").version, people.data_files("people")
    source = people.spark.createDataFrame([(key, "a"), (key, "b")], "id long, name string")

    with pytest.raises(InvalidInputError, match="two rows"):
        merge_into(source, "people", on="id", root=people.root)

    assert people.open("people").version == version
    assert people.data_files("people") == files, "nothing is left of what was written"


def test_a_null_matches_nothing(lake: Lake) -> None:
    lake.put("people", {"id": pa.array([1, None], pa.int64()), "name": ["a", "b"]})
    source = lake.spark.createDataFrame(
        [(None, "c"), (None, "d"), (1, "e")], "id long, name string"
    )

    done = merge_into(source, "people", on="id", root=lake.root)

    assert (done.inserted, done.updated) == (2, 1)
    assert sorted(row["name"] for row in rows(lake)) == ["b", "c", "d", "e"]


def test_a_merge_on_several_columns_agrees_with_a_loop(lake: Lake) -> None:
    dice = random.Random(7)
    have = {(a, b): f"old{a}{b}" for a in range(12) for b in "xyz" if dice.random() < 0.6}
    come = {(a, b): f"new{a}{b}" for a in range(6, 18) for b in "xyz" if dice.random() < 0.6}
    table = [{"a": a, "b": b, "v": v} for (a, b), v in have.items()]
    lake.put("people", pa.Table.from_pylist(table), files=4)
    source = lake.spark.createDataFrame(
        [(a, b, v) for (a, b), v in come.items()], "a long, b string, v string"
    )

    done = merge_into(source.repartition(3), "people", on=["a", "b"], root=lake.root)

    stored = lake.open("people").to_table().to_pylist()
    assert {(row["a"], row["b"]): row["v"] for row in stored} == have | come
    assert len(stored) == len(have | come)
    assert (done.updated, done.inserted) == (len(have.keys() & come), len(come.keys() - have))


def test_a_merge_does_not_overlook_a_row_that_was_added_meanwhile(
    people: Lake, before_changes: Callable[..., list[int]]
) -> None:
    """Another inserts the same key after the join: the merge joins again, and updates it."""
    source = people.spark.createDataFrame([(42, "mine")], "id long, name string")
    tries = before_changes(
        lambda: people.append("people", {"id": [42], "name": ["theirs"]}), once=True
    )

    done = merge_into(source, "people", on="id", root=people.root)

    assert len(tries) == 2
    assert (done.inserted, done.updated) == (0, 1)
    assert [row["name"] for row in rows(people) if row["id"] == 42] == ["mine"]
    assert people.data_files("people") == people.owned_files("people")


@pytest.mark.slow
def test_a_merge_that_always_comes_second_is_refused(
    people: Lake, before_changes: Callable[..., list[int]]
) -> None:
    before_changes(lambda: people.append("people", {"id": [100], "name": ["theirs"]}))
    source = people.spark.createDataFrame([(42, "mine")], "id long, name string")

    with pytest.raises(ConcurrentModificationError):
        merge_into(source, "people", on="id", root=people.root)

    assert 42 not in ids(people)
    assert people.data_files("people") == people.owned_files("people")


# -- delete and update


def test_rows_are_deleted_by_a_condition_of_spark(people: Lake) -> None:
    done = delete_where(people.spark, "people", "id % 2 = 0 AND name LIKE 'n%'", root=people.root)

    assert (done.deleted, done.inserted, done.updated) == (5, 0, 0)
    assert ids(people) == [1, 3, 5, 7, 9]
    nothing = delete_where(people.spark, "people", "id > 100", root=people.root)
    assert nothing == RowChanges(done.version)
    delete_where(people.spark, "people", "true", root=people.root)
    assert ids(people) == []


def test_rows_are_updated_by_expressions(people: Lake) -> None:
    done = update_where(
        people.spark,
        "people",
        {"name": "upper(name)", "spot": f.array(f.lit(0.0), f.col("id")), "ID": "id + 100"},
        "id >= 8",
        root=people.root,
    )

    assert done.updated == 2
    assert rows(people)[-2:] == [
        {"id": 108, "name": "N8", "spot": [0.0, 8.0]},
        {"id": 109, "name": "N9", "spot": [0.0, 9.0]},
    ]
    assert people.open("people").schema == PEOPLE.schema
    update_where(people.spark, "people", {"name": f.lit(None)}, root=people.root)
    assert {row["name"] for row in rows(people)} == {None}


@pytest.mark.parametrize("operation", ["delete", "update"])
def test_deletes_and_updates_go_together_with_new_rows(
    people: Lake, before_changes: Callable[..., list[int]], operation: str
) -> None:
    before_changes(lambda: people.append("people", {"id": [0], "name": ["late"]}))

    if operation == "delete":
        delete_where(people.spark, "people", "id = 0", root=people.root)
    else:
        update_where(people.spark, "people", {"name": "'gone'"}, "id = 0", root=people.root)

    names = sorted(row["name"] for row in rows(people) if row["id"] == 0)
    assert names == (["late"] if operation == "delete" else ["gone", "late"])


def test_two_changes_of_one_row_are_not_both_lost(
    people: Lake, before_changes: Callable[..., list[int]]
) -> None:
    tries = before_changes(
        lambda: people.open("people").update({"name": "'theirs'"}, where="id = 1"), once=True
    )

    update_where(people.spark, "people", {"name": "concat(name, '+')"}, "id = 1", root=people.root)

    assert len(tries) == 2
    assert rows(people)[1]["name"] == "theirs+"


# -- refusals


def test_what_makes_no_sense_is_refused_and_changes_nothing(people: Lake) -> None:
    spark, root = people.spark, people.root
    source = spark.createDataFrame([(1, "x")], "id long, name string")
    version = people.open("people").version

    def merge(df: DataFrame = source, name: str = "people", **terms: Any) -> None:
        merge_into(df, name, **{"on": "id", "root": root, **terms})

    wrong: list[tuple[type[Exception], Callable[[], object]]] = [
        (TableNotFoundError, lambda: merge(name="nobody")),
        (InvalidInputError, lambda: merge(on=[])),
        (InvalidInputError, lambda: merge_into(source, f"{root}/people.lance", on="id")),
        (InvalidInputError, lambda: merge(when_matched="drop")),
        (InvalidInputError, lambda: merge(when_matched=None, when_not_matched=None)),
        (TableSchemaValidationError, lambda: merge(on="spot")),
        (TableSchemaValidationError, lambda: merge(on="nix")),
        (TableSchemaValidationError, lambda: merge(source.withColumn("age", f.lit(1)))),
        (InvalidInputError, lambda: update_where(spark, "people", {}, root=root)),
        (
            TableSchemaValidationError,
            lambda: update_where(spark, "people", {"age": "1"}, root=root),
        ),
        (InvalidInputError, lambda: delete_where(spark, "people", "id = 1", root=root, bogus=1)),
    ]
    for kind, call in wrong:
        with pytest.raises(kind):
            call()
    assert people.open("people").version == version
