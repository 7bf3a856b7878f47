"""Rows as files of a format that others read: Parquet, CSV, lines of JSON, Arrow."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tiltyard.errors import TableSchemaValidationError
from tiltyard.spark.jobs.sources import Format

Batches = Iterable[pa.RecordBatch]


def write(format: Format, file: BinaryIO, schema: pa.Schema, batches: Batches) -> int:
    """Write rows into an open file, and return how many they were."""
    counted = _Counted(batches)
    try:
        _WRITERS[format](file, schema, counted)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise TableSchemaValidationError(
            f"{format} can't hold these columns: {error}", hint="parquet and arrow hold all of them"
        ) from error
    return counted.rows


class _Counted:
    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Any:
        for batch in self._batches:
            self.rows += batch.num_rows
            yield batch


def _parquet(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    with pq.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _csv(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    with pa.csv.CSVWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _arrow(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    with pa.ipc.new_file(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _json(file: BinaryIO, schema: pa.Schema, batches: Batches) -> None:
    for batch in batches:
        file.writelines(
            json.dumps(row, default=_plain, ensure_ascii=False).encode() + b"\n"
            for row in batch.to_pylist()
        )


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return str(value)
    return str(value)


_WRITERS: dict[Format, Callable[[BinaryIO, pa.Schema, Batches], None]] = {
    Format.PARQUET: _parquet,
    Format.CSV: _csv,
    Format.JSON: _json,
    Format.ARROW: _arrow,
}
