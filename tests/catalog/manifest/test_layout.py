"""The plan of a commit: what is kept, what is rewritten, and how many fragments that leaves."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from tiltyard.catalog.manifest.layout import (
    FULL_FRAGMENTS,
    MOST_FRAGMENTS,
    SMALLEST_FRAGMENT,
    FragmentPlan,
    plan,
)

sizes = st.lists(st.integers(0, 60_000), max_size=60)


def _after(present: list[int], layout: FragmentPlan, rows: int) -> list[int]:
    """The sizes of the fragments once the plan is carried out with this many rows to write."""
    full, rest = divmod(rows, layout.fragment_rows)
    return (
        [present[at] for at in layout.keep]
        + [layout.fragment_rows] * full
        + ([rest] if rest else [])
    )


@given(sizes, st.data(), st.integers(0, 5_000))
def test_every_fragment_is_kept_or_rewritten_and_a_forced_one_is_rewritten(
    present: list[int], data: st.DataObject, added: int
) -> None:
    forced = data.draw(st.sets(st.integers(0, len(present) - 1))) if present else set()

    layout = plan(present, forced, added)

    assert sorted((*layout.keep, *layout.rewrite)) == list(range(len(present)))
    assert forced <= set(layout.rewrite)


@given(sizes, st.integers(1, 5_000))
def test_a_commit_never_leaves_more_fragments_than_readers_stand(
    present: list[int], added: int
) -> None:
    layout = plan(present, (), added)

    written = added + sum(present[at] for at in layout.rewrite)
    assert len(_after(present, layout, written)) <= max(MOST_FRAGMENTS, len(present)) + 1
    assert (
        len(layout.keep) + math.ceil(written / layout.fragment_rows)
        <= MOST_FRAGMENTS + FULL_FRAGMENTS
    )


def test_single_rows_cost_a_logarithm_and_leave_few_fragments() -> None:
    present: list[int] = []
    written = 0
    rows = 20_000
    for _ in range(rows):
        layout = plan(present, (), 1)
        pool = 1 + sum(present[at] for at in layout.rewrite)
        written += pool
        present = _after(present, layout, pool)
    assert sum(present) == rows
    assert len(present) <= 2 * FULL_FRAGMENTS + math.log2(SMALLEST_FRAGMENT) + 1
    assert written / rows < 2 * math.log2(rows), "each row is rewritten a few times, not each time"


def test_removing_a_row_rewrites_one_fragment_of_many() -> None:
    dice = random.Random(7)
    present = [
        dice.randint(SMALLEST_FRAGMENT, 2 * SMALLEST_FRAGMENT) for _ in range(FULL_FRAGMENTS)
    ]

    layout = plan(present, {3}, 0)

    assert layout.rewrite == (3,)
