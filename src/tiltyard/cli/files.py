"""Data files as Arrow tables: Parquet, CSV, JSON Lines and Arrow IPC, told apart by suffix."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tiltyard.cli.failures import UsageError

if TYPE_CHECKING:
    import pyarrow as pa


class FileFormat(StrEnum):
    """What a data file is written in."""

    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    ARROW = "arrow"


_BY_SUFFIX = {
    ".parquet": FileFormat.PARQUET,
    ".pq": FileFormat.PARQUET,
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSONL,
    ".ndjson": FileFormat.JSONL,
    ".json": FileFormat.JSONL,
    ".arrow": FileFormat.ARROW,
    ".arrows": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
    ".ipc": FileFormat.ARROW,
}


def read(path: Path, format: FileFormat | None) -> pa.Table:
    """All rows of a file, in memory."""
    import pyarrow as pa

    chosen = format or _BY_SUFFIX.get(path.suffix.lower())
    if chosen is None:
        raise UsageError(
            f"the name of {path} does not tell what is in it",
            f"pass --format {'|'.join(FileFormat)}",
        )
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        return _READERS[chosen](path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UsageError(
            f"could not read {path} as {chosen.value}: {_reason(error)}",
            "check the file, or pass --format",
        ) from error


def as_ipc(table: pa.Table) -> bytes:
    """The rows as the Arrow IPC stream that the namespace interface takes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    taken: bytes = sink.getvalue().to_pybytes()
    return taken


def _parquet(path: Path) -> pa.Table:
    from pyarrow import parquet

    return parquet.ParquetFile(path).read()


def _csv(path: Path) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(path)


def _json_lines(path: Path) -> pa.Table:
    from pyarrow import json

    return json.read_json(path)


def _arrow(path: Path) -> pa.Table:
    import pyarrow as pa

    with path.open("rb") as file:
        is_file = file.read(6) == b"ARROW1"  # the other form is a stream
    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
        return reader.read_all()


_READERS: dict[FileFormat, Callable[[Path], pa.Table]] = {
    FileFormat.PARQUET: _parquet,
    FileFormat.CSV: _csv,
    FileFormat.JSONL: _json_lines,
    FileFormat.ARROW: _arrow,
}


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.partition(". Detail:")[0]
    return str(error)
