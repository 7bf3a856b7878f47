"""The records of a source file as rows of a table, and those that can't be.

Columns are found by name and brought to the table's types without losing anything. A record of
which a value can't be, or that can't be read at all, is a reject: it is told apart with the reason,
and the other records go on. What is wrong with a file as a whole is an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from tiltyard.errors import InvalidInputError, TableSchemaValidationError
from tiltyard.job_options import SourceOptions
from tiltyard.spark.jobs.sources import Format, SourceFile

ROWS_PER_BATCH = 64 * 1024
BYTES_PER_BLOCK = 8 * 1024 * 1024
# What Arrow raises for a file or a value that it can't read.
REFUSALS = (pa.ArrowException, OSError, ValueError, UnicodeError)

# What CSV files say where a value is missing; in a column of texts it is a text.
_NULLS = pa.array(["", "NA", "N/A", "NULL", "null", "NaN", "nan", "None", "#N/A"])


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that could not be loaded; `number` counts the records of its file from 1."""

    number: int
    reason: str
    record: str


class TooManyRejects(InvalidInputError):
    """A file is more bad than good."""


class Records:
    """One source file, read as rows of a table. `rejects` are those found so far."""

    def __init__(
        self,
        file: SourceFile,
        storage: Mapping[str, str],
        schema: pa.Schema,
        options: SourceOptions,
    ) -> None:
        self._file = file
        self._storage = storage
        self._schema = schema
        self._options = options
        self._number = 0
        self._skipped: list[int] = []
        self.rejects: list[Reject] = []
        self.rows = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, a bounded number of them at a time. Errors say what is wrong with the file."""
        read = _READERS[self._file.format]
        try:
            with self._file.open(self._storage) as opened:
                for batch in read(self, opened):
                    if batch.num_rows:
                        self.rows += batch.num_rows
                        yield batch
        except REFUSALS as error:
            raise _unreadable(self._file, error) from error
        self._file.must_be_unchanged(self._storage)

    # -- formats

    def _parquet(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        for batch in pq.ParquetFile(file).iter_batches(ROWS_PER_BATCH):
            yield self._fitted(batch)

    def _arrow(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        for batch in _ipc_batches(file):
            yield self._fitted(batch)

    def _csv(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        """Everything is read as text first: then a value that can't be is known by its row."""

        def skip(row: Any) -> str:
            reason = f"it has {row.actual_columns} values, not {row.expected_columns}"
            self._skipped.append(row.number - 1)  # the first line has the names
            self._reject(row.number - 1, reason, row.text)
            return "skip"

        parse = pa.csv.ParseOptions(delimiter=self._options.delimiter, invalid_row_handler=skip)
        names = _csv_names(self._file, self._storage, self._options.delimiter)
        convert = pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        read = pa.csv.ReadOptions(
            use_threads=False, block_size=BYTES_PER_BLOCK
        )  # lines are counted
        for batch in pa.csv.open_csv(file, read, parse, convert):
            yield self._fitted(batch, absent=_NULLS)

    def _json(self, file: BinaryIO) -> Iterator[pa.RecordBatch]:
        """Lines of JSON. A block with a bad line is halved until that line is found."""
        kinds = {column.name: _in_json(column.type) for column in self._schema}
        kinds |= {old: kinds[new] for old, new in self._renamed.items()}
        schema = pa.schema(list(kinds.items()))
        for lines in _blocks(file):
            yield from self._parsed(lines, schema, self._number)
            self._number += len(lines)

    def _parsed(
        self, lines: Sequence[bytes], schema: pa.Schema, first: int
    ) -> Iterator[pa.RecordBatch]:
        try:
            parsed = pa.json.read_json(
                pa.BufferReader(b"".join(lines)),
                parse_options=pa.json.ParseOptions(explicit_schema=schema),
            )
        except pa.ArrowInvalid as error:
            if len(lines) == 1:
                text = lines[0].decode(errors="replace").rstrip("\r\n")
                self._reject(first + 1, _short(error), text)
                return
            middle = len(lines) // 2
            yield from self._parsed(lines[:middle], schema, first)
            yield from self._parsed(lines[middle:], schema, first + middle)
            return
        for old, new in self._renamed.items():  # a record has the one or the other
            both = pc.coalesce(parsed[new], parsed[old])
            parsed = parsed.drop_columns([old, new]).append_column(new, both)
        for batch in parsed.to_batches():
            yield self._fitted(batch, number=first)
            first += batch.num_rows

    @property
    def _renamed(self) -> dict[str, str]:
        """Columns that have another name in the table."""
        known = set(self._schema.names)
        return {old: new for old, new in self._options.columns.items() if new in known - {old}}

    # -- one batch

    def _fitted(
        self, batch: pa.RecordBatch, absent: pa.Array | None = None, number: int | None = None
    ) -> pa.RecordBatch:
        """A batch in the columns of the table, without its bad records."""
        if number is None:
            number, self._number = self._number, self._number + batch.num_rows
        bad: dict[int, str] = {}
        columns = []
        for column, source in zip(self._schema, self._sources(batch.schema), strict=True):
            if source is None:
                columns.append(pa.nulls(batch.num_rows, column.type))
                continue
            given = batch.column(source)
            if absent is not None and not _is_text(column.type):
                given = pc.if_else(pc.is_in(given, absent), None, given)
            fitted, refused = _cast(given, column.type)
            columns.append(fitted)
            for row, reason in refused.items():
                bad.setdefault(row, f"{column.name}: {reason}")
            if not column.nullable and fitted.null_count:
                for row in pc.indices_nonzero(fitted.is_null()).to_pylist():
                    bad.setdefault(row, f"{column.name}: it can't be null")
        rows = pa.RecordBatch.from_arrays(columns, names=self._schema.names)
        if not bad:
            return rows
        for row in sorted(bad):
            record = json.dumps(batch.slice(row, 1).to_pylist()[0], default=str)
            self._reject(self._place(number + row + 1), bad[row], record)
        keep = pa.array([row not in bad for row in range(batch.num_rows)])
        return rows.filter(keep)

    def _sources(self, given: pa.Schema) -> list[int | None]:
        """For each column of the table its place in the source."""
        named = {self._options.columns.get(name, name): at for at, name in enumerate(given.names)}
        alike = {name.lower(): at for name, at in named.items()}
        places = [named.get(name, alike.get(name.lower())) for name in self._schema.names]
        if self._options.missing == "error" and None in places:
            lost = self._schema.names[places.index(None)]
            raise TableSchemaValidationError(
                f"{self._file.path} has no column {lost!r}", hint="pass missing='null'"
            )
        extra = [given.names[at] for at in range(len(given.names)) if at not in places]
        if extra and self._options.extra == "error":
            raise TableSchemaValidationError(
                f"the table has no column {extra[0]!r}, and {self._file.path} has",
                hint="give it the name of one, pass extra='ignore', or add it to the table",
            )
        return places

    def _place(self, number: int) -> int:
        """The number of a record, counted with those that were skipped before it."""
        for skipped in sorted(self._skipped):
            number += skipped <= number
        return number

    def _reject(self, number: int, reason: str, record: str) -> None:
        if len(self.rejects) >= self._options.max_rejects:
            raise TooManyRejects(
                f"{self._file.path} has more than {self._options.max_rejects} bad records, "
                f"the last because: {reason}",
                hint="mend the file, or raise max_rejects",
            )
        self.rejects.append(Reject(number, reason, record))


_READERS: dict[Format, Callable[[Records, BinaryIO], Iterator[pa.RecordBatch]]] = {
    Format.PARQUET: Records._parquet,
    Format.CSV: Records._csv,
    Format.JSON: Records._json,
    Format.ARROW: Records._arrow,
}


def _cast(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """A column in another type, null where a value can't be, and why. Halved until it is found."""
    if column.type == kind:
        return column, {}
    try:
        return column.cast(kind), {}
    except pa.ArrowNotImplementedError as error:
        raise TableSchemaValidationError(
            f"a value of type {column.type} can't become {kind}"
        ) from error
    except pa.ArrowInvalid as error:
        if len(column) == 1:
            return pa.nulls(1, kind), {0: _short(error)}
    middle = len(column) // 2
    left, wrong = _cast(column.slice(0, middle), kind)
    right, more = _cast(column.slice(middle), kind)
    return pa.concat_arrays([left, right]), wrong | {middle + at: why for at, why in more.items()}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


# -- what files hold before it is a row of a table


def schema_of(file: SourceFile, storage: Mapping[str, str], options: SourceOptions) -> pa.Schema:
    """The columns that a new table gets from a file; of CSV and JSON from its first block."""
    try:
        with file.open(storage) as opened:
            if file.format is Format.PARQUET:
                schema = pq.ParquetFile(opened).schema_arrow
            elif file.format is Format.ARROW:
                schema = next(iter(_ipc_batches(opened))).schema
            elif file.format is Format.CSV:
                parse = pa.csv.ParseOptions(delimiter=options.delimiter)
                schema = pa.csv.open_csv(opened, parse_options=parse).schema
            else:
                lines = next(_blocks(opened), [])
                schema = pa.json.read_json(pa.BufferReader(b"".join(lines))).schema
    except (*REFUSALS, StopIteration) as error:
        raise _unreadable(file, error) from error
    return pa.schema(
        [
            pa.field(options.columns.get(column.name, column.name), _kept(column.type))
            for column in schema
        ]
    )


def _kept(kind: pa.DataType) -> pa.DataType:
    """A column without a value so far may get texts."""
    return pa.string() if pa.types.is_null(kind) else kind


def _csv_names(file: SourceFile, storage: Mapping[str, str], delimiter: str) -> list[str]:
    """The names in the first line."""
    with file.open(storage) as opened:
        parse = pa.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=lambda row: "skip")
        return list(pa.csv.open_csv(opened, parse_options=parse).schema.names)


def _ipc_batches(file: BinaryIO) -> Iterator[pa.RecordBatch]:
    """The batches of an Arrow file or stream."""
    start = file.read(6)
    file.seek(0)
    if start == b"ARROW1":
        reader = pa.ipc.open_file(file)
        yield from (reader.get_batch(at) for at in range(reader.num_record_batches))
    else:
        yield from pa.ipc.open_stream(file)


def _blocks(file: BinaryIO) -> Iterator[list[bytes]]:
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


def _in_json(kind: pa.DataType) -> pa.DataType:
    """The nearest type that Arrow's JSON reader knows."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return _in_json(kind.value_type)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind) or pa.types.is_list(kind):
        return pa.list_(_in_json(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(inner.name, _in_json(inner.type)) for inner in kind.fields])
    if pa.types.is_float16(kind):
        return pa.float32()
    return kind


def _unreadable(file: SourceFile, error: Exception) -> InvalidInputError:
    """An error of Arrow about a file, as ours."""
    if isinstance(error, InvalidInputError):
        return error
    return InvalidInputError(f"{file.path} can't be read as {file.format}: {_short(error)}")


def _short(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0]
