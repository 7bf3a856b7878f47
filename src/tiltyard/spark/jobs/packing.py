"""Which units of work share a task: many to a task, the heavy ones spread first. Values only."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pack(
    items: Sequence[T], tasks: int, weight: Callable[[T], float] | None = None
) -> list[list[int]]:
    """The positions of items for each task, at most so many tasks and none of them empty.

    The heaviest goes first, always to the task that has least, so that no task ends much later
    than the others. Without weights all items weigh the same.
    """
    weights = [1.0 if weight is None else max(0.0, float(weight(each))) for each in items]
    order = sorted(range(len(items)), key=lambda position: -weights[position])
    loads = [(0.0, 0, number) for number in range(min(tasks, len(items)))]
    packed: list[list[int]] = [[] for _ in loads]
    for position in order:
        load, count, number = heapq.heappop(loads)
        packed[number].append(position)
        heapq.heappush(loads, (load + weights[position], count + 1, number))
    return packed


def within(items: Sequence[T], weight: Callable[[T], int], most: int | None) -> int:
    """How many items, from the first on, weigh no more than `most` together; all if it is None.

    One that alone is heavier than that is taken if it comes first, or it never would be.
    """
    if most is None:
        return len(items)
    total = 0
    for count, each in enumerate(items):
        total += weight(each)
        if total > most and count:
            return count
    return len(items)
