"""One piece of a load, as an executor does it: some source files into data files of one table.

Nothing counts until the driver commits it. A file that can't be read is left out as a whole, and
the others go on; bad records go into data files of the reject table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from tiltyard import names
from tiltyard.errors import TiltyardError
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.columns import Columns
from tiltyard.spark.jobs.records import Mapped, Records, Reject
from tiltyard.spark.jobs.sources import SourceFile
from tiltyard.spark.target import Target
from tiltyard.spark.write import as_stored, write_files
from tiltyard.tables.fragments import DEFAULT_LIMITS

# Up to here a file is read before any of it is written; should it be bad, nothing is done twice.
SMALL = 16 * 1024 * 1024

REJECTS = pa.schema(
    [
        pa.field("table", pa.string()),
        pa.field("source", pa.string()),
        pa.field("number", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("record", pa.string()),
        pa.field("rejected_at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Piece:
    """Files that one task loads. Of those in `rejected` the bad records are in the reject table
    already; without `rejects` there is no such table."""

    pending: PendingWrite
    files: tuple[SourceFile, ...]
    mapped: Mapped
    storage: Mapping[str, str]
    rejects: TableId | None
    rejected: frozenset[str]
    now: datetime

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


@dataclass(frozen=True)
class FileRead:
    """What became of one file."""

    path: str
    rows: int = 0
    rejected: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Written:
    """What one task wrote: data files of the table, and of the reject table."""

    files: tuple[FileRead, ...]
    fragments: tuple[str, ...] = ()
    rejects: PendingWrite | None = None
    reject_fragments: tuple[str, ...] = ()


def write(catalog: DirectoryNamespace, piece: Piece) -> Written:
    """On an executor: read files and write their rows. Runs again if a file breaks off, without
    that file: Lance has removed what was written then."""
    broken: dict[str, str] = {}
    target = Target(piece.pending.id, properties=catalog.as_properties())
    schema = piece.pending.schema
    while True:
        reading = _Reading(piece, broken)
        rows = as_stored(reading.batches(), Columns(schema, tuple(schema.names)))
        try:
            fragments = write_files(target, piece.pending, rows, DEFAULT_LIMITS)
            break
        except Exception:
            if not reading.broke_off:
                raise
    rejects = [
        (record.path, each)
        for record in reading.read
        if record.path not in piece.rejected
        for each in record.records.rejects
    ]
    pending, reject_fragments = None, []
    if rejects and piece.rejects is not None:
        pending = create(catalog, piece.rejects, REJECTS)
        rows = _as_rows(piece, rejects)
        place = Target(piece.rejects, properties=catalog.as_properties())
        reject_fragments = write_files(place, pending, rows, DEFAULT_LIMITS)
    return Written(
        (
            *(each.result for each in reading.read),
            *(FileRead(p, error=e) for p, e in broken.items()),
        ),
        tuple(fragments),
        pending,
        tuple(reject_fragments),
    )


def create(catalog: DirectoryNamespace, table: TableId, schema: pa.Schema) -> PendingWrite:
    """Begin to write a table; one that is not there is made first, without a row."""
    pending = catalog.writes.begin(table, WriteMode.APPEND)
    if pending.read_version:
        return pending
    made = catalog.writes.begin(table, WriteMode.EXIST_OK)
    if not made.is_done:
        catalog.writes.finish(made, [], schema)
    return catalog.writes.begin(table, WriteMode.APPEND)


@dataclass(frozen=True)
class _FileOf:
    path: str
    records: Records

    @property
    def result(self) -> FileRead:
        return FileRead(self.path, self.records.rows, len(self.records.rejects))


class _Reading:
    """One pass over the files of a piece, without those that are broken."""

    def __init__(self, piece: Piece, broken: dict[str, str]) -> None:
        self._piece = piece
        self._broken = broken
        self.read: list[_FileOf] = []
        self.broke_off = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        for file in self._piece.files:
            if file.path in self._broken:
                continue
            records = Records(
                file, self._piece.storage, self._piece.pending.schema, self._piece.mapped
            )
            is_small = file.size <= SMALL
            try:
                if is_small:
                    yield from list(records.batches())
                else:
                    yield from records.batches()
            except TiltyardError as error:
                self._broken[file.path] = str(error)
                if is_small:
                    continue
                self.broke_off = True
                raise
            self.read.append(_FileOf(file.path, records))


def _as_rows(piece: Piece, rejects: Sequence[tuple[str, Reject]]) -> pa.RecordBatchReader:
    table = names.dotted(piece.pending.id)
    rows = [
        {
            "table": table,
            "source": path,
            "number": each.number,
            "reason": each.reason,
            "record": each.record,
            "rejected_at": piece.now,
        }
        for path, each in rejects
    ]
    return pa.Table.from_pylist(rows, REJECTS).to_reader()
