"""Rows of the `__manifest` table: their schema and their codec, the same as pylance's own.

A row is a namespace, a table or, where versions are managed, a version of a table. What Lance's own
clients do not know is in the `metadata` of a row, under keys that start with "tiltyard.".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tiltyard.catalog import names
from tiltyard.catalog.names import DELIMITER, TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError, InvalidTableStateError

DIRECTORY = "__manifest"
NAMESPACE = "namespace"
TABLE = "table"
TABLE_VERSION = "table_version"

OURS = "tiltyard."
CREATED_AT = OURS + "created_at_ms"
MOVED = OURS + "moved"
PROTECTED = OURS + "protected"

# Keys of a table whose versions are rows, or are becoming rows: that is noted before its versions
# are listed, so that no writer trusts the directory. Numbers up to the boundary may be gone.
VERSIONS = OURS + "versions"
ARRIVING = "arriving"
MANAGED = "rows"
BOUNDARY = OURS + "boundary"

# Keys of a version: the specification's, and ours.
MANIFEST_PATH = "manifest_path"
MANIFEST_SIZE = "manifest_size"
TIMESTAMP = "timestamp_millis"
STAGED = OURS + "staged"
TRANSACTION = OURS + "transaction"
HIDDEN_AT = OURS + "hidden_at_ms"
HIDDEN_BECAUSE = OURS + "hidden_because"
NAMED = OURS + "named"

# Keys of a dropped table.
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
    """One namespace, table or version, as the manifest keeps it; `others` are foreign columns."""

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
    def is_version(self) -> bool:
        return self.object_type == TABLE_VERSION

    @property
    def is_managed(self) -> bool:
        """Whether a table's versions are rows, or are about to be."""
        return VERSIONS in self.metadata

    @property
    def has_version_rows(self) -> bool:
        """Whether all versions of a table are rows."""
        return self.is_table and self.metadata.get(VERSIONS) == MANAGED

    @property
    def is_index(self) -> bool:
        """Whether a table's row only repeats what its directory `<name>.lance` and marker say."""
        is_v1 = self.location == names.table_directory(self.object_id)
        return self.is_table and is_v1 and MOVED not in self.metadata

    @property
    def identity(self) -> RowIdentity:
        return RowIdentity(self.object_id, self.location, self.metadata.get(MOVED))

    @property
    def properties(self) -> dict[str, str]:
        """What the user keeps with the object: everything but our own keys."""
        return {key: value for key, value in self.metadata.items() if not key.startswith(OURS)}

    @property
    def boundary(self) -> int:
        """The highest version number that the row of a table has given up, 0 for none."""
        return int(self.metadata.get(BOUNDARY, "0"))

    # -- rows of versions: `<table id>$<number>`

    @classmethod
    def of_version(cls, table: str, file: VersionFile, **metadata: str) -> Row:
        """The row of a version of the table with this id."""
        about = {MANIFEST_PATH: file.key, MANIFEST_SIZE: str(file.size)}
        if file.modified_ms is not None:
            about[TIMESTAMP] = str(file.modified_ms)
        object_id = f"{table}{DELIMITER}{file.version}"
        return cls(object_id, TABLE_VERSION, None, {**about, **metadata})

    @property
    def version(self) -> int:
        """The number of the version."""
        return int(self.object_id.rpartition(DELIMITER)[2])

    @property
    def table(self) -> str:
        """The id of the table that the version belongs to."""
        return self.object_id.rpartition(DELIMITER)[0]

    @property
    def file(self) -> VersionFile:
        """The version's manifest file."""
        size, modified = self.metadata.get(MANIFEST_SIZE), self.metadata.get(TIMESTAMP)
        return VersionFile(
            self.version,
            self.metadata[MANIFEST_PATH],
            int(size) if size else 0,
            int(modified) if modified else None,
        )

    @property
    def is_hidden(self) -> bool:
        """Whether readers are kept from the version."""
        return HIDDEN_AT in self.metadata


@dataclass(frozen=True, slots=True)
class RowIdentity:
    """Which row is meant: its id, its location, and the nonce of the rename that made it."""

    object_id: str
    location: str | None
    moved: str | None = None


def trash_id(table: TableId, generation: str) -> str:
    """The id of the row of a dropped table."""
    return names.object_id((names.TRASH, generation, *table))


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
        pa.array(
            known.get(column.name) or [row.others.get(column.name) for row in listed], column.type
        )
        for column in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
