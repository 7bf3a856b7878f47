"""The frame of every job: units on executors, one result for each item, in order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import pytest
from pyspark.sql import SparkSession

from tests.spark.lake import Lake
from tiltyard.errors import InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.results import frame, schema_of


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Seen:
    """One of each kind of field that results have."""

    table: str
    rows: int = 0
    share: float = 0.0
    colour: Colour = Colour.RED
    parts: tuple[str, ...] = ()
    at: datetime | None = None
    error: str | None = None


def _look(catalog: DirectoryNamespace, table: str) -> Seen:
    if table == "bad":
        raise KeyError("a key of nobody")
    return Seen(
        table, catalog.open_table([table]).count_rows(), at=datetime(2026, 1, 2, tzinfo=UTC)
    )


def _failed(table: str, error: str) -> Seen:
    return Seen(table, error=error)


def test_an_error_is_a_result_and_the_others_go_on(lake: Lake) -> None:
    for number in range(3):
        lake.put(f"t{number}", {"id": list(range(number))})
    items = ["t0", "bad", "t1", "missing", "t2"]

    found = fanout.run(lake.spark, lake.catalog, _look, items, _failed, doing="look")

    assert [each.table for each in found] == items
    assert [each.rows for each in found] == [0, 0, 1, 0, 2]
    assert [each.error is None for each in found] == [True, False, True, False, True]
    assert "could not look: 'a key of nobody'" in str(found[1].error)
    assert "missing" in str(found[3].error)


def _process(catalog: DirectoryNamespace, item: int) -> tuple[int, int]:
    return os.getpid(), id(catalog)


def test_a_python_process_opens_the_catalog_once(lake: Lake) -> None:
    found = fanout.run(
        lake.spark, lake.catalog, _process, range(20), lambda item, error: (0, 0), max_tasks=6
    )

    assert all(process != os.getpid() for process, _ in found)
    assert len({catalog for _, catalog in found}) <= len({process for process, _ in found})


def _die(catalog: DirectoryNamespace, item: int) -> int:
    if item == 5:
        os._exit(1)
    return item


def test_an_item_that_kills_its_process_does_not_stop_the_others(lake: Lake) -> None:
    found = fanout.run(
        lake.spark, lake.catalog, _die, range(8), lambda item, error: error, max_tasks=2
    )

    assert [each for each in found if isinstance(each, int)] == [0, 1, 2, 3, 4, 6, 7]
    assert found[5] == "could not maintain a table: whoever worked on it died"


class Panic(BaseException):
    """What a panic of Lance is for Python."""


def _panic(catalog: DirectoryNamespace, item: int) -> int:
    raise Panic("at the disco")


def test_a_panic_is_a_result(lake: Lake) -> None:
    (found,) = fanout.run(lake.spark, lake.catalog, _panic, [1], lambda item, error: error)
    assert "at the disco" in str(found)


def test_progress_ends_with_everything_done(lake: Lake) -> None:
    told: list[tuple[int, int]] = []

    fanout.run(
        lake.spark,
        lake.catalog,
        _process,
        range(9),
        lambda item, error: (0, 0),
        progress=lambda done, total: told.append((done, total)),
    )

    assert told[0] == (0, 9)
    assert told[-1] == (9, 9)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_without_items_nothing_is_run_and_bad_limits_are_refused(lake: Lake) -> None:
    assert fanout.run(lake.spark, lake.catalog, _look, [], _failed) == []
    with pytest.raises(InvalidInputError):
        fanout.run(lake.spark, lake.catalog, _look, ["t"], _failed, max_tasks=0)


def test_a_catalog_can_be_named_in_three_ways(lake: Lake) -> None:
    assert fanout.catalog_of(lake.catalog) is lake.catalog
    for place in (lake.root, {"root": lake.root}):
        assert fanout.catalog_of(place).namespace_id() == lake.catalog.namespace_id()


def test_results_are_rows_under_the_names_that_were_chosen(spark: SparkSession) -> None:
    at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    found = frame(spark, Seen, [Seen("a", 1, 0.5, parts=("x", "y"), at=at)], {"rows": "row_count"})

    (row,) = found.collect()
    assert found.columns == ["table", "row_count", "share", "colour", "parts", "at", "error"]
    assert (row.table, row.row_count, row.share) == ("a", 1, 0.5)
    assert (row.colour, row.parts, row.error) == ("red", ["x", "y"], None)
    assert row.at.astimezone(UTC) == at
    assert [each.nullable for each in schema_of(Seen)] == [False] * 5 + [True] * 2


def test_a_type_that_spark_has_no_column_for_is_refused() -> None:
    @dataclass
    class Odd:
        field: complex

    with pytest.raises(TypeError):
        schema_of(Odd)
