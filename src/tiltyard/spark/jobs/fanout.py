"""Units of work for many items, run on the executors of a Spark session.

A unit is a function of a catalog and one item that may be run again after any crash: if an executor
dies, Spark runs its task anew. An error of one item is a result like others, and so is an item that
ends the worker process. Items are packed into tasks, many to each, and a task works on several at a
time. Works on classic sessions and on those of Spark Connect.
"""

from __future__ import annotations

import heapq
import logging
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tiltyard.errors import translate
from tiltyard.job_options import JobProgress
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.catalyst.jvm import SPARK_FAILURES
from tiltyard.spark.session import freeze_gc
from tiltyard.spark.table import cores
from tiltyard.spark.target import opened

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
_Task = Sequence[tuple[int, Any]]
_Answer = tuple[int, bool, bytes]

# As many as a pool of threads in one process has: units mostly wait for the store.
THREADS = 8
# On the driver, where requests are small.
DRIVER_THREADS = 16
# More tasks than cores, so that a core that is done early finds another.
TASKS_PER_CORE = 4
# But a task costs as much as some items, so there are more only if each has so many.
FEWEST_ITEMS = 128

# How many items may end their worker process before it is taken for the cluster's fault.
MOST_WORKER_DEATHS = 8

POLL_SECONDS = 0.2
_SCHEMA = "position long, is_error boolean, answer binary"
_JOB_GROUP = "spark.jobGroup.id"


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
    progress: JobProgress | None = None,
) -> list[R]:
    """The results of all items, in their order, collected once.

    `unit` and the items travel to executors by pickle, and each Python process there opens the
    catalog once. `failed` makes the result of an item whose unit raised, on the driver; the text
    that it gets begins with what the unit was `doing`. `max_tasks` is the most tasks there are.
    """
    if not items:
        return []
    packed = pack(items, max_tasks or _count_tasks(spark, len(items), fewest_items), weight)
    tasks = [[(position, items[position]) for position in task] for task in packed]
    work = _ExecutorWork(catalog.as_properties(), unit, doing, threads)
    results: dict[int, R] = {}
    with reported(spark, len(packed), len(items), progress):
        for position, is_error, body in _answers(spark, work, tasks, []):
            answer = pickle.loads(body)
            results[position] = failed(items[position], answer) if is_error else answer
    return [results[position] for position in range(len(items))]


def run_on_driver(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """The answers for all items, several of them asked at a time, by threads of the driver."""
    if not items:
        return []
    with ThreadPoolExecutor(min(DRIVER_THREADS, len(items))) as pool:
        return list(pool.map(work, items))


def _answers(
    spark: SparkSession, work: _ExecutorWork, tasks: Sequence[_Task], killers: list[int]
) -> Iterator[_Answer]:
    """What executors answer. If Spark gives a job up, its halves are tried each by itself, until
    the item that is to blame is alone: then that is its answer. `killers` collects those items."""
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    try:
        answers = numbers.mapInArrow(work.of(tasks), _SCHEMA).collect()
    except SPARK_FAILURES as error:
        items = [item for task in tasks for item in task]
        log.warning("a job over %d items was given up: %s", len(items), error)
        if len(items) == 1:
            position = items[0][0]
            killers.append(position)
            if len(killers) > MOST_WORKER_DEATHS:
                raise
            message = f"could not {work.doing}: the worker process died while it worked on it"
            yield position, True, pickle.dumps(message)
            return
        half = len(tasks) // 2
        halves = (tasks[:half], tasks[half:]) if half else ([[item]] for item in items)
        for part in halves:
            yield from _answers(spark, work, part, killers)
    else:
        yield from ((row.position, row.is_error, row.answer) for row in answers)


@dataclass(frozen=True)
class _ExecutorWork:
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
            for number in (value for batch in batches for value in batch.column(0).to_pylist()):
                task = tasks[number]
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


# -- which items share a task


def _count_tasks(spark: SparkSession, items: int, fewest_items: int) -> int:
    at_once = cores(spark) or os.cpu_count() or 1
    return at_once * max(1, min(TASKS_PER_CORE, items // (at_once * fewest_items)))


def pack(
    items: Sequence[T], tasks: int, weight: Callable[[T], float] | None = None
) -> list[list[int]]:
    """The positions of items for each task, at most so many tasks and none of them empty.

    The heaviest goes first, always to the task that has least, so that no task ends much later
    than the others. Without weights all items weigh the same.
    """
    weights = [1.0 if weight is None else max(0.0, float(weight(item))) for item in items]
    order = sorted(range(len(items)), key=lambda position: -weights[position])
    loads = [(0.0, 0, number) for number in range(min(tasks, len(items)))]
    packed: list[list[int]] = [[] for _ in loads]
    for position in order:
        load, count, number = heapq.heappop(loads)
        packed[number].append(position)
        heapq.heappush(loads, (load + weights[position], count + 1, number))
    return packed


def within(items: Sequence[T], weight: Callable[[T], int], most: int | None) -> int:
    """How many items, from the first on, weigh no more than `most` together; all if it is None.

    One that alone is heavier than that is taken if it comes first, or it never would be.
    """
    if most is None:
        return len(items)
    total = 0
    for count, item in enumerate(items):
        total += weight(item)
        if total > most and count:
            return count
    return len(items)


# -- how far a job is


@contextmanager
def reported(
    spark: SparkSession, tasks: int, items: int, progress: JobProgress | None
) -> Iterator[None]:
    """Report how many items are done, as far as finished tasks show, until what is inside ends.

    Spark counts finished tasks alone, so the number is about right, and moves in steps.
    """
    if progress is None:
        yield
        return

    def report(finished: int) -> None:
        progress(items * min(finished, tasks) // tasks, items)

    report(0)
    try:
        context = spark.sparkContext
    except PySparkException:  # Spark Connect, which reports by itself
        with _reported_by_connect(spark, report):
            yield
    else:
        with _reported_by_polling(context, report):
            yield
    report(tasks)


@contextmanager
def _reported_by_connect(spark: SparkSession, report: Callable[[int], None]) -> Iterator[None]:
    def handler(stages: Any, **_: Any) -> None:
        report(sum(stage.num_completed_tasks for stage in stages or ()))

    spark.registerProgressHandler(handler)  # type: ignore[arg-type] # any callable does
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)  # type: ignore[arg-type]


@contextmanager
def _reported_by_polling(context: Any, report: Callable[[int], None]) -> Iterator[None]:
    """Spark knows the jobs of a group, so this thread gets one of its own."""
    before, group = context.getLocalProperty(_JOB_GROUP), f"tiltyard-{uuid4()}"
    ended = threading.Event()
    polling = threading.Thread(target=_poll, args=(context, group, report, ended), daemon=True)
    context.setLocalProperty(_JOB_GROUP, group)
    polling.start()
    try:
        yield
    finally:
        ended.set()
        polling.join()
        context.setLocalProperty(_JOB_GROUP, before)


def _poll(context: Any, group: str, report: Callable[[int], None], ended: threading.Event) -> None:
    tracker = context.statusTracker()
    while not ended.wait(POLL_SECONDS):
        try:
            jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
            numbers = (number for job in jobs if job for number in job.stageIds)
            stages = (tracker.getStageInfo(number) for number in numbers)
            report(sum(stage.numCompletedTasks for stage in stages if stage))
        except Exception as error:  # a report is not worth a failed job
            log.debug("could not tell how far the job is: %s", error)
            return
