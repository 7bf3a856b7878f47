"""The work of a load: rounds of reading on executors and committing on the driver.

The bad records of files are committed to the reject table before the files are to theirs, so a
crash in between loses none; the next run knows by the reject table's own ledger which it has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from tiltyard.errors import TiltyardError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.jobs import fanout, loading
from tiltyard.spark.jobs.decoding import schema_of
from tiltyard.spark.jobs.ingest_plan import Action, Plan, ledger_of
from tiltyard.spark.jobs.loading import FileRead, Piece, Written
from tiltyard.spark.jobs.packing import within
from tiltyard.spark.jobs.sources import SourceFile
from tiltyard.spark.jobs.watching import Progress
from tiltyard.spark.table import cores

log = logging.getLogger(__name__)

BYTES_PER_COMMIT = 16 * 1024**3
FILES_PER_PIECE = 500
LEAST_PIECE, LARGEST_PIECE = 8 * 1024**2, 256 * 1024**2
# Pieces for each core between two rounds of commits.
PIECES_PER_ROUND = 64
DRIVER_THREADS = 16
# How often files are read again of which another job has loaded some meanwhile.
TRIES = 3

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class _Group:
    """Files of one table that are committed together."""

    plan: Plan
    files: tuple[SourceFile, ...]
    tries: int = TRIES

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)


class Work:
    """Rounds of reading on executors and committing on the driver, until no file is left."""

    def __init__(
        self,
        catalog: DirectoryNamespace,
        spark: SparkSession,
        files_per_commit: int,
        max_tasks: int | None,
        progress: Progress | None,
    ) -> None:
        self._catalog = catalog
        self._spark = spark
        self._files_per_commit = files_per_commit
        self._max_tasks = max_tasks
        self._progress = progress
        self._cores = cores(spark) or 1
        self._now = datetime.now(UTC)

    def run(self, plans: Sequence[Plan]) -> None:
        """Load every file that waits."""
        groups = [group for plan in plans for group in self._groups(plan)]
        total, done = sum(len(each.files) for each in groups), 0
        while groups:
            chosen, groups = self._next_round(groups)
            begun = [each for each in in_threads(self._begin, chosen) if each is not None]
            pieces = [piece for each in begun for piece in each.pieces]
            count = sum(len(each.files) for each in chosen)
            written = fanout.run(
                self._spark,
                self._catalog,
                loading.write,
                pieces,
                _failed,
                doing="load files",
                weight=lambda piece: piece.size,
                max_tasks=self._max_tasks,
                threads=2,
                fewest_items=1,
                progress=self._told(done, count, len(pieces), total),
            )
            done += count
            by_group = iter(written)
            for each in begun:
                each.written = list(islice(by_group, len(each.pieces)))
            again = in_threads(self._commit_table, _by_table(begun))
            groups = [each for some in again for each in some] + groups

    def _groups(self, plan: Plan) -> Iterator[_Group]:
        files = plan.waiting
        while files:
            count = within(files, lambda each: each.size, BYTES_PER_COMMIT)
            count = min(count, self._files_per_commit)
            yield _Group(plan, tuple(files[:count]))
            files = files[count:]

    def _next_round(self, groups: Sequence[_Group]) -> tuple[list[_Group], list[_Group]]:
        """As many groups as keep every core busy for a while, at least one."""
        count = within(groups, lambda each: each.size, BYTES_PER_COMMIT)
        count = min(count, max(1, PIECES_PER_ROUND * self._cores))
        return list(groups[:count]), list(groups[count:])

    def _told(self, done: int, files: int, pieces: int, total: int) -> Progress | None:
        progress = self._progress
        if progress is None:
            return None
        return lambda so_far, _: progress(done + files * so_far // max(1, pieces), total)

    def _begin(self, group: _Group) -> _Begun | None:
        """Choose where the files go; a table that is not there is made."""
        plan = group.plan
        try:
            pending = self._catalog.writes.begin(plan.table, "append")
            if not pending.read_version:
                schema = plan.source.schema
                if schema is None:
                    schema = _first_schema(plan, group.files)
                pending = loading.create(self._catalog, plan.table, schema)
            rejected = frozenset[str]()
            if plan.rejects is not None:
                known = ledger_of(self._catalog, plan.rejects)
                every = group.files
                rejected = frozenset(e.path for e in every if known.has(plan.reject_identity(e)))
        except TiltyardError as error:
            for each in group.files:
                plan.end(each, Action.FAILED, error=str(error))
            return None
        size = min(max(group.size // (2 * self._cores), LEAST_PIECE), LARGEST_PIECE)
        pieces = [
            Piece(
                pending,
                files,
                plan.source.mapped,
                plan.storage,
                plan.rejects,
                rejected,
                self._now,
            )
            for files in _portions(group.files, size)
        ]
        return _Begun(group, pieces)

    def _commit_table(self, begun: Sequence[_Begun]) -> list[_Group]:
        """Commit the groups of one table, one after the other; those to be read again return."""
        again = []
        for each in begun:
            try:
                following = self._commit(each)
            except TiltyardError as error:
                for file in each.group.files:
                    if file.path not in each.group.plan.done:
                        each.group.plan.end(file, Action.FAILED, error=str(error))
                following = None
            finally:
                self._sweep(each)
            if following is not None:
                again.append(following)
        return again

    def _commit(self, begun: _Begun) -> _Group | None:
        plan, catalog = begun.group.plan, self._catalog
        results = begun.results
        for file in begun.group.files:
            error = results[file.path].error
            if error is not None:
                plan.end(file, Action.FAILED, error=error)
        good = [each for each in begun.group.files if results[each.path].error is None]
        if not good:
            return None
        if not self._commit_rejects(begun, good):
            return self._again(begun, good)
        created = catalog.writes.finish_load(
            begun.pieces[0].pending,
            begun.fragments,
            begun.pieces[0].pending.schema,
            [plan.identity(each) for each in good],
        )
        if created is None:
            return self._again(begun, good)
        begun.is_committed = True
        for each in good:
            found = results[each.path]
            plan.end(
                each,
                Action.LOADED,
                rows=found.rows,
                rejected=found.rejected,
                version=created.version,
            )
        return None

    def _commit_rejects(self, begun: _Begun, good: Sequence[SourceFile]) -> bool:
        """Whether the bad records of files are in the reject table, be it by another's hand."""
        written = [each for each in begun.written if each.rejects is not None]
        if not written:
            return True
        pending = written[0].rejects
        assert pending is not None
        fragments = [text for each in written for text in each.reject_fragments]
        rejected = begun.pieces[0].rejected
        files = [
            begun.group.plan.reject_identity(each)
            for each in good
            if begun.results[each.path].rejected and each.path not in rejected
        ]
        found = self._catalog.writes.finish_load(pending, fragments, loading.REJECTS, files)
        begun.has_rejects = found is not None
        return begun.has_rejects

    def _again(self, begun: _Begun, files: Sequence[SourceFile]) -> _Group | None:
        """Another job has loaded some of the files: what is left of them is read again."""
        group = begun.group
        plan = group.plan
        plan.present = ledger_of(self._catalog, plan.table)
        left = tuple(each for each in files if not plan.present.has(plan.identity(each)))
        if left and group.tries > 1:
            return replace(group, files=left, tries=group.tries - 1)
        for each in left:
            plan.end(each, Action.FAILED, error="other jobs load the same files: run it again")
        return None

    def _sweep(self, begun: _Begun) -> None:
        """Remove what no commit has: of files that came second, and of tasks that were killed."""
        try:
            kept: Sequence[str] = begun.fragments if begun.is_committed else ()
            self._catalog.writes.sweep(begun.pieces[0].pending, kept)
            for each in begun.written:
                if each.rejects is not None:
                    kept = each.reject_fragments if begun.has_rejects else ()
                    self._catalog.writes.sweep(each.rejects, kept)
        except TiltyardError as error:
            log.warning("files of a load are left over: %s", error)


@dataclass
class _Begun:
    """A group whose pieces executors read."""

    group: _Group
    pieces: list[Piece]
    written: list[Written] = field(default_factory=list)
    has_rejects: bool = False
    is_committed: bool = False

    @property
    def results(self) -> dict[str, FileRead]:
        return {file.path: file for each in self.written for file in each.files}

    @property
    def fragments(self) -> list[str]:
        return [text for each in self.written for text in each.fragments]


def _failed(piece: Piece, error: str) -> Written:
    return Written(tuple(FileRead(each.path, error=error) for each in piece.files))


def _first_schema(plan: Plan, files: Sequence[SourceFile]) -> pa.Schema:
    """The columns of the first file that can be read."""
    for at, file in enumerate(files):
        try:
            return schema_of(file, plan.storage, plan.source.columns, plan.source.delimiter)
        except TiltyardError:
            if at + 1 == len(files):
                raise
    raise AssertionError("unreachable")


def _portions(files: Sequence[SourceFile], size: int) -> Iterator[tuple[SourceFile, ...]]:
    while files:
        count = min(within(files, lambda each: each.size, size), FILES_PER_PIECE)
        yield tuple(files[:count])
        files = files[count:]


def _by_table(begun: Sequence[_Begun]) -> list[list[_Begun]]:
    found: dict[int, list[_Begun]] = {}
    for each in begun:
        found.setdefault(id(each.group.plan), []).append(each)
    return list(found.values())


def in_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The answers for all items, several of them asked at a time."""
    if not items:
        return []
    with ThreadPoolExecutor(min(DRIVER_THREADS, len(items))) as pool:
        return list(pool.map(work, items))
