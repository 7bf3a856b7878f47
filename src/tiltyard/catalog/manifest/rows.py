"""Rows of the `__manifest` table: their schema and their codec, the same as pylance's own.

A row names a namespace or a table. What Lance's own clients do not know lives in the `metadata`
of a row, under keys that start with "tiltyard.".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiltyard import names
from tiltyard.errors import InvalidInputError, InvalidTableStateError

DIRECTORY = "__manifest"
NAMESPACE = "namespace"
TABLE = "table"

OURS = "tiltyard."
CREATED_AT = OURS + "created_at_ms"
MOVED = OURS + "moved"
PROTECTED = OURS + "protected"

# What the row of a dropped table tells besides.
STATE = OURS + "state"
DELETED_AT = OURS + "deleted_at_ms"
TTL = OURS + "ttl_ms"
DROPPED_BY = OURS + "dropped_by"
REASON = OURS + "reason"
VERSION = OURS + "version_at_drop"
HOLD = OURS + "hold"
ABOUT_THE_DROP = (STATE, DELETED_AT, TTL, DROPPED_BY, REASON, VERSION, HOLD)

DELETED = "deleted"
PURGING = "purging"

SCHEMA = pa.schema(
    [
        pa.field(
            "object_id",
            pa.string(),
            nullable=False,
            metadata={"lance-schema:unenforced-primary-key:position": "0"},
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)

OUR_COLUMNS = ("object_id", "object_type", "location", "metadata")


@dataclass(frozen=True, slots=True)
class Row:
    """One namespace or table, as the manifest keeps it; `others` are columns that are not ours."""

    object_id: str
    object_type: str
    location: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> tuple[str, ...]:
        return names.split_object_id(self.object_id)

    @property
    def is_table(self) -> bool:
        return self.object_type == TABLE

    @property
    def properties(self) -> dict[str, str]:
        """What the user keeps with the object: everything but our own keys."""
        return {key: value for key, value in self.metadata.items() if not key.startswith(OURS)}


def encode_metadata(metadata: Mapping[str, str]) -> str | None:
    return json.dumps(metadata, separators=(",", ":"), ensure_ascii=False) if metadata else None


def decode_metadata(text: str | None, object_id: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        decoded = json.loads(text)
        return {str(key): str(value) for key, value in decoded.items()}
    except (ValueError, AttributeError) as error:
        raise InvalidTableStateError(
            f"the manifest's metadata of '{object_id}' is not a JSON object: {error}"
        ) from error


def check_properties(properties: Mapping[str, str]) -> None:
    """Keep users out of our own keys."""
    for key in properties:
        if key.startswith(OURS):
            raise InvalidInputError(f"property {key!r} is reserved: keys can't start with {OURS!r}")


def to_arrow(rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows in the table's own schema, with the columns that others added."""
    listed = list(rows)
    known = {
        "object_id": [row.object_id for row in listed],
        "object_type": [row.object_type for row in listed],
        "location": [row.location for row in listed],
        "metadata": [encode_metadata(row.metadata) for row in listed],
    }
    columns = [
        pa.array(known.get(each.name) or [row.others.get(each.name) for row in listed], each.type)
        for each in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
