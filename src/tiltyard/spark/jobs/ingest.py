"""`ingest`: source files into tables, many to many in one job, each file exactly once.

The driver finds the files, leaves out those that the ledgers of the tables have, and packs the
others into pieces. Executors read pieces and write data files. The driver commits: the rows of
files and the note that they are loaded are one commit, so a crash at any point neither loses a file
nor loads it twice; the next run does the rest. Bad records are committed to the reject table first,
in the same way, so they are there once too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tiltyard.errors import TiltyardError
from tiltyard.job_options import IngestJob, JobProgress
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.jobs import fanout, ingest_pieces
from tiltyard.spark.jobs.fanout import run_on_driver, within
from tiltyard.spark.jobs.ingest_pieces import FileRead, IngestPiece, WrittenPiece
from tiltyard.spark.jobs.ingest_plan import (
    Frame,
    IngestAction,
    Ingested,
    IngestPlan,
    Source,
    ledger_of,
    limit,
    plan_table,
)
from tiltyard.spark.jobs.job import frame, job_on
from tiltyard.spark.jobs.records import schema_of
from tiltyard.spark.jobs.sources import SourceFile
from tiltyard.spark.table import cores

log = logging.getLogger(__name__)

BYTES_PER_COMMIT = 16 * 1024**3
FILES_PER_PIECE = 500
LEAST_PIECE, LARGEST_PIECE = 8 * 1024**2, 256 * 1024**2
# Pieces for each core between two rounds of commits.
PIECES_PER_ROUND = 64
# How often files are read again of which another job has loaded some meanwhile.
TRIES = 3

# Dotted names of tables, and what is loaded into each.
Sources = Mapping[str, Source | Frame | str | Sequence[str]]


@job_on(IngestJob)
def ingest(
    spark: SparkSession, catalog: DirectoryNamespace, tables: Sources, options: IngestJob
) -> DataFrame:
    """Load source files into tables by their dotted names; one row for each file. A `Frame` is a
    DataFrame as a source.

    A file that was loaded before is left alone, also if its rows were compacted, changed or deleted
    since; `again` loads it once more. `storage` are the options of the sources' bucket, if they
    are not those of the catalog. `max_bytes` is the most that one run reads.
    """
    return frame(spark, Ingested, run(spark, catalog, tables, options))


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    tables: Sources,
    options: IngestJob,
) -> list[Ingested]:
    """The rows of `ingest`."""
    storage = options.storage
    if storage is None:
        storage = Settings.from_properties(catalog.as_properties()).storage
    sources = [
        (name, given if isinstance(given, Source) else Source(given))
        for name, given in tables.items()
        if not isinstance(given, Frame)
    ]
    plans = run_on_driver(lambda item: plan_table(catalog, *item, storage, options.again), sources)
    limit(plans, options.max_bytes)
    if not options.dry_run:
        _Rounds(catalog, spark, options).run([plan for plan in plans if plan.waiting])
    rows = [row for plan in plans for row in plan.rows()]
    for name, given in tables.items():
        if isinstance(given, Frame):
            rows.append(ingest_pieces.load_frame(catalog, name, given, dry_run=options.dry_run))
    return rows


@dataclass(frozen=True)
class _Group:
    """Files of one table that are committed together."""

    plan: IngestPlan
    files: tuple[SourceFile, ...]
    tries: int = TRIES

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


class _Rounds:
    """Rounds of reading on executors and committing on the driver, until no file is left.

    The bad records of files are committed to the reject table before the files are to theirs, so a
    crash in between loses none; the next run knows by the reject table's own ledger which it has.
    """

    def __init__(
        self, catalog: DirectoryNamespace, spark: SparkSession, options: IngestJob
    ) -> None:
        self._catalog = catalog
        self._spark = spark
        self._options = options
        self._cores = cores(spark) or 1
        self._now = datetime.now(UTC)

    def run(self, plans: Sequence[IngestPlan]) -> None:
        """Load every file that waits."""
        groups = [group for plan in plans for group in self._groups(plan)]
        total, done = sum(len(group.files) for group in groups), 0
        while groups:
            chosen, groups = self._next_round(groups)
            begun = [load for load in run_on_driver(self._begin, chosen) if load is not None]
            pieces = [piece for load in begun for piece in load.pieces]
            count = sum(len(group.files) for group in chosen)
            written = fanout.run(
                self._spark,
                self._catalog,
                ingest_pieces.write,
                pieces,
                _failed,
                doing="load files",
                weight=lambda piece: piece.size,
                max_tasks=self._options.max_tasks,
                threads=2,
                fewest_items=1,
                progress=self._progress(done, count, len(pieces), total),
            )
            done += count
            by_group = iter(written)
            for load in begun:
                load.written = list(islice(by_group, len(load.pieces)))
            again = run_on_driver(self._commit_table, _by_table(begun))
            groups = [group for of_table in again for group in of_table] + groups

    def _groups(self, plan: IngestPlan) -> Iterator[_Group]:
        files = plan.waiting
        while files:
            count = within(files, lambda file: file.size, BYTES_PER_COMMIT)
            count = min(count, self._options.files_per_commit)
            yield _Group(plan, tuple(files[:count]))
            files = files[count:]

    def _next_round(self, groups: Sequence[_Group]) -> tuple[list[_Group], list[_Group]]:
        """As many groups as keep every core busy for a while, at least one."""
        count = within(groups, lambda group: group.size, BYTES_PER_COMMIT)
        count = min(count, max(1, PIECES_PER_ROUND * self._cores))
        return list(groups[:count]), list(groups[count:])

    def _progress(self, done: int, files: int, pieces: int, total: int) -> JobProgress | None:
        progress = self._options.progress
        if progress is None:
            return None
        return lambda so_far, _: progress(done + files * so_far // max(1, pieces), total)

    def _begin(self, group: _Group) -> _BegunGroup | None:
        """Choose where the files go; a table that is not there is made."""
        plan = group.plan
        try:
            pending = self._catalog.writes.begin(plan.table, "append")
            if not pending.read_version:
                schema = plan.source.schema
                if schema is None:
                    schema = _first_schema(plan, group.files)
                pending = ingest_pieces.create(self._catalog, plan.table, schema)
            rejected = frozenset[str]()
            if plan.rejects is not None:
                known = ledger_of(self._catalog, plan.rejects)
                rejected = frozenset(
                    file.path for file in group.files if known.has(plan.reject_identity(file))
                )
        except TiltyardError as error:
            for file in group.files:
                plan.end(file, IngestAction.FAILED, error=str(error))
            return None
        size = min(max(group.size // (2 * self._cores), LEAST_PIECE), LARGEST_PIECE)
        pieces = [
            IngestPiece(
                pending,
                files,
                plan.source.options,
                plan.storage,
                plan.rejects,
                rejected,
                self._now,
            )
            for files in _portions(group.files, size)
        ]
        return _BegunGroup(group, pieces)

    def _commit_table(self, begun: Sequence[_BegunGroup]) -> list[_Group]:
        """Commit the groups of one table, one after the other; those to be read again return."""
        again = []
        for load in begun:
            try:
                following = self._commit(load)
            except TiltyardError as error:
                for file in load.group.files:
                    if file.path not in load.group.plan.done:
                        load.group.plan.end(file, IngestAction.FAILED, error=str(error))
                following = None
            finally:
                self._sweep(load)
            if following is not None:
                again.append(following)
        return again

    def _commit(self, begun: _BegunGroup) -> _Group | None:
        plan, catalog = begun.group.plan, self._catalog
        results = begun.results
        for file in begun.group.files:
            error = results[file.path].error
            if error is not None:
                plan.end(file, IngestAction.FAILED, error=error)
        good = [file for file in begun.group.files if results[file.path].error is None]
        if not good:
            return None
        if not self._commit_rejects(begun, good):
            return self._again(begun, good)
        created = catalog.writes.finish_load(
            begun.pieces[0].pending,
            begun.fragments,
            begun.pieces[0].pending.schema,
            [plan.identity(file) for file in good],
        )
        if created is None:
            return self._again(begun, good)
        begun.is_committed = True
        for file in good:
            read = results[file.path]
            plan.end(
                file,
                IngestAction.LOADED,
                rows=read.rows,
                rejected=read.rejected,
                version=created.version,
            )
        return None

    def _commit_rejects(self, begun: _BegunGroup, good: Sequence[SourceFile]) -> bool:
        """Commit the bad records of files; False if another job has committed some of them."""
        written = [piece for piece in begun.written if piece.rejects is not None]
        if not written:
            return True
        pending = written[0].rejects
        assert pending is not None
        fragments = [text for piece in written for text in piece.reject_fragments]
        rejected = begun.pieces[0].rejected
        files = [
            begun.group.plan.reject_identity(file)
            for file in good
            if begun.results[file.path].rejected and file.path not in rejected
        ]
        created = self._catalog.writes.finish_load(pending, fragments, ingest_pieces.REJECTS, files)
        begun.has_rejects = created is not None
        return begun.has_rejects

    def _again(self, begun: _BegunGroup, files: Sequence[SourceFile]) -> _Group | None:
        """Another job has loaded some of the files: what is left of them is read again."""
        group = begun.group
        plan = group.plan
        plan.present = ledger_of(self._catalog, plan.table)
        left = tuple(file for file in files if not plan.present.has(plan.identity(file)))
        if left and group.tries > 1:
            return replace(group, files=left, tries=group.tries - 1)
        for file in left:
            plan.end(
                file, IngestAction.FAILED, error="other jobs load the same files: run it again"
            )
        return None

    def _sweep(self, begun: _BegunGroup) -> None:
        """Remove what no commit has: of files that came second, and of tasks that were killed."""
        try:
            kept: Sequence[str] = begun.fragments if begun.is_committed else ()
            self._catalog.writes.sweep(begun.pieces[0].pending, kept)
            for piece in begun.written:
                if piece.rejects is not None:
                    kept = piece.reject_fragments if begun.has_rejects else ()
                    self._catalog.writes.sweep(piece.rejects, kept)
        except TiltyardError as error:
            log.warning("files of a load are left over: %s", error)


@dataclass
class _BegunGroup:
    """A group whose pieces executors read."""

    group: _Group
    pieces: list[IngestPiece]
    written: list[WrittenPiece] = field(default_factory=list)
    has_rejects: bool = False
    is_committed: bool = False

    @property
    def results(self) -> dict[str, FileRead]:
        return {file.path: file for piece in self.written for file in piece.files}

    @property
    def fragments(self) -> list[str]:
        return [text for piece in self.written for text in piece.fragments]


def _failed(piece: IngestPiece, error: str) -> WrittenPiece:
    return WrittenPiece(tuple(FileRead(file.path, error=error) for file in piece.files))


def _first_schema(plan: IngestPlan, files: Sequence[SourceFile]) -> pa.Schema:
    """The columns of the first file that can be read."""
    for at, file in enumerate(files):
        try:
            return schema_of(file, plan.storage, plan.source)
        except TiltyardError:
            if at + 1 == len(files):
                raise
    raise AssertionError("unreachable")


def _portions(files: Sequence[SourceFile], size: int) -> Iterator[tuple[SourceFile, ...]]:
    while files:
        count = min(within(files, lambda file: file.size, size), FILES_PER_PIECE)
        yield tuple(files[:count])
        files = files[count:]


def _by_table(begun: Sequence[_BegunGroup]) -> list[list[_BegunGroup]]:
    by_table: dict[int, list[_BegunGroup]] = {}
    for load in begun:
        by_table.setdefault(id(load.group.plan), []).append(load)
    return list(by_table.values())
