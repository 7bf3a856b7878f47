"""Changes of rows, each one commit: insert, merge, update, delete.

The dataset comes open for changes; what it says after a change is the version that was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import lance
import lance_namespace as api
import pyarrow as pa

from tiltyard.errors import InvalidInputError, TableSchemaValidationError
from tiltyard.settings import duration
from tiltyard.tables.ipc import check_schema
from tiltyard.tables.sql import must_have, whole


@dataclass(frozen=True, slots=True)
class Merged:
    """How many rows a merge touched."""

    inserted: int
    updated: int
    deleted: int


def insert(dataset: lance.LanceDataset, rows: pa.Table, *, overwrite: bool) -> None:
    """Add rows, or put them in the place of everything that is there, schema and all."""
    check_schema(rows.schema)
    dataset.insert(rows, mode="overwrite" if overwrite else "append")


def merge(
    dataset: lance.LanceDataset, rows: pa.Table, asked: api.MergeInsertIntoTableRequest
) -> Merged:
    """Match rows with those of the table by their keys, and do with each what is asked."""
    check_schema(rows.schema)
    for key in asked.on or ():
        must_have(dataset, key)
        if "." not in key and key not in rows.schema.names:
            raise TableSchemaValidationError(f"the data has no column '{key}' to match rows by")
    builder = dataset.merge_insert(asked.on or None)
    if _wanted(asked.when_matched_update_all, asked.when_matched_update_all_filt, "update_all"):
        builder = builder.when_matched_update_all(_part(asked.when_matched_update_all_filt))
    if asked.when_not_matched_insert_all:
        builder = builder.when_not_matched_insert_all()
    delete, which = (
        asked.when_not_matched_by_source_delete,
        asked.when_not_matched_by_source_delete_filt,
    )
    if _wanted(delete, which, "by_source_delete"):
        builder = builder.when_not_matched_by_source_delete(_part(which))
    if asked.use_index is not None:
        builder = builder.use_index(asked.use_index)
    if asked.timeout is not None:
        seconds = duration(asked.timeout, "timeout")
        if seconds is not None:
            builder = builder.retry_timeout(timedelta(seconds=seconds))
    done = builder.execute(rows)
    return Merged(done["num_inserted_rows"], done["num_updated_rows"], done["num_deleted_rows"])


def _wanted(flag: bool | None, which: str | None, name: str) -> bool:
    """A condition alone asks for the change too; with a plain no it makes no sense."""
    if which is not None and flag is False:
        raise InvalidInputError(f"{name} is off, and a condition for it is given")
    return bool(flag) or which is not None


def _part(which: str | None) -> str | None:
    return None if which is None else whole(which, "the condition")


def update(dataset: lance.LanceDataset, asked: api.UpdateTableRequest) -> int:
    """Set columns to the values of expressions, and return in how many rows."""
    updates: dict[str, str] = {}
    for column, expression in asked.updates:
        must_have(dataset, column)
        if column in updates:
            raise InvalidInputError(f"column '{column}' is set twice")
        updates[column] = whole(expression, f"the expression for column '{column}'")
    if not updates:
        raise InvalidInputError("no column is given to set")
    where = None if asked.predicate is None else whole(asked.predicate, "the condition")
    return dataset.update(updates, where=where)["num_rows_updated"]


def delete(dataset: lance.LanceDataset, predicate: str) -> int:
    """Delete the rows that a condition holds for, and return how many they were."""
    return dataset.delete(whole(predicate, "the condition"))["num_deleted_rows"]
