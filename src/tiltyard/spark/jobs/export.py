"""`export`: tables into files that others read, each table at one version, whole or not at all.

Executors write the files of a table into its folder, under names that only this run has. When all
are there, the driver writes `_SUCCESS`, which names them: from then on they are the table, and the
files of an earlier export go. A run that broke off leaves files that no `_SUCCESS` names; the next
one removes them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import islice
from typing import Any, BinaryIO
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    TableSchemaValidationError,
    TiltyardError,
)
from tiltyard.job_options import ExportJob
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.spark.jobs import fanout
from tiltyard.spark.jobs.job import choose_tables, frame, job_on, parts_of
from tiltyard.spark.jobs.sources import Format, format_named
from tiltyard.store import NotThere, Store, open_store
from tiltyard.store.streams import open_streams
from tiltyard.tables import scan
from tiltyard.tables.describe import At
from tiltyard.tables.scan import Piece, Snapshot, Wanted

SUCCESS = "_SUCCESS"
_EXPORTED_FILE = re.compile(r"part-\d{5}-([0-9a-f]{32})-[0-9a-f]{8}\.\w+")

Batches = Iterable[pa.RecordBatch]


class ExportAction(StrEnum):
    """What became of a table."""

    EXPORTED = "exported"
    PRESENT = "present"
    PLANNED = "planned"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Exported:
    """One table, at one version, and its files."""

    table: str
    path: str
    action: ExportAction
    version: int | None = None
    rows: int = 0
    files: int = 0
    bytes: int = 0
    error: str | None = None


@job_on(ExportJob)
def export(
    spark: SparkSession, catalog: DirectoryNamespace, destination: str, options: ExportJob
) -> DataFrame:
    """Write tables into folders below `destination`, named as they are; one row for each table.

    A table is read at its latest version, or at the one that `versions` has for its dotted name. A
    folder that has the table at that version is left alone; one with another export only with
    `overwrite`. `storage` are the options of the destination's bucket, if not the catalog's.
    """
    return frame(spark, Exported, run(spark, catalog, destination, options))


def run(
    spark: SparkSession, catalog: DirectoryNamespace, destination: str, options: ExportJob
) -> list[Exported]:
    """The rows of `export`."""
    settings = _destination(catalog, destination, options.storage)
    columns = None if options.columns is None else tuple(options.columns)
    contents = _FileContents(format_named(options.format), columns)
    store = open_store(settings)
    planning = _Planning(catalog, store, settings.root, contents, options)
    tables = choose_tables(catalog, options.namespace, options.tables)
    plans = fanout.run_on_driver(planning.plan, tables)
    if not options.dry_run:
        written = fanout.run(
            spark,
            catalog,
            _WriteFile(settings, contents),
            [file for plan in plans for file in plan.files],
            lambda file, error: _WrittenFile("", error=error),
            doing="export a table",
            max_tasks=options.max_tasks,
            fewest_items=1,
            progress=options.progress,
        )
        files = iter(written)
        ended = [(plan, list(islice(files, len(plan.files)))) for plan in plans]
        plans = fanout.run_on_driver(lambda item: _finish(store, *item, contents), ended)
    return [plan.row for plan in plans]


def _destination(
    catalog: DirectoryNamespace, destination: str, storage: Mapping[str, str] | None
) -> Settings:
    own = Settings.from_properties(catalog.as_properties())
    options = own.storage if storage is None else storage
    given = {f"{STORAGE_PREFIX}{key}": value for key, value in options.items()}
    settings = Settings.from_properties({"root": destination, **given})
    if f"{settings.root}/".startswith(f"{own.root}/"):
        raise InvalidInputError(
            "tables can't be exported into their own catalog", hint="choose another folder"
        )
    return settings


# -- the plan: for each table its version, its folder, and the files to write


@dataclass(frozen=True)
class _FileContents:
    """What the files of all tables hold."""

    format: Format
    columns: tuple[str, ...] | None

    def record(self, version: int | None) -> dict[str, Any]:
        """What `_SUCCESS` says beside the files."""
        columns = None if self.columns is None else list(self.columns)
        return {"version": version, "format": self.format.value, "columns": columns}


@dataclass(frozen=True)
class _PlannedFile:
    """One file to be written."""

    snapshot: Snapshot
    piece: Piece
    folder: str
    number: int
    token: str


@dataclass(frozen=True)
class _ExportPlan:
    """One table, its row so far, and the files to be written for it."""

    row: Exported
    folder: str
    token: str
    files: tuple[_PlannedFile, ...] = ()


class _Planning:
    """Plans the export of tables."""

    def __init__(
        self,
        catalog: DirectoryNamespace,
        store: Store,
        root: str,
        contents: _FileContents,
        options: ExportJob,
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._root = root
        self._contents = contents
        self._options = options
        self._versions = {
            tuple(parts_of(name)): version for name, version in options.versions.items()
        }

    def plan(self, table: TableId) -> _ExportPlan:
        """The plan of one table. An error is in its row."""
        folder = "/".join(quote(part, safe=" ") for part in table)
        version = self._versions.get(table)
        path = f"{self._root}/{folder}"
        row = Exported(names.dotted(table), path, ExportAction.PLANNED, version)
        plan = _ExportPlan(row, folder, uuid4().hex)
        try:
            snapshot = self._catalog.versions.snapshot_table(table, At(version))
            plan = replace(plan, row=replace(row, version=snapshot.at.version))
            return self._plan_files(plan, snapshot)
        except (TiltyardError, OSError, ValueError, RuntimeError) as error:
            failed = replace(plan.row, action=ExportAction.FAILED, error=str(error))
            return replace(plan, row=failed)

    def _plan_files(self, plan: _ExportPlan, snapshot: Snapshot) -> _ExportPlan:
        record = self._record(plan.folder)
        if record is not None and _is_same(record, self._contents.record(plan.row.version)):
            size = sum(file["bytes"] for file in record["files"])
            row = replace(
                plan.row,
                action=ExportAction.PRESENT,
                rows=record["rows"],
                files=len(record["files"]),
                bytes=size,
            )
            return replace(plan, row=row)
        self._require_free(plan, is_exported=record is not None)
        wanted = Wanted(columns=self._contents.columns)
        scan.schema_of(snapshot, wanted)
        count = -(-scan.count(snapshot) // self._options.rows_per_file)
        pieces = scan.pieces_of(snapshot, wanted, max(1, count)) or [Piece(())]
        files = [
            _PlannedFile(snapshot, piece, plan.folder, number, plan.token)
            for number, piece in enumerate(pieces)
        ]
        return replace(plan, files=tuple(files))

    def _record(self, folder: str) -> dict[str, Any] | None:
        try:
            record: dict[str, Any] = json.loads(self._store.get(f"{folder}/{SUCCESS}").body)
        except NotThere:
            return None
        except ValueError:
            return {}
        return record

    def _require_free(self, plan: _ExportPlan, *, is_exported: bool) -> None:
        """What is there is left by a run that broke off, or may be overwritten."""
        entries = self._store.list(plan.folder).objects
        foreign = [entry.name for entry in entries if not _EXPORTED_FILE.fullmatch(entry.name)]
        if self._options.overwrite:
            return
        if is_exported:
            raise TableAlreadyExistsError(
                f"{plan.row.path} holds another export",
                hint="pass overwrite, or another destination",
            )
        if foreign:
            raise TableAlreadyExistsError(
                f"{plan.row.path} is not empty: it holds {foreign[0]!r}",
                hint="pass overwrite if it may stay beside the export, or another destination",
            )


def _is_same(record: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return "files" in record and all(record.get(key) == value for key, value in wanted.items())


# -- the work: executors write files, the driver makes them the table


@dataclass(frozen=True)
class _WrittenFile:
    """One file that was written."""

    name: str
    rows: int = 0
    size: int = 0
    error: str | None = None


@dataclass(frozen=True)
class _WriteFile:
    """On an executor: one file. Each try has a name of its own, so none spoils another's."""

    settings: Settings
    contents: _FileContents

    def __call__(self, catalog: DirectoryNamespace, file: _PlannedFile) -> _WrittenFile:
        wanted = Wanted(columns=self.contents.columns)
        own = uuid4().hex[:8]
        name = f"part-{file.number:05d}-{file.token}-{own}.{self.contents.format}"
        schema = scan.schema_of(file.snapshot, wanted)
        rows = scan.read(file.snapshot, wanted, file.piece)
        key = f"{file.folder}/{name}"
        with open_streams(self.settings).writer(key) as opened:
            count = write_rows(self.contents.format, opened, schema, rows)
        return _WrittenFile(name, count, open_store(self.settings).head(key).size)


def _finish(
    store: Store, plan: _ExportPlan, files: Sequence[_WrittenFile], contents: _FileContents
) -> _ExportPlan:
    """Make the files the table, or remove them."""
    if not plan.files:
        return plan
    errors = [file.error for file in files if file.error is not None]
    row = plan.row
    try:
        if errors:
            row = replace(row, action=ExportAction.FAILED, error=errors[0])
            _remove(store, plan, [], only_own=True)
        else:
            rows = sum(file.rows for file in files)
            listed = [{"name": file.name, "rows": file.rows, "bytes": file.size} for file in files]
            about = contents.record(row.version)
            body = {**about, "table": row.table, "rows": rows, "files": listed}
            store.put(f"{plan.folder}/{SUCCESS}", json.dumps(body, indent=1).encode())
            size = sum(file.size for file in files)
            action = ExportAction.EXPORTED
            row = replace(row, action=action, rows=rows, files=len(files), bytes=size)
            _remove(store, plan, files, only_own=False)
    except TiltyardError as error:
        row = replace(row, action=ExportAction.FAILED, error=str(error))
    return replace(plan, row=row)


def _remove(
    store: Store, plan: _ExportPlan, keep: Sequence[_WrittenFile], *, only_own: bool
) -> None:
    """Remove files of this run, or of every other too, that are not among those to keep."""
    kept = {file.name for file in keep}
    going = []
    for entry in store.list(plan.folder).objects:
        exported = _EXPORTED_FILE.fullmatch(entry.name)
        if exported and entry.name not in kept and (not only_own or exported[1] == plan.token):
            going.append(entry.key)
    store.delete_many(going)


# -- formats


def write_rows(format: Format, file: BinaryIO, schema: pa.Schema, batches: Batches) -> int:
    """Write rows into an open file, and return how many they were."""
    counted = _CountedBatches(batches)
    try:
        _WRITERS[format](file, schema, counted)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise TableSchemaValidationError(
            f"{format} can't hold these columns: {error}", hint="parquet and arrow hold all of them"
        ) from error
    return counted.rows


class _CountedBatches:
    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
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
            json.dumps(row, default=_json_value, ensure_ascii=False).encode() + b"\n"
            for row in batch.to_pylist()
        )


def _json_value(value: Any) -> Any:
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
