"""Values in the query of the protocol's operations: which are flags, numbers, lists or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tiltyard.errors import InvalidInputError

_Reading = Callable[[str, Sequence[str]], Any]


def _text(_: str, values: Sequence[str]) -> Any:
    return values[-1]


def _flag(name: str, values: Sequence[str]) -> Any:
    text = values[-1].lower()
    if text in ("true", "false"):
        return text == "true"
    raise InvalidInputError(f"{name} is true or false, not {values[-1]!r}")


def _number(name: str, values: Sequence[str]) -> Any:
    try:
        return int(values[-1])
    except ValueError:
        raise InvalidInputError(f"{name} is a whole number, not {values[-1]!r}") from None


def _list(_: str, values: Sequence[str]) -> Any:
    return list(values)


def _mapping(name: str, values: Sequence[str]) -> Any:
    try:
        return json.loads(values[-1])
    except (ValueError, RecursionError):
        raise InvalidInputError(f"{name} is a JSON object") from None


# Those that are not here are texts.
_READINGS: dict[str, _Reading] = {
    "limit": _number,
    "on": _list,
    "properties": _mapping,
    "storage_options": _mapping,
    **dict.fromkeys(
        (
            "check_declared",
            "descending",
            "include_declared",
            "load_detailed_metadata",
            "use_index",
            "when_matched_update_all",
            "when_not_matched_by_source_delete",
            "when_not_matched_insert_all",
            "with_table_uri",
        ),
        _flag,
    ),
}
_TEXT = {"type": "string"}
_SCHEMAS: dict[_Reading, dict[str, Any]] = {
    _flag: {"type": "boolean"},
    _number: {"type": "integer"},
    _list: {"type": "array", "items": _TEXT},
}


def read(name: str, values: Sequence[str]) -> Any:
    """The value of a parameter. InvalidInputError."""
    return _READINGS.get(name, _text)(name, values)


def schema_of(name: str) -> dict[str, Any]:
    """The parameter as OpenAPI has it."""
    return _SCHEMAS.get(_READINGS.get(name, _text), _TEXT)
