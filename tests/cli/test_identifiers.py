"""Ids on the command line: dots between parts, quotes around a part that contains one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.cli.arguments import parse_id, shown_id
from tiltyard.cli.failures import UsageError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("users", ["users"]),
        ("prod.users", ["prod", "users"]),
        ('prod."v1.2"', ["prod", "v1.2"]),
        ('"a.b".c', ["a.b", "c"]),
        ('"say ""hi"""', ['say "hi"']),
        ('5" disk', ['5" disk']),
        ("", []),
        (None, []),
    ],
)
def test_an_id_is_read_by_one_rule(text: str | None, parts: list[str]) -> None:
    assert parse_id(text) == parts


@pytest.mark.parametrize("text", [".", "a.", ".a", "a..b", '"a', '"a"b', 'a."b'])
def test_what_the_rule_does_not_cover_is_refused_with_the_rule(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_id(text)
    assert "double quotes" in str(refused.value.hint)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), min_size=1, max_size=4))
def test_what_is_shown_can_be_typed(parts: list[str]) -> None:
    assert parse_id(shown_id(parts)) == parts
