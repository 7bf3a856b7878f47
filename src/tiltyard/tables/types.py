"""Types of columns in the JSON form of the namespace specification, read back into Arrow's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tiltyard.errors import InvalidInputError

_PLAIN = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "boolean": pa.bool_(),
    "utf8": pa.string(),
    "string": pa.string(),
    "large_utf8": pa.large_string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    # The form has no place for a unit; these are Lance's own.
    "timestamp": pa.timestamp("us"),
    "time32": pa.time32("ms"),
    "time64": pa.time64("us"),
    "duration": pa.duration("us"),
    **{
        str(kind): kind
        for kind in (
            *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
            *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        )
    },
}


def from_json(asked: Mapping[str, Any]) -> pa.DataType:
    """The type that `{"type": ...}` means; `timestamp[ms]` and the like have their unit."""
    name = asked.get("type")
    if not isinstance(name, str):
        raise InvalidInputError(f"{dict(asked)!r} is not a type", hint='like {"type": "int64"}')
    lowered = name.lower()
    length, fields = asked.get("length"), asked.get("fields") or []
    unknown = set(asked) - {"type", "length", "fields"}
    if unknown:
        raise InvalidInputError(f"a type has no {min(unknown)!r}")
    if lowered in _PLAIN:
        return _PLAIN[lowered]
    if lowered.startswith("decimal") and length is not None:
        # As pylance packs them: one number for precision and scale.
        make = pa.decimal256 if lowered == "decimal256" else pa.decimal128
        return _made(name, lambda: make(*divmod(int(length), 1000)))
    if lowered == "fixed_size_binary" and length is not None:
        return _made(name, lambda: pa.binary(int(length)))
    if lowered == "struct" and fields:
        return pa.struct([_field(each) for each in fields])
    if lowered in ("list", "large_list", "fixed_size_list") and len(fields) == 1:
        item = _field(fields[0])
        if lowered == "list":
            return pa.list_(item)
        if lowered == "large_list":
            return pa.large_list(item)
        if length is not None:
            return _made(name, lambda: pa.list_(item, int(length)))
    return _made(name, lambda: pa.type_for_alias(name))


def _field(asked: Any) -> pa.Field:
    if not isinstance(asked, Mapping) or not asked.get("name") or "type" not in asked:
        raise InvalidInputError(f"{asked!r} is not a field", hint="it has a name and a type")
    return pa.field(asked["name"], from_json(asked["type"]), asked.get("nullable", True))


def _made(name: str, make: Any) -> pa.DataType:
    try:
        return make()
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise InvalidInputError(f"{name!r} is not a type that a column can have") from error
