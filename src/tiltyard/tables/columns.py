"""Changes of a table's columns and of what is noted about them, each one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import lance
from lance_namespace_urllib3_client.models.add_columns_entry import AddColumnsEntry
from lance_namespace_urllib3_client.models.alter_columns_entry import AlterColumnsEntry
from lance_namespace_urllib3_client.models.update_field_metadata_entry import (
    UpdateFieldMetadataEntry,
)

from tiltyard.errors import InvalidInputError, UnsupportedOperationError
from tiltyard.tables.schema import type_from_json
from tiltyard.tables.sql import must_have, whole

NO_FUNCTIONS = "a directory runs no functions, so nobody would ever fill such a column"


def add(dataset: lance.LanceDataset, new: Sequence[AddColumnsEntry]) -> None:
    """Add columns whose values are computed once, from those that are there."""
    expressions: dict[str, str] = {}
    for column in new:
        _refuse_functions(column, "virtual_column", "computed")
        if not column.name:
            raise InvalidInputError("a column needs a name")
        if column.expression is None:
            raise InvalidInputError(f"column '{column.name}' has no expression")
        if column.name in expressions:
            raise InvalidInputError(f"column '{column.name}' is added twice")
        what = f"the expression for column '{column.name}'"
        expressions[column.name] = whole(column.expression, what)
    if not expressions:
        raise InvalidInputError("no column is given to add")
    dataset.add_columns(expressions)


def alter(dataset: lance.LanceDataset, alterations: Sequence[AlterColumnsEntry]) -> None:
    """Rename columns, change their types and whether they may be null."""
    wanted = [_alteration(dataset, alteration) for alteration in alterations]
    if not wanted:
        raise InvalidInputError("no column is given to alter")
    if len({alteration["path"] for alteration in wanted}) < len(wanted):
        raise InvalidInputError("a column is altered twice")
    dataset.alter_columns(*wanted)


def _alteration(dataset: lance.LanceDataset, asked: AlterColumnsEntry) -> Any:
    _refuse_functions(asked, "virtual_column")
    path = must_have(dataset, asked.path)
    if asked.rename == "":
        raise InvalidInputError("a column needs a name")
    wanted: dict[str, Any] = {
        "name": asked.rename,
        "nullable": asked.nullable,
        "data_type": None if asked.data_type is None else type_from_json(asked.data_type),
    }
    given = {name: value for name, value in wanted.items() if value is not None}
    if not given:
        raise InvalidInputError(
            f"it is not said what to alter of column '{asked.path}'",
            hint="give rename, data_type or nullable",
        )
    return {"path": path, **given}


def drop(dataset: lance.LanceDataset, columns: Sequence[str]) -> None:
    """Take columns out of the table; older versions keep them."""
    for column in columns:
        must_have(dataset, column)
    if not columns:
        raise InvalidInputError("no column is given to drop")
    dataset.drop_columns(list(columns))


def note(dataset: lance.LanceDataset, metadata: dict[str, str]) -> dict[str, str]:
    """Set keys of the schema's metadata, keep the others, and return all of them."""
    if not metadata:
        raise InvalidInputError("no metadata is given to set")
    return dataset.update_schema_metadata(dict(metadata))


def note_fields(
    dataset: lance.LanceDataset, updates: Sequence[UpdateFieldMetadataEntry]
) -> dict[str, dict[str, str]]:
    """Set, replace or delete the metadata of fields, and return what each of them has then."""
    wanted: dict[str, UpdateFieldMetadataEntry] = {}
    for update in updates:
        path = must_have(dataset, update.path)
        if path in wanted:
            raise InvalidInputError(f"column '{path}' is named twice")
        wanted[path] = update
    if not wanted:
        raise InvalidInputError("no column is given")
    # One commit either replaces or adds, so a mixture replaces by what it comes to.
    replaces = any(update.replace for update in wanted.values())
    dataset.update_field_metadata(
        {
            path: _outcome(dataset, path, update) if replaces else dict(update.metadata)
            for path, update in wanted.items()
        },
        replace=replaces,
    )
    return {path: _metadata(dataset, path) for path in wanted}


def _outcome(
    dataset: lance.LanceDataset, path: str, asked: UpdateFieldMetadataEntry
) -> dict[str, str | None]:
    present = {} if asked.replace else _metadata(dataset, path)
    following: dict[str, str | None] = {**present, **asked.metadata}
    return {key: value for key, value in following.items() if value is not None}


def _metadata(dataset: lance.LanceDataset, path: str) -> dict[str, str]:
    field: Any = dataset.lance_schema.field_case_insensitive(path)
    return {_text(key): _text(value) for key, value in (field.metadata or {}).items()}


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _refuse_functions(asked: AddColumnsEntry | AlterColumnsEntry, *names: str) -> None:
    for name in names:
        if getattr(asked, name) is not None:
            raise UnsupportedOperationError(
                f"{name} is not supported: {NO_FUNCTIONS}", hint="give an expression instead"
            )
