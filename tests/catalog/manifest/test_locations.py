"""Locations are owned once: no row may have a directory that is, holds, or lies in another's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.catalog import names
from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits import AddTable
from tiltyard.catalog.manifest.rows import TABLE, Row
from tiltyard.catalog.manifest.snapshot import EMPTY
from tiltyard.errors import InvalidInputError, TiltyardError

segments = st.sampled_from(["a", "b", "a.lance", "b.lance", "cafe0123_a", "cafe0123_b", "x"])
locations = st.lists(segments, min_size=1, max_size=3).map("/".join)
rows = st.tuples(st.sampled_from("abcdefgh"), locations)


@given(st.lists(rows, max_size=12))
def test_whatever_is_registered_no_two_tables_overlap(wishes: list[tuple[str, str]]) -> None:
    draft = Draft(EMPTY)
    for name, location in wishes:
        try:
            draft.apply(AddTable(Row(name, TABLE, location)).apply(draft))
        except TiltyardError:
            continue

    owned = [row.location or "" for row in draft.added.values()]
    for at, one in enumerate(owned):
        assert not any(names.overlaps(one, other) for other in owned[at + 1 :])


@pytest.mark.parametrize("location", ["shop/x", "shop", "shop/x/deep"])
def test_a_trashed_table_still_owns_its_location(location: str) -> None:
    draft = Draft(EMPTY)
    draft.apply(Change(add=(Row("__trash$0000$t", TABLE, "shop/x"),)))

    with pytest.raises(InvalidInputError, match="belongs to"):
        AddTable(Row("other", TABLE, location)).apply(draft)


def test_a_neighbour_with_a_common_beginning_is_no_overlap() -> None:
    draft = Draft(EMPTY)
    draft.apply(Change(add=(Row("t", TABLE, "shop/x"),)))

    change = AddTable(Row("other", TABLE, "shop/xy")).apply(draft)

    assert change.add
