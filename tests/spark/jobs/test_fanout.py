"""The frame of every job: units on executors, one result for each item, in order."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.spark.lake import Lake
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.fanout import pack, within
from tiltyard.spark.jobs.job import catalog_of, frame, schema_of


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Counted:
    """One of each kind of field that results have."""

    table: str
    rows: int = 0
    share: float = 0.0
    colour: Colour = Colour.RED
    parts: tuple[str, ...] = ()
    at: datetime | None = None
    error: str | None = None


def _look(catalog: DirectoryNamespace, table: str) -> Counted:
    if table == "bad":
        raise KeyError("a key of nobody")
    return Counted(
        table, catalog.open_table([table]).count_rows(), at=datetime(2026, 1, 2, tzinfo=UTC)
    )


def _failed(table: str, error: str) -> Counted:
    return Counted(table, error=error)


def test_an_error_is_a_result_and_the_others_go_on(lake: Lake) -> None:
    for number in range(3):
        lake.put(f"t{number}", {"id": list(range(number))})
    items = ["t0", "bad", "t1", "missing", "t2"]

    rows = fanout.run(lake.spark, lake.catalog, _look, items, _failed, doing="look")

    assert [row.table for row in rows] == items
    assert [row.rows for row in rows] == [0, 0, 1, 0, 2]
    assert [row.error is None for row in rows] == [True, False, True, False, True]
    assert "could not look: 'a key of nobody'" in str(rows[1].error)
    assert "missing" in str(rows[3].error)


def _process(catalog: DirectoryNamespace, item: int) -> tuple[int, int]:
    return os.getpid(), id(catalog)


def test_a_python_process_opens_the_catalog_once(lake: Lake) -> None:
    processes = fanout.run(
        lake.spark, lake.catalog, _process, range(20), lambda item, error: (0, 0), max_tasks=6
    )

    assert all(process != os.getpid() for process, _ in processes)
    assert len({catalog for _, catalog in processes}) <= len({process for process, _ in processes})


def _die(catalog: DirectoryNamespace, item: int) -> int:
    if item == 5:
        os._exit(1)
    return item


def test_an_item_that_kills_its_process_does_not_stop_the_others(lake: Lake) -> None:
    answers = fanout.run(
        lake.spark, lake.catalog, _die, range(8), lambda item, error: error, max_tasks=2
    )

    assert [answer for answer in answers if isinstance(answer, int)] == [0, 1, 2, 3, 4, 6, 7]
    assert answers[5] == (
        "could not maintain a table: the worker process died while it worked on it"
    )


class Panic(BaseException):
    """What a panic of Lance is for Python."""


def _panic(catalog: DirectoryNamespace, item: int) -> int:
    raise Panic("in Lance")


def test_a_panic_is_a_result(lake: Lake) -> None:
    (error,) = fanout.run(lake.spark, lake.catalog, _panic, [1], lambda item, error: error)
    assert "in Lance" in str(error)


def test_progress_ends_with_everything_done(lake: Lake) -> None:
    reports: list[tuple[int, int]] = []

    fanout.run(
        lake.spark,
        lake.catalog,
        _process,
        range(9),
        lambda item, error: (0, 0),
        progress=lambda done, total: reports.append((done, total)),
    )

    assert reports[0] == (0, 9)
    assert reports[-1] == (9, 9)
    assert [done for done, _ in reports] == sorted(done for done, _ in reports)


def test_without_items_nothing_is_run(lake: Lake) -> None:
    assert fanout.run(lake.spark, lake.catalog, _look, [], _failed) == []


def test_a_catalog_can_be_named_in_three_ways(lake: Lake) -> None:
    assert catalog_of(lake.catalog) is lake.catalog
    for like in (lake.root, {"root": lake.root}):
        assert catalog_of(like).namespace_id() == lake.catalog.namespace_id()


def test_results_are_rows_under_the_names_that_were_chosen(spark: SparkSession) -> None:
    at = datetime(2026, 1, 2, 3, tzinfo=UTC)
    rows = frame(
        spark, Counted, [Counted("a", 1, 0.5, parts=("x", "y"), at=at)], {"rows": "row_count"}
    )

    (row,) = rows.collect()
    assert rows.columns == ["table", "row_count", "share", "colour", "parts", "at", "error"]
    assert (row.table, row.row_count, row.share) == ("a", 1, 0.5)
    assert (row.colour, row.parts, row.error) == ("red", ["x", "y"], None)
    assert row.at.astimezone(UTC) == at
    assert [column.nullable for column in schema_of(Counted)] == [False] * 5 + [True] * 2


def test_a_type_that_spark_has_no_column_for_is_refused() -> None:
    @dataclass
    class Odd:
        field: complex

    with pytest.raises(TypeError):
        schema_of(Odd)


# -- which items share a task, and where planning stops

WEIGHTS = st.lists(st.integers(0, 1000), max_size=60)


@given(WEIGHTS, st.integers(1, 10))
def test_every_item_is_in_one_task_and_no_task_is_empty(weights: list[int], tasks: int) -> None:
    packed = pack(weights, tasks, float)

    assert sorted(position for task in packed for position in task) == list(range(len(weights)))
    assert len(packed) == min(tasks, len(weights))
    assert all(packed)


@given(WEIGHTS, st.integers(1, 10))
def test_no_task_has_more_than_a_fair_share_and_one_item(weights: list[int], tasks: int) -> None:
    packed = pack(weights, tasks, float)

    fair = sum(weights) / tasks
    for task in packed:
        assert sum(weights[at] for at in task) <= fair + max(weights[at] for at in task)


def test_without_weights_tasks_have_equally_many_items() -> None:
    packed = pack(range(10), 4)

    assert sorted(len(task) for task in packed) == [2, 2, 3, 3]


def test_planning_stops_at_so_many_bytes() -> None:
    assert within([5, 5, 5], int, 10) == 2
    assert within([5, 5, 5], int, None) == 3
    assert within([5, 5, 5], int, 15) == 3
    assert within([], int, 15) == 0


def test_an_item_that_is_too_heavy_is_taken_when_it_comes_first() -> None:
    assert within([50, 5], int, 10) == 1
    assert within([5, 50], int, 10) == 1
