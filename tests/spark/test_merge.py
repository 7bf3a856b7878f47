"""Merging, deleting and updating rows: distributed, in one commit, and as a plain loop would."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from tests.spark.lake import Lake
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableNotFoundError,
    TableSchemaValidationError,
)
from tiltyard.spark import merge as merging
from tiltyard.spark.merge import delete_where, merge_into, update_where
from tiltyard.spark.rewrite import Changed
from tiltyard.tables.rewrites import Kind

PEOPLE = pa.table(
    {
        "id": pa.array(range(10), pa.int64()),
        "name": [f"n{each}" for each in range(10)],
        "spot": pa.array([[each, -each] for each in range(10)], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def people(lake: Lake) -> Lake:
    lake.put("people", PEOPLE, files=3)
    return lake


def rows(lake: Lake, name: str = "people") -> list[dict[str, Any]]:
    found = lake.open(name).to_table().to_pylist()
    return sorted(found, key=lambda row: (row["id"] is None, row["id"]))


def ids(lake: Lake) -> list[int]:
    return [row["id"] for row in rows(lake)]


def files_below(lake: Lake) -> set[str]:
    catalog = lake.catalog
    return {each.name for each in catalog.context.store.walk("people.lance/data")}


def owned(lake: Lake) -> set[str]:
    table = lake.open("people")
    return {
        file.path
        for version in table.versions()
        for each in table.checkout_version(version["version"]).get_fragments()
        for file in each.data_files()
    }


def test_an_upsert_updates_what_is_there_and_inserts_what_is_not(people: Lake) -> None:
    people.open("people").create_scalar_index("id", "BTREE")
    version = people.open("people").version
    source = people.spark.createDataFrame(
        [(3, "x3", [3.0, 3.0]), (42, "x42", [4.0, 2.0])], "id long, name string, spot array<float>"
    )

    done = merge_into(source, "people", on="id", root=people.root)

    assert done == Changed(version + 1, inserted=1, updated=1)
    found = {row["id"]: row for row in rows(people)}
    assert len(found) == people.open("people").count_rows() == 11
    assert found[3] == {"id": 3, "name": "x3", "spot": [3.0, 3.0]}
    assert found[42]["name"] == "x42"
    assert found[4] == {"id": 4, "name": "n4", "spot": [4.0, -4.0]}
    table = people.open("people")
    assert table.schema == PEOPLE.schema
    assert table.to_table(filter="id = 3")["name"].to_pylist() == ["x3"]
    assert [each.name for each in table.describe_indices()] == ["id_idx"]
    assert files_below(people) == owned(people)


def test_columns_that_the_source_lacks_stay_as_they_are(people: Lake) -> None:
    source = people.spark.createDataFrame([(2, "x2"), (50, "x50")], "ID int, name string")

    done = merge_into(source, "people", on=["id"], root=people.root)

    assert (done.inserted, done.updated) == (1, 1)
    found = {row["id"]: row for row in rows(people)}
    assert found[2] == {"id": 2, "name": "x2", "spot": [2.0, -2.0]}
    assert found[50] == {"id": 50, "name": "x50", "spot": None}


def test_a_merge_can_mirror_its_source(people: Lake) -> None:
    source = people.spark.createDataFrame([(1, "same"), (99, "new")], "id long, name string")

    done = merge_into(
        source, "people", on="id", when_not_matched_by_source="delete", root=people.root
    )

    assert done == Changed(done.version, inserted=1, updated=1, deleted=9)
    assert [(row["id"], row["name"]) for row in rows(people)] == [(1, "same"), (99, "new")]


def test_only_what_is_new_is_inserted(people: Lake) -> None:
    source = people.spark.createDataFrame([(1, "x"), (11, "y")], "id long, name string")

    done = merge_into(source, "people", on="id", when_matched=None, root=people.root)

    assert (done.inserted, done.updated, done.deleted) == (1, 0, 0)
    assert rows(people)[1]["name"] == "n1"


def test_matched_rows_can_be_deleted(people: Lake) -> None:
    source = people.spark.range(4, 100).select("id")

    done = merge_into(
        source, "people", on="id", when_matched="delete", when_not_matched=None, root=people.root
    )

    assert done.deleted == 6
    assert ids(people) == [0, 1, 2, 3]
    assert len(people.open("people").get_fragments()) == 1, "what has no rows is gone"


def test_matched_rows_can_be_computed_from_both_sides(people: Lake) -> None:
    source = people.spark.createDataFrame([(7, "plus")], "id long, name string")

    merge_into(
        source,
        "people",
        on="id",
        when_matched={"name": "concat(target.name, source.name)"},
        root=people.root,
    )

    assert rows(people)[7] == {"id": 7, "name": "n7plus", "spot": [7.0, -7.0]}


@pytest.mark.parametrize("key", [3, 77], ids=["of a row", "of none"])
def test_two_rows_of_the_source_with_one_key_are_refused(people: Lake, key: int) -> None:
    version, files = people.open("people").version, files_below(people)
    source = people.spark.createDataFrame([(key, "a"), (key, "b")], "id long, name string")

    with pytest.raises(InvalidInputError, match="two rows"):
        merge_into(source, "people", on="id", root=people.root)

    assert people.open("people").version == version
    assert files_below(people) == files, "nothing is left of what was written"


def test_a_null_belongs_to_nothing(lake: Lake) -> None:
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

    found = lake.open("people").to_table().to_pylist()
    assert {(row["a"], row["b"]): row["v"] for row in found} == have | come
    assert len(found) == len(have | come)
    assert (done.updated, done.inserted) == (len(have.keys() & come), len(come.keys() - have))


def test_a_merge_does_not_overlook_a_row_that_came_meanwhile(
    people: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another inserts the same key after the look: the merge looks again, and updates it."""
    source = people.spark.createDataFrame([(42, "mine")], "id long, name string")
    found = merging.rewrite
    tries = []

    def slow(*given: Any) -> Changed:
        if not tries:
            people.append("people", {"id": [42], "name": ["theirs"]})
        tries.append(1)
        return found(*given)

    monkeypatch.setattr(merging, "rewrite", slow)

    done = merge_into(source, "people", on="id", root=people.root)

    assert len(tries) == 2
    assert (done.inserted, done.updated) == (0, 1)
    assert [row["name"] for row in rows(people) if row["id"] == 42] == ["mine"]
    assert files_below(people) == owned(people)


@pytest.mark.slow
def test_whoever_loses_every_time_is_told(people: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    found = merging.rewrite

    def slow(*given: Any) -> Changed:
        people.append("people", {"id": [100], "name": ["theirs"]})
        return found(*given)

    monkeypatch.setattr(merging, "rewrite", slow)
    source = people.spark.createDataFrame([(42, "mine")], "id long, name string")

    with pytest.raises(ConcurrentModificationError):
        merge_into(source, "people", on="id", root=people.root)

    assert 42 not in ids(people)
    assert files_below(people) == owned(people)


# -- delete and update


def test_rows_are_deleted_by_a_condition_of_spark(people: Lake) -> None:
    done = delete_where(people.spark, "people", "id % 2 = 0 AND name LIKE 'n%'", root=people.root)

    assert (done.deleted, done.inserted, done.updated) == (5, 0, 0)
    assert ids(people) == [1, 3, 5, 7, 9]
    assert delete_where(people.spark, "people", "id > 100", root=people.root) == Changed(
        done.version
    )
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


@pytest.mark.parametrize("kind", [Kind.DELETE, Kind.UPDATE])
def test_deletes_and_updates_go_together_with_new_rows(
    people: Lake, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    found = merging.rewrite

    def slow(*given: Any) -> Changed:
        people.append("people", {"id": [0], "name": ["late"]})
        return found(*given)

    monkeypatch.setattr(merging, "rewrite", slow)

    if kind is Kind.DELETE:
        delete_where(people.spark, "people", "id = 0", root=people.root)
    else:
        update_where(people.spark, "people", {"name": "'gone'"}, "id = 0", root=people.root)

    named = sorted(row["name"] for row in rows(people) if row["id"] == 0)
    assert named == (["late"] if kind is Kind.DELETE else ["gone", "late"])


def test_two_changes_of_one_row_are_not_both_lost(
    people: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, tries = merging.rewrite, []

    def slow(*given: Any) -> Changed:
        if not tries:
            people.open("people").update({"name": "'theirs'"}, where="id = 1")
        tries.append(1)
        return found(*given)

    monkeypatch.setattr(merging, "rewrite", slow)

    update_where(people.spark, "people", {"name": "concat(name, '+')"}, "id = 1", root=people.root)

    assert len(tries) == 2
    assert rows(people)[1]["name"] == "theirs+"


# -- refusals


def test_what_makes_no_sense_is_refused_and_changes_nothing(people: Lake) -> None:
    spark, root = people.spark, people.root
    source = spark.createDataFrame([(1, "x")], "id long, name string")
    version = people.open("people").version
    wrong: list[tuple[type[Exception], Any]] = [
        (TableNotFoundError, lambda: merge_into(source, "nobody", on="id", root=root)),
        (InvalidInputError, lambda: merge_into(source, "people", on=[], root=root)),
        (InvalidInputError, lambda: merge_into(source, f"{root}/people.lance", on="id")),
        (
            InvalidInputError,
            lambda: merge_into(source, "people", on="id", when_matched="drop", root=root),
        ),
        (
            InvalidInputError,
            lambda: merge_into(
                source, "people", on="id", when_matched=None, when_not_matched=None, root=root
            ),
        ),
        (
            TableSchemaValidationError,
            lambda: merge_into(source, "people", on="spot", root=root),
        ),
        (TableSchemaValidationError, lambda: merge_into(source, "people", on="nix", root=root)),
        (
            TableSchemaValidationError,
            lambda: merge_into(source.withColumn("age", f.lit(1)), "people", on="id", root=root),
        ),
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
