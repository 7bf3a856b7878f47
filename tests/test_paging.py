"""Pages of names: every name once, whatever the limit, and whatever happens between two pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.errors import InvalidInputError
from tiltyard.paging import page

NAMES = st.lists(st.text(min_size=1), unique=True).map(sorted)
LIMITS = st.integers(min_value=1, max_value=10)


def _walk(entries: list[str], limit: int) -> list[list[str]]:
    pages: list[list[str]] = []
    token: str | None = None
    for _ in range(len(entries) + 1):
        chosen, token = page(entries, token, limit)
        pages.append(list(chosen))
        if token is None:
            return pages
    raise AssertionError("the pages never end")


@given(NAMES, LIMITS)
def test_pages_together_are_the_whole(entries: list[str], limit: int) -> None:
    pages = _walk(entries, limit)

    assert [name for each in pages for name in each] == entries
    assert all(len(each) == limit for each in pages[:-1]), "only the last may be short"
    assert pages[-1] or not entries, "and it is not empty"


@given(NAMES, LIMITS, st.data())
def test_names_that_stay_are_seen_once_whatever_comes_and_goes(
    entries: list[str], limit: int, data: st.DataObject
) -> None:
    chosen, token = page(entries, None, limit)
    gone = set(data.draw(st.lists(st.sampled_from(entries)))) if entries else set()
    come = set(data.draw(NAMES)) - set(entries)
    changed = sorted((set(entries) - gone) | come)

    rest = page(changed, token, None)[0] if token else []

    seen = [*chosen, *rest]
    assert len(seen) == len(set(seen))
    assert set(entries) - gone <= set(seen)


@given(NAMES)
def test_without_a_limit_all_is_one_page(entries: list[str]) -> None:
    assert page(entries, None, None) == (entries, None)


@given(NAMES, st.text())
def test_a_token_need_not_name_anything(entries: list[str], token: str) -> None:
    chosen, _ = page(entries, token, None)

    assert list(chosen) == [name for name in entries if name > token]


@given(NAMES)
def test_a_limit_of_nothing_gives_nothing_and_ends(entries: list[str]) -> None:
    assert page(entries, None, 0) == ([], None)


def test_a_token_past_the_end_gives_an_empty_last_page() -> None:
    assert page(["a", "b"], "c", 1) == ([], None)


@pytest.mark.parametrize("limit", [-1, -(2**40)])
def test_a_negative_limit_is_refused(limit: int) -> None:
    with pytest.raises(InvalidInputError, match=str(limit)):
        page(["a"], None, limit)


def test_a_limit_beyond_the_end_is_fine() -> None:
    assert page(["a", "b"], None, 2**40) == (["a", "b"], None)
