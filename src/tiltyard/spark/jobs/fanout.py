"""Units of work for many tables, run on the executors of a Spark session.

A unit is a function of a catalog and one item that may be run again after any crash: if an executor
dies, Spark runs its task anew. An error of one item is a result like others, and so is an item that
kills whoever works on it. Items are packed into tasks, many to each, and a task works on several at
a time. Works on classic sessions and on those of Spark Connect.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from tiltyard.errors import InvalidInputError, translate
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.catalyst.jvm import SPARK_FAILURES
from tiltyard.spark.jobs.packing import pack
from tiltyard.spark.jobs.watching import Progress, watched
from tiltyard.spark.session import session
from tiltyard.spark.table import cores
from tiltyard.spark.target import opened
from tiltyard.spark.tuning import freeze_gc

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
_Task = Sequence[tuple[int, Any]]
_Answer = tuple[int, bool, bytes]
Place = DirectoryNamespace | Mapping[str, Any] | str | os.PathLike[str]

# As many as a pool of threads in one process has: units mostly wait for the store.
THREADS = 8
# More tasks than cores, so that a core that is done early finds another.
ROUNDS = 4
# But a task costs as much as some items, so there are more only if each has so many.
FEWEST_ITEMS = 128

# How many items may kill whoever works on them before it is taken for the cluster's fault.
MOST_DEADLY = 8

_SCHEMA = "position long, is_error boolean, answer binary"


def catalog_of(place: Place) -> DirectoryNamespace:
    """A catalog, from itself, its properties, or its root."""
    if isinstance(place, DirectoryNamespace):
        return place
    if isinstance(place, Mapping):
        return DirectoryNamespace(**place)
    return DirectoryNamespace(root=place)


def session_of(spark: SparkSession | None) -> SparkSession:
    """The session that was given, or else an embedded one."""
    return session() if spark is None else spark


def run(
    spark: SparkSession,
    catalog: DirectoryNamespace,
    unit: Callable[[DirectoryNamespace, T], R],
    items: Sequence[T],
    failed: Callable[[T, str], R],
    *,
    doing: str = "maintain a table",
    weight: Callable[[T], float] | None = None,
    max_tasks: int | None = None,
    threads: int = THREADS,
    fewest_items: int = FEWEST_ITEMS,
    progress: Progress | None = None,
) -> list[R]:
    """The results of all items, in their order, collected once.

    `unit` and the items travel to executors by pickle, and each Python process there opens the
    catalog once. `failed` makes the result of an item whose unit raised, on the driver; the text
    that it gets begins with what the unit was `doing`. `max_tasks` is the most tasks there are.
    """
    if max_tasks is not None and max_tasks < 1:
        raise InvalidInputError("max_tasks must be at least 1")
    if not items:
        return []
    packed = pack(items, max_tasks or _tasks(spark, len(items), fewest_items), weight)
    tasks = [[(position, items[position]) for position in task] for task in packed]
    work = _Work(catalog.as_properties(), unit, doing, threads)
    found: dict[int, R] = {}
    with watched(spark, len(packed), len(items), progress):
        for position, is_error, body in _answers(spark, work, tasks, []):
            answer = pickle.loads(body)
            found[position] = failed(items[position], answer) if is_error else answer
    return [found[position] for position in range(len(items))]


def _answers(
    spark: SparkSession, work: _Work, tasks: Sequence[_Task], deadly: list[int]
) -> Iterator[_Answer]:
    """What executors answer. If Spark gives a job up, its halves are tried each by itself, until
    the item that is to blame is alone: then that is its answer."""
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    try:
        answers = numbers.mapInArrow(work.of(tasks), _SCHEMA).collect()
    except SPARK_FAILURES as error:
        items = [each for task in tasks for each in task]
        log.warning("a job over %d items was given up: %s", len(items), error)
        if len(items) == 1:
            deadly.append(items[0][0])
            if len(deadly) > MOST_DEADLY:
                raise
            said = f"could not {work.doing}: whoever worked on it died"
            yield items[0][0], True, pickle.dumps(said)
            return
        half = len(tasks) // 2
        halves = (tasks[:half], tasks[half:]) if half else ([[each]] for each in items)
        for each in halves:
            yield from _answers(spark, work, each, deadly)
    else:
        yield from ((row.position, row.is_error, row.answer) for row in answers)


def _tasks(spark: SparkSession, items: int, fewest_items: int) -> int:
    at_once = cores(spark) or os.cpu_count() or 1
    return at_once * max(1, min(ROUNDS, items // (at_once * fewest_items)))


@dataclass(frozen=True)
class _Work:
    """What an executor does. Picklable."""

    properties: Mapping[str, str]
    unit: Callable[[DirectoryNamespace, Any], Any]
    doing: str
    threads: int

    def of(
        self, tasks: Sequence[_Task]
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """A function of the numbers of tasks that an executor is given."""

        def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            freeze_gc()
            catalog = opened(self.properties)
            numbers = (each for batch in batches for each in batch.column(0).to_pylist())
            for task in (tasks[number] for number in numbers):
                with ThreadPoolExecutor(min(self.threads, len(task))) as pool:
                    running = {pool.submit(self._answer, catalog, item): at for at, item in task}
                    for done in as_completed(running):
                        yield _row(running[done], *done.result())

        return work

    def _answer(self, catalog: DirectoryNamespace, item: Any) -> tuple[bool, bytes]:
        try:
            return False, pickle.dumps(self.unit(catalog, item))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of Lance is no Exception, and the others go on
            secrets = Settings.from_properties(self.properties).secrets
            ours = translate(error, self.doing, secrets)
            log.warning("%s", ours)
            return True, pickle.dumps(str(ours))


def _row(position: int, is_error: bool, answer: bytes) -> pa.RecordBatch:
    return pa.record_batch({"position": [position], "is_error": [is_error], "answer": [answer]})
