"""Rows as they cross the namespace interface: Arrow IPC bytes.

Streams and files are taken; files are given out, as Lance's own clients do and expect.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import BinaryIO

import pyarrow as pa

from tiltyard.errors import InvalidInputError

# Lance takes buffers as they are and panics over a decimal that is not aligned; the bytes of a
# request may lie anywhere. To align everything is to copy everything, so the rest stays put.
_ALIGNED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)
_AS_TYPED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)


def read_ipc(data: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream or file. The bytes are not copied, unless they lie badly."""
    if not data:
        raise InvalidInputError(
            "no data was given", hint="pass an Arrow IPC stream; an empty one carries the schema"
        )
    source = pa.py_buffer(data)
    opened = pa.ipc.open_file if data[:6] == b"ARROW1" else pa.ipc.open_stream
    try:
        schema = opened(source).schema
        _must_be_text(schema)
        options = _ALIGNED if any(map(_has_decimal, schema.types)) else _AS_TYPED
        rows = opened(source, options=options).read_all()
        rows.validate(full=True)  # an offset that points elsewhere would be followed
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InvalidInputError(f"the data is not an Arrow IPC stream: {error}") from error
    return rows


def write_ipc(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> bytes:
    """Batches as an Arrow IPC file, each encoded as it comes."""
    sink = io.BytesIO()
    write_ipc_to(sink, schema, batches)
    return sink.getvalue()


def write_ipc_to(sink: BinaryIO, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """The same into a file that is open."""
    with pa.ipc.new_file(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _must_be_text(schema: pa.Schema) -> None:
    """Names are decoded when they are asked for. UnicodeDecodeError."""
    repr(schema.names)
    str(schema)


def _has_decimal(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_decimal(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _has_decimal(kind.value_type)
    if pa.types.is_decimal(kind):
        return True
    return any(_has_decimal(kind.field(at).type) for at in range(kind.num_fields))


def check_schema(schema: pa.Schema) -> None:
    """Refuse what Lance accepts and then can't read."""
    if not schema.names:
        raise InvalidInputError("a table needs at least one column")
    if "" in schema.names:
        raise InvalidInputError("a column needs a name")
    if len(set(schema.names)) < len(schema.names):
        raise InvalidInputError("two columns can't have the same name")
