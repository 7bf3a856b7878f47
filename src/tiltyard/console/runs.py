"""Work in the background that a page watches: one after the other, the last ones are kept.

A run lives as long as the server does. What it changes is safe to break off and to repeat.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from tiltyard.access import Principal
from tiltyard.errors import ConcurrentModificationError, TiltyardError
from tiltyard.names import NamespaceId

log = logging.getLogger(__name__)

MOST_KEPT = 100
MOST_SHOWN = 500


class Stage(StrEnum):
    """How far a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of what a run tells."""

    name: str
    title: str
    show: Callable[[Any], str] = str
    right: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found or did: a sentence, and a row for each thing.

    A plan has `apply`, which does what the rows say, to `going` of them.
    """

    said: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    going: int = 0
    apply: Callable[[Progress], Result] | None = None


Progress = Callable[[int, int, str], None]
Work = Callable[[Progress], Result]


@dataclass
class Run:
    """One run. Its thread writes the one that is kept; pages have a copy, which does not change
    while they look at it. One that is over has its result or its error."""

    job: str
    title: str
    by: str
    inside: NamespaceId
    applies: str | None = None
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    stage: Stage = Stage.WAITING
    done: int = 0
    total: int = 0
    at: str = ""
    result: Result | None = None
    error: str | None = None
    begun_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended_at: datetime | None = None
    applied_as: str | None = None

    @property
    def is_over(self) -> bool:
        return self.stage in (Stage.DONE, Stage.FAILED)

    @property
    def is_plan(self) -> bool:
        return self.applies is None

    def note(self, done: int, total: int, at: str) -> None:
        self.done, self.total, self.at = done, total, at


class Runs:
    """The runs of one server."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="tiltyard-run")
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Run] = OrderedDict()

    def start(self, run: Run, work: Work, ended: Callable[[Run], None]) -> Run:
        """Put a run into the queue; `ended` is told when it is over, in its thread."""
        with self._lock:
            if run.applies is not None:
                plan = self._kept[run.applies]
                if plan.applied_as is not None:
                    raise ConcurrentModificationError(
                        "this plan was applied already", hint="make a new plan"
                    )
                plan.applied_as = run.id
            self._kept[run.id] = run
            over = [id for id, each in self._kept.items() if each.is_over]
            for id in over[: max(0, len(self._kept) - MOST_KEPT)]:
                del self._kept[id]
        self._pool.submit(self._carry_out, run, work, ended)
        return run

    def get(self, id: str, principal: Principal) -> Run | None:
        """A run, if somebody may see it: it kept to their namespace."""
        found = self._kept.get(id)
        return copy(found) if found is not None and principal.sees(found.inside) else None

    def recent(self, principal: Principal) -> list[Run]:
        """Newest first."""
        with self._lock:
            kept = list(self._kept.values())
        return [copy(each) for each in reversed(kept) if principal.sees(each.inside)]

    def _carry_out(self, run: Run, work: Work, ended: Callable[[Run], None]) -> None:
        run.stage = Stage.RUNNING
        try:
            run.result = work(run.note)
            run.stage = Stage.DONE
        except TiltyardError as problem:
            run.error, run.stage = str(problem), Stage.FAILED
        except Exception:
            log.exception("the run %s has failed", run.title)
            run.error = "something went wrong that should not; the server's log says what"
            run.stage = Stage.FAILED
        finally:
            run.ended_at = datetime.now(UTC)
            ended(run)
