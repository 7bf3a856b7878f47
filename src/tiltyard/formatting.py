"""Numbers, sizes, ages and values as people say them. Nothing here is exact."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_LONGEST_TEXT = 48
_LONGEST_LIST = 3
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")
_SPANS = (
    ("year", 31_557_600),
    ("month", 2_629_800),
    ("day", 86_400),
    ("hour", 3_600),
    ("minute", 60),
)


def plain(value: Any) -> str:
    """A value on one line, with nothing in it that a terminal would obey."""
    return "".join(
        each if _is_printable(each) else "\N{REPLACEMENT CHARACTER}" for each in str(value)
    )


def _is_printable(character: str) -> bool:
    # Other format characters join emoji and letters; these make one name look like another.
    if character in _DIRECTIONS:
        return False
    return unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")


def number(value: int) -> str:
    """12345 as 12,345."""
    return f"{value:,}"


def counted(value: int, noun: str) -> str:
    """1 row, 12,345 rows."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def size(value: int) -> str:
    """The size of something: 342 bytes, 1.2 MB."""
    amount = float(value)
    for unit in _UNITS:
        if amount < 999.5 or unit == _UNITS[-1]:
            break
        amount /= 1000
    if unit == "bytes":
        return counted(value, "byte")
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def age(moment: datetime, now: datetime | None = None) -> str:
    """How long ago something was: just now, 5 minutes ago."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    for noun, span in _SPANS:
        if seconds >= span:
            return counted(int(seconds // span), noun) + " ago"
    return "just now" if seconds > -60 else "in the future"


def until(moment: datetime, now: datetime | None = None) -> str:
    """How far off something is: in 7 days, in a moment; or that it is over."""
    seconds = (moment - (now or datetime.now(UTC))).total_seconds()
    for noun, span in _SPANS:
        if seconds >= 0.95 * span:  # a week from a moment ago is still a week
            return "in " + counted(round(seconds / span), noun)
    return "in a moment" if seconds > 0 else "expired"


def listed(names: Sequence[str], most: int = 5) -> str:
    """a, b, c; of many the first ones and how many more."""
    if len(names) <= most + 1:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {number(len(names) - most)} more"


def yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def value(value: Any) -> str:
    """A cell of a table: long texts are cut, long vectors show a few numbers and their length."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        return f"<{counted(len(value), 'byte')}>"
    if isinstance(value, list):
        return _items(value)
    if isinstance(value, Mapping):
        return _cut("{" + ", ".join(f"{plain(k)}: {_cell(v)}" for k, v in value.items()) + "}")
    return _cut(plain(value))


def _cell(each: Any) -> str:
    if isinstance(each, float):
        return f"{each:.3g}"
    return "null" if each is None else value(each)


def _items(values: list[Any]) -> str:
    shown = ", ".join(map(_cell, values[:_LONGEST_LIST]))
    if len(values) <= _LONGEST_LIST:
        return f"[{shown}]"
    return f"[{shown}, \N{HORIZONTAL ELLIPSIS}] ({len(values):,})"


def _cut(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return text
    return text[: _LONGEST_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}"


def type_name(kind: Any) -> str:
    """A column's type, from the JSON form of the specification: int64, float32[8], list<utf8>."""
    inside = [(field.name, type_name(field.type)) for field in kind.fields or ()]
    if kind.type == "fixed_size_list" and inside:
        return f"{inside[0][1]}[{kind.length}]"
    if kind.type in ("list", "large_list") and inside:
        return f"{kind.type}<{inside[0][1]}>"
    if kind.type == "map" and inside:
        return inside[0][1].replace("struct", "map", 1)
    if inside:
        return f"{kind.type}<{', '.join(f'{name}: {each}' for name, each in inside)}>"
    if kind.type == "fixed_size_binary":
        return f"binary[{kind.length}]"
    if kind.type.startswith("decimal") and kind.length:
        precision, scale = divmod(kind.length, 1000)  # packed as in pylance
        return f"{kind.type}({precision}, {scale})"
    return str(kind.type)
