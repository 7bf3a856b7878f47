"""What source files of each format hold, before it is anybody's row: their columns, their batches,
their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from tiltyard.errors import InvalidInputError
from tiltyard.spark.jobs.sources import Format, SourceFile

BYTES_PER_BLOCK = 8 * 1024 * 1024
REFUSALS = (pa.ArrowException, OSError, ValueError, UnicodeError)


def schema_of(
    file: SourceFile, storage: Mapping[str, str], columns: Mapping[str, str], delimiter: str
) -> pa.Schema:
    """The columns that a new table gets from a file; of CSV and JSON from its first block."""
    try:
        with file.open(storage) as opened:
            if file.format is Format.PARQUET:
                found = pq.ParquetFile(opened).schema_arrow
            elif file.format is Format.ARROW:
                found = next(iter(ipc_batches(opened))).schema
            elif file.format is Format.CSV:
                parse = pa.csv.ParseOptions(delimiter=delimiter)
                found = pa.csv.open_csv(opened, parse_options=parse).schema
            else:
                lines = next(blocks(opened), [])
                found = pa.json.read_json(pa.BufferReader(b"".join(lines))).schema
    except (*REFUSALS, StopIteration) as error:
        raise unreadable(file, error) from error
    return pa.schema(
        [pa.field(columns.get(each.name, each.name), _kept(each.type)) for each in found]
    )


def _kept(kind: pa.DataType) -> pa.DataType:
    """A column without a value so far may get texts."""
    return pa.string() if pa.types.is_null(kind) else kind


def csv_names(file: SourceFile, storage: Mapping[str, str], delimiter: str) -> list[str]:
    """The names in the first line."""
    with file.open(storage) as opened:
        parse = pa.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda row: "skip")
        return list(pa.csv.open_csv(opened, parse_options=parse).schema.names)


def ipc_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow file or stream."""
    start = file.read(6)
    file.seek(0)
    if start == b"ARROW1":
        reader = pa.ipc.open_file(file)
        yield from (reader.get_batch(at) for at in range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(file)


def blocks(file: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a file that are not empty, some megabytes of them at a time."""
    rest = b""
    while block := file.read(BYTES_PER_BLOCK):
        head, newline, rest = (rest + block).rpartition(b"\n")
        if newline:
            yield _lines(head)
    if rest.strip():
        yield _lines(rest)


def _lines(text: bytes) -> list[bytes]:
    return [line + b"\n" for line in text.split(b"\n") if line.strip()]


def in_json(kind: pa.DataType) -> pa.DataType:
    """The nearest type that Arrow's JSON reader knows."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return in_json(kind.value_type)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(in_json(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, in_json(each.type)) for each in kind.fields])
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def unreadable(file: SourceFile, error: Exception) -> InvalidInputError:
    """An error of Arrow about a file, as ours."""
    if isinstance(error, InvalidInputError):
        return error
    return InvalidInputError(f"{file.path} can't be read as {file.format}: {short(error)}")


def short(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0]
