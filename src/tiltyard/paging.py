"""Pages of a sorted list of names. A token is the last name that was given out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from tiltyard.errors import InvalidInputError

T = TypeVar("T")


def page(
    entries: Sequence[str], token: str | None, limit: int | None
) -> tuple[Sequence[str], str | None]:
    """The entries after `token`, `limit` at most, and the token of the next page if there is one.

    A token that names nothing still has a place in the order, so a name that disappeared between
    two pages neither hides nor repeats another.
    """
    if limit is not None and limit < 0:
        raise InvalidInputError(f"a limit can't be negative, and {limit} is")
    start = bisect_right(entries, token) if token else 0
    if limit is None:
        return (entries[start:] if start else entries), None
    chosen = entries[start : start + limit]
    more = bool(chosen) and start + limit < len(entries)
    return chosen, chosen[-1] if more else None


def numbered_page(
    entries: Sequence[T],
    number: Callable[[T], int],
    token: str | None,
    limit: int | None,
    *,
    descending: bool = False,
) -> tuple[Sequence[T], str | None]:
    """The same for things that have numbers, given in ascending order; a token is the last one."""
    if limit is not None and limit < 0:
        raise InvalidInputError(f"a limit can't be negative, and {limit} is")
    if token is not None and not token.isdecimal():
        raise InvalidInputError(f"{token!r} is no page token")
    chosen = list(entries)
    if descending:
        chosen.reverse()
    if token is not None:
        last = int(token)
        chosen = [e for e in chosen if (number(e) < last if descending else number(e) > last)]
    if limit is None or limit >= len(chosen):
        return chosen, None
    return chosen[:limit], str(number(chosen[limit - 1])) if limit else None
