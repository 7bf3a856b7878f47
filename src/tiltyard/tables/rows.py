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
from tiltyard.tables.sql import condition, must_have, whole


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
    # A condition alone asks for the change too: a flag that is off can't be told from none.
    of_updates = condition(asked.when_matched_update_all_filt)
    if asked.when_matched_update_all or of_updates:
        builder = builder.when_matched_update_all(of_updates)
    if asked.when_not_matched_insert_all:
        builder = builder.when_not_matched_insert_all()
    of_deletes = condition(asked.when_not_matched_by_source_delete_filt)
    if asked.when_not_matched_by_source_delete or of_deletes:
        builder = builder.when_not_matched_by_source_delete(of_deletes)
    if "use_index" in asked.model_fields_set and asked.use_index is not None:
        builder = builder.use_index(asked.use_index)
    if asked.timeout is not None:
        seconds = duration(asked.timeout, "timeout")
        if seconds is not None:
            builder = builder.retry_timeout(timedelta(seconds=seconds))
    done = builder.execute(rows)
    return Merged(done["num_inserted_rows"], done["num_updated_rows"], done["num_deleted_rows"])


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
    return dataset.update(updates, where=condition(asked.predicate))["num_rows_updated"]


def delete(dataset: lance.LanceDataset, predicate: str) -> int:
    """Delete the rows that a condition holds for, and return how many they were."""
    return dataset.delete(whole(predicate, "the condition"))["num_deleted_rows"]
