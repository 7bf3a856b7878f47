"""How far a job of Spark is, told to the driver while it waits for the answer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]

PAUSE = 0.2
_GROUP = "spark.jobGroup.id"


@contextmanager
def watched(
    spark: SparkSession, tasks: int, items: int, progress: Progress | None
) -> Iterator[None]:
    """Tell how many items are done, as far as finished tasks say, until what is inside ends.

    Tasks that finished are all that Spark tells, so the number is about right, and moves in steps.
    """
    if progress is None:
        yield
        return

    def told(finished: int) -> None:
        progress(items * min(finished, tasks) // tasks, items)

    told(0)
    try:
        context = spark.sparkContext
    except PySparkException:  # Spark Connect, which tells by itself
        with _connected(spark, told):
            yield
    else:
        with _classic(context, told):
            yield
    told(tasks)


@contextmanager
def _connected(spark: SparkSession, told: Callable[[int], None]) -> Iterator[None]:
    def handler(stages: Any, **_: Any) -> None:
        told(sum(each.num_completed_tasks for each in stages or ()))

    spark.registerProgressHandler(handler)  # type: ignore[arg-type] # any callable does
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)  # type: ignore[arg-type]


@contextmanager
def _classic(context: Any, told: Callable[[int], None]) -> Iterator[None]:
    """Spark knows the jobs of a group, so this thread gets one of its own."""
    before, group = context.getLocalProperty(_GROUP), f"tiltyard-{uuid4()}"
    ended = threading.Event()
    watching = threading.Thread(target=_poll, args=(context, group, told, ended), daemon=True)
    context.setLocalProperty(_GROUP, group)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()
        context.setLocalProperty(_GROUP, before)


def _poll(context: Any, group: str, told: Callable[[int], None], ended: threading.Event) -> None:
    tracker = context.statusTracker()
    while not ended.wait(PAUSE):
        try:
            jobs = (tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(group))
            stages = (number for job in jobs if job for number in job.stageIds)
            found = (tracker.getStageInfo(number) for number in stages)
            told(sum(each.numCompletedTasks for each in found if each))
        except Exception as error:  # to watch is not worth a failed job
            log.debug("could not tell how far the job is: %s", error)
            return
