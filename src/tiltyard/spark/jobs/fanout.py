"""Units of work for many tables, run on the executors of a Spark session.

A unit is a function of a catalog and one item that may be run again after any crash: if an executor
dies, Spark runs its task anew. An error of one item is a result like others. Items are packed into
tasks, many to each, and a task works on several at a time. Works on classic sessions and on those
of Spark Connect.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from tiltyard.errors import InvalidInputError, translate
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.jobs.packing import pack
from tiltyard.spark.jobs.watching import Progress, watched
from tiltyard.spark.session import session
from tiltyard.spark.table import cores
from tiltyard.spark.target import opened

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")
Place = DirectoryNamespace | Mapping[str, Any] | str | os.PathLike[str]

# Units mostly wait for the store, and Lance brings threads of its own.
THREADS = 4
# More tasks than cores, so that a core that is done early finds another.
ROUNDS = 4
# A task costs some hundredths of a second, so one with fewer items does not pay.
FEWEST_ITEMS = 8

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
    work = _work(
        catalog.as_properties(),
        unit,
        [[(position, items[position]) for position in task] for task in packed],
        doing,
        threads,
    )
    found: dict[int, R] = {}
    with watched(spark, len(packed), len(items), progress):
        numbers = spark.range(0, len(packed), 1, len(packed))
        for row in numbers.mapInArrow(work, _SCHEMA).collect():
            answer = pickle.loads(row.answer)
            found[row.position] = failed(items[row.position], answer) if row.is_error else answer
    return [found[position] for position in range(len(items))]


def _tasks(spark: SparkSession, items: int, fewest_items: int) -> int:
    at_once = cores(spark) or os.cpu_count() or 1
    return max(1, min(at_once * ROUNDS, max(at_once, items // fewest_items)))


def _work(
    properties: Mapping[str, str],
    unit: Callable[[DirectoryNamespace, T], R],
    tasks: Sequence[Sequence[tuple[int, T]]],
    doing: str,
    threads: int,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What an executor does with the numbers of tasks that it is given."""

    secrets = Settings.from_properties(properties).secrets

    def guarded(catalog: DirectoryNamespace, item: T) -> tuple[bool, bytes]:
        try:
            return False, pickle.dumps(unit(catalog, item))
        except Exception as error:  # of whatever kind: the others go on
            ours = translate(error, doing, secrets)
            log.warning("%s", ours)
            return True, pickle.dumps(str(ours))

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        catalog = opened(properties)
        numbers = (each for batch in batches for each in batch.column(0).to_pylist())
        for task in (tasks[number] for number in numbers):
            with ThreadPoolExecutor(min(threads, len(task))) as pool:
                running = {pool.submit(guarded, catalog, item): at for at, item in task}
                for done in as_completed(running):
                    is_error, answer = done.result()
                    yield _row(running[done], is_error, answer)

    return work


def _row(position: int, is_error: bool, answer: bytes) -> pa.RecordBatch:
    return pa.record_batch({"position": [position], "is_error": [is_error], "answer": [answer]})
