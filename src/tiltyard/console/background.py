"""Work in the background: queries whose result is cached, and runs that a page follows.

Both end with the server. What a run changes can be interrupted and repeated.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from tiltyard.access import Principal
from tiltyard.catalog.names import NamespaceId
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.namespace import DirectoryNamespace

log = logging.getLogger(__name__)

T = TypeVar("T")

# A page waits so long for a query; a small catalog answers within it.
WAIT_SECONDS = 2.0
# A result is kept for at least so many times the duration of its query, which so takes at most a
# twentieth of the time.
MIN_AGE_FACTOR = 20
MAX_RUNS = 100

INTERNAL_ERROR = "internal error; the server's log has the details"


# -- cached queries


@dataclass(frozen=True, slots=True)
class CachedResult(Generic[T]):
    """The result of a query, when it was complete, and how long it took."""

    value: T
    at: datetime
    took: timedelta

    def is_fresh(self, max_age: timedelta) -> bool:
        return datetime.now(UTC) - self.at < max(max_age, MIN_AGE_FACTOR * self.took)


class CachedQuery(Generic[T]):
    """A query of a catalog that runs in the background, once at a time for all who ask."""

    def __init__(self, query: Callable[[DirectoryNamespace], T], max_age: timedelta) -> None:
        self._query = query
        self._max_age = max_age
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tiltyard-console")
        self._lock = threading.Lock()
        self._running: Future[CachedResult[T]] | None = None
        self._last: CachedResult[T] | None = None

    @property
    def last(self) -> CachedResult[T] | None:
        """The last result, however old."""
        return self._last

    @property
    def is_running(self) -> bool:
        return self._running is not None and not self._running.done()

    async def result(
        self, catalog: DirectoryNamespace, *, refresh: bool = False
    ) -> CachedResult[T] | None:
        """A fresh result, if there is one within two seconds; else the last one, or None.

        `refresh` runs the query even if the last result is fresh.
        """
        last = self._last
        if last is not None and not refresh and last.is_fresh(self._max_age):
            return last
        running = asyncio.wrap_future(self._start(catalog))
        done, _ = await asyncio.wait([running], timeout=WAIT_SECONDS)
        return running.result() if done else self._last

    def _start(self, catalog: DirectoryNamespace) -> Future[CachedResult[T]]:
        with self._lock:
            if self._running is None or self._running.done():
                self._running = self._pool.submit(self._run, catalog)
            return self._running

    def _run(self, catalog: DirectoryNamespace) -> CachedResult[T]:
        began = datetime.now(UTC)
        value = self._query(catalog)
        now = datetime.now(UTC)
        self._last = result = CachedResult(value, now, now - began)
        return result


# -- runs


class Stage(StrEnum):
    """How far a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the rows of a run."""

    name: str
    title: str
    format: Callable[[Any], str] = str
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run found or did: a sentence, and a row for each object.

    A plan has `apply`, which does what the rows say, to `count` of them.
    """

    summary: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    count: int = 0
    apply: Callable[[ReportProgress], RunResult] | None = None


# Called with how many are done, how many there are, and the last one.
ReportProgress = Callable[[int, int, str], None]
Work = Callable[[ReportProgress], RunResult]


@dataclass
class Run:
    """One run, which makes a plan or applies one. Its thread changes the run in the queue; pages
    get a copy. A run that is over has a result or an error."""

    job: str
    title: str
    by: str
    namespace: NamespaceId
    plan_id: str | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    stage: Stage = Stage.WAITING
    done: int = 0
    total: int = 0
    last_done: str = ""
    result: RunResult | None = None
    error: str | None = None
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    # The run that applies this plan.
    applied_by: str | None = None

    @property
    def is_over(self) -> bool:
        return self.stage in (Stage.DONE, Stage.FAILED)

    @property
    def is_plan(self) -> bool:
        return self.plan_id is None

    def report(self, done: int, total: int, last_done: str) -> None:
        self.done, self.total, self.last_done = done, total, last_done


class RunQueue:
    """The runs of one server, carried out one after the other. The last 100 are kept."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tiltyard-run")
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def start(self, run: Run, work: Work, ended: Callable[[Run], None]) -> Run:
        """Add a run to the queue; `ended` is called in its thread when it is over.

        ConcurrentModificationError if it applies a plan that was applied already.
        """
        with self._lock:
            if run.plan_id is not None:
                plan = self._runs[run.plan_id]
                if plan.applied_by is not None:
                    raise ConcurrentModificationError(
                        "this plan was applied already", hint="make a new plan"
                    )
                plan.applied_by = run.id
            self._runs[run.id] = run
            over = [id for id, kept in self._runs.items() if kept.is_over]
            for id in over[: max(0, len(self._runs) - MAX_RUNS)]:
                del self._runs[id]
        self._pool.submit(self._carry_out, run, work, ended)
        return run

    def get(self, id: str, principal: Principal) -> Run | None:
        """A run whose namespace the principal sees."""
        run = self._runs.get(id)
        return copy(run) if run is not None and principal.sees(run.namespace) else None

    def recent(self, principal: Principal) -> list[Run]:
        """The runs whose namespace the principal sees, newest first."""
        with self._lock:
            runs = list(self._runs.values())
        return [copy(run) for run in reversed(runs) if principal.sees(run.namespace)]

    def _carry_out(self, run: Run, work: Work, ended: Callable[[Run], None]) -> None:
        run.stage = Stage.RUNNING
        try:
            run.result = work(run.report)
            run.stage = Stage.DONE
        except TiltyardError as error:
            run.error, run.stage = str(error), Stage.FAILED
        except Exception:
            log.exception("the run %s has failed", run.title)
            run.error, run.stage = INTERNAL_ERROR, Stage.FAILED
        finally:
            run.ended_at = datetime.now(UTC)
            ended(run)
