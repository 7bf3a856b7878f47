"""A load as it is planned: the tables, their source files, and what is known of each so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from uuid import uuid4

import pyarrow as pa

from tiltyard import names
from tiltyard.errors import TableNotFoundError, TiltyardError
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace
from tiltyard.namespace.access import NoDataYetError
from tiltyard.spark.jobs import sources
from tiltyard.spark.jobs.packing import within
from tiltyard.spark.jobs.records import MOST_REJECTS, Mapped
from tiltyard.spark.jobs.sources import Format, SourceFile
from tiltyard.tables.ledger import Ledger, Loaded


class Action(StrEnum):
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
    action: Action
    rows: int = 0
    rejected: int = 0
    bytes: int = 0
    version: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Source:
    """Where the rows of a table come from, and how they fit.

    `paths` are files, folders and patterns. A table that does not exist gets the columns of
    `schema`, or of its first file. Bad records go to the table `rejects`, or to one named like the
    table with `_rejects` at its end; with `max_rejects=0` a file with a bad record stays out.
    """

    paths: str | Sequence[str]
    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    missing: str = "null"
    extra: str = "error"
    delimiter: str = ","
    schema: pa.Schema | None = None
    rejects: str | None = None
    max_rejects: int = MOST_REJECTS

    def __post_init__(self) -> None:
        """What is wrong with the options is wrong for every file, and refused at once."""
        _checked = self.mapped, self.kind

    @property
    def kind(self) -> Format | None:
        return None if self.format is None else sources.format_named(self.format)

    @property
    def mapped(self) -> Mapped:
        return Mapped(
            dict(self.columns), self.missing, self.extra, self.max_rejects, self.delimiter
        )


@dataclass
class Plan:
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
        return [each for each in self.files if self._is_waiting(each)]

    def _is_waiting(self, file: SourceFile) -> bool:
        is_known = file.path in self.done or file.path in self.left
        return self.error is None and not is_known and not self.present.has(self.identity(file))

    def end(self, file: SourceFile, action: Action, **details: object) -> None:
        row = Ingested(self.name, file.path, action, bytes=file.size)
        self.done[file.path] = replace(row, **details)  # type: ignore[arg-type]

    def rows(self) -> Iterator[Ingested]:
        if self.error is not None and not self.files:
            paths = self.source.paths
            shown = paths if isinstance(paths, str) else ", ".join(paths)
            yield Ingested(self.name, shown, Action.FAILED, error=self.error)
        for file in self.files:
            if file.path in self.done:
                yield self.done[file.path]
                continue
            action = Action.PLANNED
            if self.present.has(self.identity(file)):
                action = Action.PRESENT
            elif file.path in self.left:
                action = Action.LEFT
            yield Ingested(self.name, file.path, action, bytes=file.size, error=self.error)


def plan_table(
    catalog: DirectoryNamespace, name: str, source: Source, storage: Mapping[str, str], again: bool
) -> Plan:
    table = names.parse_table_id(names.parse_dotted(name))
    plan = Plan(name, table, source, storage, suffix=f"#{uuid4().hex}" if again else "")
    try:
        plan.files = sources.find(source.paths, storage, source.kind)
        plan.present = ledger_of(catalog, table)
    except TiltyardError as error:
        plan.error = str(error)
    return plan


def ledger_of(catalog: DirectoryNamespace, table: TableId) -> Ledger:
    try:
        return catalog.writes.loaded_files(table)
    except (TableNotFoundError, NoDataYetError):
        return Ledger()


def limit(plans: Sequence[Plan], max_bytes: int | None) -> None:
    every = [(plan, file) for plan in plans for file in plan.waiting]
    for plan, file in every[within(every, lambda each: each[1].size, max_bytes) :]:
        plan.left.add(file.path)
