"""A load as it is planned: the tables, their source files, and what is known of each so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.errors import InvalidInputError, TableNotFoundError, TiltyardError
from tiltyard.job_options import SourceOptions
from tiltyard.namespace import DirectoryNamespace
from tiltyard.namespace.access import NoDataYetError
from tiltyard.spark.jobs import sources
from tiltyard.spark.jobs.fanout import within
from tiltyard.spark.jobs.sources import Format, SourceFile
from tiltyard.tables.ledger import Ledger, Loaded


class IngestAction(StrEnum):
    """What became of a source file."""

    LOADED = "loaded"
    PRESENT = "present"
    PLANNED = "planned"
    LEFT = "left"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ingested:
    """One source file of one table. `left` is for the next run: it was beyond `max_bytes`."""

    table: str
    source: str
    action: IngestAction
    rows: int = 0
    rejected: int = 0
    bytes: int = 0
    version: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Source(SourceOptions):
    """Where the rows of a table come from, and how they fit.

    `paths` are files, folders and patterns. A table that does not exist gets the columns of
    `schema`, or of its first file. `SourceOptions` has the other options.
    """

    paths: str | Sequence[str]
    schema: pa.Schema | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """What is wrong with the options is wrong for every file, and refused at once."""
        super().__post_init__()
        _checked = self.file_format

    @property
    def file_format(self) -> Format | None:
        return None if self.format is None else sources.format_named(self.format)

    @property
    def options(self) -> SourceOptions:
        """The options alone, as executors get them."""
        values = {option.name: getattr(self, option.name) for option in fields(SourceOptions)}
        return SourceOptions(**values)


@dataclass(frozen=True)
class Frame:
    """Rows for a table. A `batch` of that name is loaded once, whatever its rows are."""

    rows: DataFrame
    batch: str

    def __post_init__(self) -> None:
        if not self.batch:
            raise InvalidInputError(
                "a DataFrame needs the name of a batch", hint="nothing else tells it from another"
            )

    @property
    def source(self) -> str:
        return f"batch {self.batch}"


@dataclass
class IngestPlan:
    """One table: its files, and what is known of them so far."""

    name: str
    table: TableId
    source: Source
    storage: Mapping[str, str]
    files: list[SourceFile] = field(default_factory=list)
    present: Ledger = field(default_factory=Ledger)
    suffix: str = ""
    left: set[str] = field(default_factory=set)
    done: dict[str, Ingested] = field(default_factory=dict)
    error: str | None = None

    def identity(self, file: SourceFile) -> Loaded:
        return file.identity._replace(tag=file.tag + self.suffix)

    def reject_identity(self, file: SourceFile) -> Loaded:
        """A reject table may be that of several tables."""
        return self.identity(file)._replace(path=f"{self.name}:{file.path}")

    @property
    def rejects(self) -> TableId | None:
        if not self.source.max_rejects:
            return None
        if self.source.rejects is not None:
            return names.parse_table_id(names.parse_dotted(self.source.rejects))
        return (*self.table[:-1], f"{self.table[-1]}_rejects")

    @property
    def waiting(self) -> list[SourceFile]:
        return [file for file in self.files if self._is_waiting(file)]

    def _is_waiting(self, file: SourceFile) -> bool:
        is_known = file.path in self.done or file.path in self.left
        return self.error is None and not is_known and not self.present.has(self.identity(file))

    def end(self, file: SourceFile, action: IngestAction, **details: object) -> None:
        row = Ingested(self.name, file.path, action, bytes=file.size)
        self.done[file.path] = replace(row, **details)  # type: ignore[arg-type]

    def rows(self) -> Iterator[Ingested]:
        if self.error is not None and not self.files:
            paths = self.source.paths
            shown = paths if isinstance(paths, str) else ", ".join(paths)
            yield Ingested(self.name, shown, IngestAction.FAILED, error=self.error)
        for file in self.files:
            if file.path in self.done:
                yield self.done[file.path]
                continue
            action = IngestAction.PLANNED
            if self.present.has(self.identity(file)):
                action = IngestAction.PRESENT
            elif file.path in self.left:
                action = IngestAction.LEFT
            yield Ingested(self.name, file.path, action, bytes=file.size, error=self.error)


def plan_table(
    catalog: DirectoryNamespace, name: str, source: Source, storage: Mapping[str, str], again: bool
) -> IngestPlan:
    """Find the files of one table, and which of them it has. An error is in the plan."""
    table = names.parse_table_id(names.parse_dotted(name))
    plan = IngestPlan(name, table, source, storage, suffix=f"#{uuid4().hex}" if again else "")
    try:
        plan.files = sources.find(source.paths, storage, source.file_format)
        plan.present = ledger_of(catalog, table)
    except TiltyardError as error:
        plan.error = str(error)
    return plan


def ledger_of(catalog: DirectoryNamespace, table: TableId) -> Ledger:
    """The files that a table has loaded; none of a table that is not there."""
    try:
        return catalog.writes.loaded_files(table)
    except (TableNotFoundError, NoDataYetError):
        return Ledger()


def limit(plans: Sequence[IngestPlan], max_bytes: int | None) -> None:
    """Leave the files that are beyond `max_bytes` to the next run."""
    waiting = [(plan, file) for plan in plans for file in plan.waiting]
    for plan, file in waiting[within(waiting, lambda item: item[1].size, max_bytes) :]:
        plan.left.add(file.path)
