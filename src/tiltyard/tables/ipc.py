"""Rows as they arrive over the namespace interface: Arrow IPC bytes."""

from __future__ import annotations

import pyarrow as pa

from tiltyard.errors import InvalidInputError

# Lance takes buffers as they are and panics over a decimal that is not aligned; the bytes of a
# request may lie anywhere.
_ALIGNED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)


def read_ipc(data: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream or file."""
    if not data:
        raise InvalidInputError(
            "no data was given", hint="pass an Arrow IPC stream; an empty one carries the schema"
        )
    try:
        source = pa.BufferReader(data)
        if data[:6] == b"ARROW1":
            return pa.ipc.open_file(source, options=_ALIGNED).read_all()
        return pa.ipc.open_stream(source, options=_ALIGNED).read_all()
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InvalidInputError(f"the data is not an Arrow IPC stream: {error}") from error


def check_schema(schema: pa.Schema) -> None:
    """Refuse what Lance accepts and then can't read."""
    if not schema.names:
        raise InvalidInputError("a table needs at least one column")
    if "" in schema.names:
        raise InvalidInputError("a column needs a name")
    if len(set(schema.names)) < len(schema.names):
        raise InvalidInputError("two columns can't have the same name")
