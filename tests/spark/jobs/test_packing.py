"""Which units share a task, and where planning stops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiltyard.spark.jobs.packing import pack, within

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
        assert sum(weights[each] for each in task) <= fair + max(weights[each] for each in task)


def test_without_weights_tasks_have_equally_many_items() -> None:
    packed = pack(range(10), 4)

    assert sorted(len(each) for each in packed) == [2, 2, 3, 3]


def test_planning_stops_at_so_many_bytes() -> None:
    assert within([5, 5, 5], int, 10) == 2
    assert within([5, 5, 5], int, None) == 3
    assert within([5, 5, 5], int, 15) == 3
    assert within([], int, 15) == 0


def test_an_item_that_is_too_heavy_is_taken_when_it_comes_first() -> None:
    assert within([50, 5], int, 10) == 1
    assert within([5, 50], int, 10) == 1
