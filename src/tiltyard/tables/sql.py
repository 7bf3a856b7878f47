"""Conditions and expressions in SQL, and the columns that a request names, as Lance takes them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import lance

from tiltyard.errors import InvalidInputError, TableColumnNotFoundError, translate


@contextmanager
def as_asked(doing: str) -> Iterator[None]:
    """What pylance refuses before it does anything is wrong with the request, unless it says more.

    It raises Python's own errors for that, some with their words in pieces.
    """
    try:
        yield
    except (TypeError, KeyError, ValueError, NotImplementedError) as error:
        words = ValueError("".join(str(argument) for argument in error.args))
        raise translate(words, doing, otherwise=InvalidInputError) from error


def whole(text: str, what: str) -> str:
    """A condition or expression of which nothing is left out.

    Lance parses as far as it understands and drops the rest: it would delete by `a = 1` where
    `a = 1 AN b = 2` was asked for. In brackets the rest is a mistake. The line ends before the
    bracket closes, because a comment does not end earlier.
    """
    if not text.strip():
        raise InvalidInputError(f"{what} is empty")
    return f"({text}\n)"


def condition(text: str | None) -> str | None:
    """The same for a condition that may be missing."""
    return None if text is None else whole(text, "the condition")


def must_have(dataset: lance.LanceDataset, path: str) -> str:
    """The field that a request names, by its path as the table writes it. No request.

    TableColumnNotFoundError, with a path that the table has.
    """
    if not path:
        raise InvalidInputError("a column needs a name")
    found: Any = dataset.lance_schema.field_case_insensitive(path)
    known = _paths(dataset)
    if found is not None:
        return known[found.id()]
    close = difflib.get_close_matches(path, known.values(), n=1)
    some = ", ".join(list(known.values())[:20])
    hint = f"did you mean '{close[0]}'?" if close else f"it has {some}"
    raise TableColumnNotFoundError(f"the table has no column '{path}'", hint=hint)


def _paths(dataset: lance.LanceDataset) -> dict[int, str]:
    """The paths of all fields of a table, by the numbers of the fields."""

    def below(field: Any, prefix: str) -> Iterator[tuple[int, str]]:  # LanceField has no types
        path = prefix + _quoted(field.name())
        yield field.id(), path
        for child in field.children():
            yield from below(child, f"{path}.")

    return dict(
        chain.from_iterable(
            below(column_field, "") for column_field in dataset.lance_schema.fields()
        )
    )


def _quoted(name: str) -> str:
    """One part of a path; backticks tell a dot in a name from one between names."""
    return "`" + name.replace("`", "``") + "`" if "." in name or "`" in name else name
