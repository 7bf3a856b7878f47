"""Rows as bytes: taken wherever they lie, and given out as a file."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.behaviours.calls import ipc, ipc_file
from tiltyard.errors import InvalidInputError
from tiltyard.tables.ipc import read_ipc, write_ipc

ROWS = pa.table({"id": [1, 2, 3], "price": pa.array([1, 2, 3], pa.decimal128(10, 2))})


@pytest.mark.parametrize("encode", [ipc, ipc_file])
@pytest.mark.parametrize("shift", range(4))
def test_rows_are_read_wherever_their_bytes_lie(encode: object, shift: int) -> None:
    body = encode(ROWS)  # type: ignore[operator]
    moved = memoryview(b"x" * shift + body)[shift:]
    assert read_ipc(bytes(moved)) == ROWS
    assert read_ipc(moved) == ROWS  # type: ignore[arg-type]


def test_bytes_are_not_copied() -> None:
    numbers = pa.table({"id": pa.array(range(100_000))})
    body = ipc(numbers)
    before = pa.total_allocated_bytes()
    read = read_ipc(body)
    assert pa.total_allocated_bytes() - before < 100_000
    assert read == numbers


def test_rows_are_written_as_a_file() -> None:
    body = write_ipc(ROWS.schema, ROWS.to_batches(max_chunksize=2))
    assert body.startswith(b"ARROW1")
    assert read_ipc(body) == ROWS
    assert read_ipc(write_ipc(ROWS.schema, [])).schema == ROWS.schema


@pytest.mark.parametrize("end", [1, 40, 200, -60, -1])
def test_bytes_that_are_cut_off_are_refused(end: int) -> None:
    for body in (ipc_file(ROWS), ipc(ROWS) if end != -1 else b"x"):
        with pytest.raises(InvalidInputError):
            read_ipc(body[:end])
