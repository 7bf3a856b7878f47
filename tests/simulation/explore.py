"""Exhaustive search: every state that a scenario can reach, nearest first, so that the first
schedule that goes wrong is also a shortest one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from unittest import mock

from tests.simulation import actors
from tests.simulation.actors import Code
from tests.simulation.newcomer import Newcomer, newcomer_for
from tests.simulation.oracle import Violation
from tests.simulation.scenarios import PLAIN, Scenario, machine
from tests.simulation.search import Choice, Machine, State
from tiltyard.store import Retry, read_back
from tiltyard.versions import management


@dataclass
class SearchResult:
    """What a search came to. One that ran into a limit has seen all schedules of `depth` steps."""

    scenario: Scenario
    states: int = 0
    depth: int = 0
    steps: int = 0
    faults: int = 0
    resumed: int = 0
    seconds: float = 0.0
    complete: bool = True
    violation: Violation | None = None
    choices: list[Choice] = field(default_factory=list)
    views: set[Any] = field(default_factory=set)

    def goes_on(self) -> bool:
        return self.complete and self.violation is None


class _OneByOne:
    """A pool without threads: the scheduler's actors are no threads either."""

    def __init__(self, threads: int) -> None:
        self.map = map

    def __enter__(self) -> _OneByOne:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""


@contextmanager
def no_waiting(tries: int = 2) -> Iterator[None]:
    """Doubts are resolved at once, for time is the scheduler's. How often an operation starts over
    is bounded more tightly than in earnest: two that disturb each other do so all over again."""
    quick = partial(Retry, sleep=lambda _: None, dice=lambda: 0.5)
    with (
        mock.patch.object(logging.getLogger("tiltyard.catalog.boundary"), "disabled", True),
        mock.patch.object(logging.getLogger("tiltyard.versions.file_versions"), "disabled", True),
        mock.patch.object(read_back, "Retry", quick),
        mock.patch.object(management, "ThreadPoolExecutor", _OneByOne),
        mock.patch.object(logging.getLogger("tiltyard.versions.row_versions"), "disabled", True),
        mock.patch.object(actors, "TRIES", tries),
    ):
        yield


def explore(
    scenario: Scenario,
    code: Code = PLAIN,
    *,
    most_states: int = 400_000,
    most_seconds: float = 1_000.0,
    checks_versions: bool = True,
    resumes: bool = True,
    merges: bool = True,
    keeps_views: bool = False,
) -> SearchResult:
    """Search a scenario until something is wrong or nothing is left."""
    result = SearchResult(scenario)
    began = time.monotonic()
    with no_waiting():
        within = machine(scenario, code, checks_versions=checks_versions, merges=merges)
        newcomer = newcomer_for(scenario.arbiter, code) if resumes else None
        _search(within, result, newcomer, most_states, began + most_seconds)
        if keeps_views:
            result.views = set(within.views)
    result.seconds = time.monotonic() - began
    return result


def _search(
    within: Machine, result: SearchResult, newcomer: Newcomer | None, most_states: int, until: float
) -> None:
    came_from: dict[State, tuple[State, Choice] | None] = {within.start: None}
    layer = [within.start]
    while layer and result.goes_on():
        following: list[State] = []
        for state in layer:
            _visit(within, state, came_from, following, result, newcomer)
            result.complete = len(came_from) <= most_states and time.monotonic() < until
            if not result.goes_on():
                break
        else:
            result.depth += 1
        layer = following
    result.states = len(came_from)
    result.resumed = newcomer.resumed if newcomer else 0


def _visit(
    within: Machine,
    state: State,
    came_from: dict[State, tuple[State, Choice] | None],
    reached: list[State],
    result: SearchResult,
    newcomer: Newcomer | None,
) -> None:
    for choice in within.choices(state):
        result.steps += 1
        result.faults += choice.how in ("late", "twice")
        following = within.take(state, choice)
        if isinstance(following, Violation):
            result.violation, result.choices = following, [*_path(came_from, state), choice]
            return
        if following in came_from:
            continue
        came_from[following] = (state, choice)
        reached.append(following)
        stuck = newcomer.check(within, following) if newcomer else None
        if stuck:
            result.violation, result.choices = stuck, _path(came_from, following)
            return


def _path(came_from: dict[State, tuple[State, Choice] | None], state: State) -> list[Choice]:
    choices = []
    step = came_from[state]
    while step is not None:
        choices.append(step[1])
        step = came_from[step[0]]
    return choices[::-1]
