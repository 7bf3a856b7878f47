"""Pieces of a load, as executors do them: source files, or a DataFrame, into data files of a table.

Nothing counts until the driver commits it. A file that can't be read is left out as a whole, and
the others go on; bad records go into data files of the reject table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import TiltyardError
from tiltyard.job_options import SourceOptions
from tiltyard.lifecycle.writing import PendingWrite, WriteMode
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark import columns
from tiltyard.spark.columns import Columns
from tiltyard.spark.jobs.ingest_plan import Frame, IngestAction, Ingested, ledger_of
from tiltyard.spark.jobs.records import Records, Reject
from tiltyard.spark.jobs.sources import SourceFile
from tiltyard.spark.session import bounded_batches
from tiltyard.spark.target import Target
from tiltyard.spark.write import as_stored, write_files
from tiltyard.tables.fragments import DEFAULT_LIMITS, rows_of
from tiltyard.tables.ledger import Loaded

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
class IngestPiece:
    """Files that one task loads. Of those in `rejected` the bad records are in the reject table
    already; without `rejects` there is no such table."""

    pending: PendingWrite
    files: tuple[SourceFile, ...]
    options: SourceOptions
    storage: Mapping[str, str]
    rejects: TableId | None
    rejected: frozenset[str]
    now: datetime

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class FileRead:
    """What became of one file."""

    path: str
    rows: int = 0
    rejected: int = 0
    error: str | None = None


@dataclass(frozen=True)
class WrittenPiece:
    """What one task wrote: data files of the table, and of the reject table."""

    files: tuple[FileRead, ...]
    fragments: tuple[str, ...] = ()
    rejects: PendingWrite | None = None
    reject_fragments: tuple[str, ...] = ()


def write(catalog: DirectoryNamespace, piece: IngestPiece) -> WrittenPiece:
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
        (read.path, reject)
        for read in reading.read
        if read.path not in piece.rejected
        for reject in read.records.rejects
    ]
    pending, reject_fragments = None, []
    if rejects and piece.rejects is not None:
        pending = create(catalog, piece.rejects, REJECTS)
        rows = _as_rows(piece, rejects)
        reject_target = Target(piece.rejects, properties=catalog.as_properties())
        reject_fragments = write_files(reject_target, pending, rows, DEFAULT_LIMITS)
    return WrittenPiece(
        (
            *(read.result for read in reading.read),
            *(FileRead(path, error=error) for path, error in broken.items()),
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
class _ReadFile:
    path: str
    records: Records

    @property
    def result(self) -> FileRead:
        return FileRead(self.path, self.records.rows, len(self.records.rejects))


class _Reading:
    """One pass over the files of a piece, without those that are broken."""

    def __init__(self, piece: IngestPiece, broken: dict[str, str]) -> None:
        self._piece = piece
        self._broken = broken
        self.read: list[_ReadFile] = []
        self.broke_off = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        for file in self._piece.files:
            if file.path in self._broken:
                continue
            records = Records(
                file, self._piece.storage, self._piece.pending.schema, self._piece.options
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
            self.read.append(_ReadFile(file.path, records))


def _as_rows(piece: IngestPiece, rejects: Sequence[tuple[str, Reject]]) -> pa.RecordBatchReader:
    table = names.dotted(piece.pending.id)
    rows = [
        {
            "table": table,
            "source": path,
            "number": reject.number,
            "reason": reject.reason,
            "record": reject.record,
            "rejected_at": piece.now,
        }
        for path, reject in rejects
    ]
    return pa.Table.from_pylist(rows, REJECTS).to_reader()


# -- a DataFrame as a source


def load_frame(
    catalog: DirectoryNamespace, name: str, frame: Frame, *, dry_run: bool = False
) -> Ingested:
    """Load one DataFrame in one commit, unless its batch is there. An error is a row."""
    try:
        return _load_frame(catalog, name, frame, dry_run=dry_run)
    except TiltyardError as error:
        return Ingested(name, frame.source, IngestAction.FAILED, error=str(error))


def _load_frame(catalog: DirectoryNamespace, name: str, frame: Frame, *, dry_run: bool) -> Ingested:
    table = names.parse_table_id(names.parse_dotted(name))
    identity = Loaded(frame.source, 0, "")
    if ledger_of(catalog, table).has(identity):
        return Ingested(name, frame.source, IngestAction.PRESENT)
    if dry_run:
        return Ingested(name, frame.source, IngestAction.PLANNED)
    given = frame.rows.schema
    pending = create(catalog, table, columns.for_new_table(given).schema)
    chosen = columns.for_adding(given, pending.schema, merge=False, case_sensitive=False)
    target = Target(table, properties=catalog.as_properties())

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = write_files(target, pending, as_stored(batches, chosen), DEFAULT_LIMITS)
        yield pa.record_batch({"fragment": pa.array(written, pa.string())})

    fragments: list[str] = []
    done = False
    try:
        with bounded_batches(frame.rows):
            answers = frame.rows.mapInArrow(write, "fragment string").collect()
        fragments = [row.fragment for row in answers]
        created = catalog.writes.finish_load(pending, fragments, chosen.schema, [identity])
        done = created is not None
    finally:
        catalog.writes.sweep(pending, fragments if done else (), close=not done)
    if created is None:  # another has loaded it meanwhile
        return Ingested(name, frame.source, IngestAction.PRESENT)
    return Ingested(
        name, frame.source, IngestAction.LOADED, rows_of(fragments), version=created.version
    )
