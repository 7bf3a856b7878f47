"""The options of a Spark data source: texts under names in any case, checked as they are taken.

Spark hands every option over as a text. Whoever takes one says what it has to be; a wrong one is
refused with its name, and so is an option that nobody knows.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tiltyard.errors import InvalidInputError
from tiltyard.settings import STORAGE_PREFIX, duration

# What makes a view show other rows or columns than the table has.
PARTIAL = frozenset(
    {
        "as_of",
        "branch",
        "columns",
        "filter",
        "full_text",
        "limit",
        "nearest",
        "tag",
        "version",
        "with_row_address",
        "with_row_id",
    }
)


class Options(Mapping[str, str]):
    """Options by their names in lower case. Picklable; equal options are equal."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._values = {name.lower(): _text(value) for name, value in given.items()}

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Options({', '.join(sorted(self._values))})"  # a value may be a credential

    def text(self, name: str, default: str | None = None) -> str | None:
        value = self._values.get(name.lower())
        if value is None:
            return default
        if not value.strip():
            raise InvalidInputError(f"option {name!r} is empty")
        return value

    def integer(self, name: str, default: int | None = None, *, least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value.strip())
        except ValueError:
            raise _wrong(name, "a whole number", value) from None
        if number < least:
            raise InvalidInputError(f"option {name!r} must be at least {least}, not {number}")
        return number

    def number(self, name: str, default: float | None = None) -> float | None:
        value = self.text(name)
        try:
            return default if value is None else float(value)
        except ValueError:
            raise _wrong(name, "a number", value) from None

    def boolean(self, name: str, default: bool = False) -> bool:
        value = self.text(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word not in ("true", "false"):
            raise _wrong(name, "true or false", value)
        return word == "true"

    def names(self, name: str) -> list[str] | None:
        """Names between commas. A JSON list holds those that contain one."""
        value = self.text(name)
        if value is None:
            return None
        if value.lstrip().startswith("["):
            found = self.json(name)
            if not all(isinstance(each, str) for each in found):
                raise _wrong(name, "a list of names", value)
        else:
            found = [each.strip() for each in value.split(",")]
        if not all(found):
            raise InvalidInputError(f"option {name!r} has an empty name: {value!r}")
        if len(set(found)) < len(found):
            raise InvalidInputError(f"option {name!r} names something twice: {value!r}")
        return list(found)

    def json(self, name: str) -> Any:
        value = self.text(name)
        try:
            return None if value is None else json.loads(value)
        except ValueError as reason:
            raise InvalidInputError(f"option {name!r} is not JSON: {reason}") from None

    def duration(self, name: str, default: float | None = None) -> float | None:
        """Seconds, from a text like "30s"; None for "never"."""
        value = self.text(name)
        return default if value is None else duration(value, name)

    def time(self, name: str) -> datetime | None:
        """A point in time, as ISO 8601; without a zone it is meant in UTC, as on every executor."""
        value = self.text(name)
        if value is None:
            return None
        try:
            when = datetime.fromisoformat(value.strip())
        except ValueError:
            raise _wrong(name, "a time like 2026-05-04T12:00:00Z", value) from None
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Refuse what nobody takes: a misspelt option would silently change what is read."""
        for name in self._values:
            if name in known or (name.startswith(STORAGE_PREFIX) and name != STORAGE_PREFIX):
                continue
            close = difflib.get_close_matches(name, known, n=1)
            hint = (
                f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(known))}"
            )
            raise InvalidInputError(f"unknown option {name!r}", hint=hint)


def refuse_partial_write(options: Options) -> None:
    """Refuse a write through a view that does not show the whole table.

    Spark hands over such a view's own schema, so the rows would come without the other columns.
    """
    partial = sorted(PARTIAL.intersection(options))
    if partial:
        raise InvalidInputError(
            f"a table can't be written through the option {partial[0]!r}",
            hint="write to the table itself, without options that choose what is read",
        )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _wrong(name: str, wanted: str, value: object) -> InvalidInputError:
    return InvalidInputError(f"option {name!r} must be {wanted}, not {value!r}")
