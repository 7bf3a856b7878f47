"""Reading one table for the command line: its rows, and all that can be said about it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.call import Call

if TYPE_CHECKING:
    import lance
    import pyarrow as pa
    from lance_namespace import DescribeTableResponse


def count_rows(call: Call, identifier: Sequence[str]) -> int:
    """How many rows the latest version has."""
    return _opened(call, identifier).count_rows()


def first_rows(call: Call, identifier: Sequence[str], limit: int) -> pa.Table:
    """The first rows of the latest version."""
    return _opened(call, identifier).to_table(limit=limit)


def everything_about(call: Call, identifier: Sequence[str]) -> dict[str, Any]:
    """One record: what the catalog answers, and what the table's own files tell."""
    from tiltyard.tables import schema

    answer = _described(call, identifier)
    found: dict[str, Any] = {
        "table": arguments.shown_id(identifier),
        "location": answer.location,
        "declared_only": bool(answer.is_only_declared),
        "properties": answer.properties or {},
    }
    if answer.is_only_declared:
        return found
    dataset = call.catalog.open_table(identifier)
    latest: Any = dataset.get_version()
    modified: datetime = latest["timestamp"]
    return found | {
        "version": dataset.version,
        "rows": dataset.count_rows(),
        "fragments": int(latest["metadata"]["total_fragments"]),
        "bytes": int(latest["metadata"]["total_files_size"]),
        "modified": modified.astimezone(UTC),
        "columns": [
            {
                "column": column.name,
                "type": formatting.type_name(column.type),
                "null": column.nullable,
            }
            for column in schema.to_json(dataset.schema).fields
        ],
    }


def _described(call: Call, identifier: Sequence[str]) -> DescribeTableResponse:
    from lance_namespace import DescribeTableRequest

    return call.catalog.describe_table(
        DescribeTableRequest(id=list(identifier), check_declared=True)
    )


def _opened(call: Call, identifier: Sequence[str]) -> lance.LanceDataset:
    from tiltyard.errors import TableVersionNotFoundError

    if _described(call, identifier).is_only_declared:
        shown = arguments.shown_id(identifier)
        raise TableVersionNotFoundError(
            f"table '{shown}' is declared and holds no data yet",
            hint=f"tiltyard table create {shown} FILE writes its first version",
        )
    return call.catalog.open_table(identifier)
