"""Exhaustive search: every state that a scenario can reach, nearest first, so that the first
schedule that goes wrong is also a shortest one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from unittest import mock

from tests.simulation.oracle import Violation
from tests.simulation.scenarios import PLAIN, Code, Scenario, machine
from tests.simulation.search import Choice, Machine, State
from tests.simulation.settle import Settler
from tiltyard.lifecycle import markers, revival
from tiltyard.store import Retry, settle


@dataclass
class Found:
    """What a search came to. `complete` is false if it ran into the limit of states."""

    scenario: Scenario
    states: int = 0
    steps: int = 0
    settled: int = 0
    seconds: float = 0.0
    complete: bool = True
    violation: Violation | None = None
    choices: list[Choice] = field(default_factory=list)


@contextmanager
def no_waiting(tries: int = 2) -> Iterator[None]:
    """Doubts are settled at once, for time is the scheduler's. How often an operation starts over
    is bounded more tightly than in earnest: two that disturb each other do so all over again."""
    quick = partial(Retry, sleep=lambda _: None, dice=lambda: 0.5)
    with (
        mock.patch.object(settle, "Retry", quick),
        mock.patch.object(revival, "TRIES", tries),
        mock.patch.object(markers, "TRIES", tries),
    ):
        yield


def explore(
    scenario: Scenario,
    code: Code = PLAIN,
    *,
    most_states: int = 400_000,
    checks_versions: bool = True,
    settles: bool = True,
) -> Found:
    """Search a scenario until something is wrong or nothing is left."""
    found = Found(scenario)
    began = time.monotonic()
    with no_waiting():
        _search(
            machine(scenario, code, checks_versions=checks_versions),
            found,
            most_states,
            Settler(scenario.arbiter, code) if settles else None,
        )
    found.seconds = time.monotonic() - began
    return found


def _search(within: Machine, found: Found, most_states: int, settler: Settler | None) -> None:
    came_from: dict[State, tuple[State, Choice] | None] = {within.start: None}
    todo = deque([within.start])
    while todo:
        state = todo.popleft()
        for choice in within.choices(state):
            found.steps += 1
            following = within.take(state, choice)
            if isinstance(following, Violation):
                found.violation = following
                found.choices = [*_path(came_from, state), choice]
                break
            if following in came_from:
                continue
            came_from[following] = (state, choice)
            stuck = settler.check(within, following) if settler else None
            if stuck:
                found.violation, found.choices = stuck, _path(came_from, following)
                break
            todo.append(following)
        if found.violation or len(came_from) > most_states:
            found.complete = not todo
            break
    found.states = len(came_from)
    found.settled = settler.settled if settler else 0


def _path(came_from: dict[State, tuple[State, Choice] | None], state: State) -> list[Choice]:
    choices = []
    step = came_from[state]
    while step is not None:
        choices.append(step[1])
        step = came_from[step[0]]
    return choices[::-1]
