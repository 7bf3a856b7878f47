"""Random schedules, beyond what can be searched: five actors, several faults, crashes, clocks that
disagree. A schedule is its seed: the same seed is the same scenario and the same steps.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from tests.simulation.actors import Code
from tests.simulation.explore import no_waiting
from tests.simulation.newcomer import Newcomer, newcomer_for
from tests.simulation.oracle import Violation
from tests.simulation.scenarios import PLAIN, Scenario, machine
from tests.simulation.search import Bounds, Choice, Machine, State

# So many seeds in a row share a scenario, and what was interned for it.
BLOCK = 200
ACTORS = 5
TRIES = 4
FAULTS = 3
MOST_STEPS = 2_000

_COMMITTED = [
    ("create",),
    ("create", "append", "append"),
    ("create", "update", "append", "append", "delete2"),
]
_STARTS = {
    "marker": [
        (),
        ("create",),
        ("create", "drop"),
        ("create", "drop", "purge"),
        ("declare",),
        ("create", "rename"),
        ("create", "deregister", "register"),
    ],
    "rows": [(), ("create",), ("create", "drop"), ("create", "drop", "create")],
    "versions": _COMMITTED,
    "versions of a row": _COMMITTED,
}
_COMMITS = {
    "append": 4,
    "update": 4,
    "restore1": 1,
    "collect": 4,
    "delete2": 1,
    "delete_head": 1,
    "scrub": 2,
    "tag1": 1,
    "tag2": 1,
    "drop": 1,
    "undrop": 1,
    "purge": 1,
    "create": 1,
}
# The first of each pair is as likely as its number.
_VERBS = {
    "marker": {
        "create": 4,
        "drop": 3,
        "purge": 4,
        "undrop": 2,
        "undrop_newer": 1,
        "look": 1,
        "zombie": 1,
        "hold": 1,
        "declare": 1,
        "deregister": 1,
        "register": 1,
        "rename": 2,
        "undrop_as": 1,
        "rename_back": 1,
        "drop_other": 1,
        "undrop_other": 1,
        "deregister_other": 1,
        "purge_other": 1,
        "drop_named": 1,
        "undrop_named": 1,
    },
    "rows": {
        "create": 3,
        "drop": 3,
        "purge": 3,
        "undrop": 2,
        "undrop_as": 1,
        "rename": 2,
        "hold": 1,
    },
    "versions": _COMMITS,
    "versions of a row": _COMMITS,
}
_ARBITERS = ("marker", "versions", "marker", "rows", "marker", "versions of a row")


@dataclass
class Sampled:
    """What a number of random schedules came to."""

    schedules: int = 0
    steps: int = 0
    faults: int = 0
    crashes: int = 0
    seconds: float = 0.0
    seed: int | None = None
    violation: Violation | None = None
    choices: list[Choice] = field(default_factory=list)


def scenario_of(seed: int) -> Scenario:
    """Half of the blocks are about tables at V1 locations: there is most to find there."""
    block = seed // BLOCK
    dice = random.Random(f"scenario {block}")
    arbiter = _ARBITERS[block % len(_ARBITERS)]
    weights = _VERBS[arbiter]

    def verbs() -> tuple[str, ...]:
        chosen = dice.choices(list(weights), list(weights.values()), k=dice.choice([1, 1, 2]))
        return tuple(dict.fromkeys(chosen))  # an actor creates once: its letter tells its data

    return Scenario(
        arbiter,
        dice.choice(_STARTS[arbiter]),
        tuple(verbs() for _ in range(ACTORS)),
        Bounds(FAULTS, everywhere=True),
        tuple(dice.choice([0, 0, 0, 5_000, -5_000]) for _ in range(ACTORS)),
    )


def sample(first: int, count: int, code: Code = PLAIN, *, seconds: float = float("inf")) -> Sampled:
    """Run schedules, one for each seed, until one goes wrong or time is up."""
    sampled = Sampled()
    began = time.monotonic()
    with no_waiting(TRIES):
        within: Machine | None = None
        for seed in range(first, first + count):
            if within is None or seed % BLOCK == 0:
                scenario = scenario_of(seed)
                within = machine(scenario, code)
                newcomer = newcomer_for(scenario.arbiter, code)
            choices, violation = _run(within, newcomer, random.Random(seed), sampled)
            sampled.schedules += 1
            if violation is not None:
                sampled.seed, sampled.violation, sampled.choices = seed, violation, choices
                break
            if time.monotonic() - began > seconds:
                break
    sampled.seconds = time.monotonic() - began
    return sampled


def choices_of(seed: int) -> list[Choice]:
    """The steps of a seed's schedule."""
    scenario = scenario_of(seed)
    with no_waiting(TRIES):
        newcomer = newcomer_for(scenario.arbiter, PLAIN)
        return _run(machine(scenario), newcomer, random.Random(seed), Sampled())[0]


def _run(
    within: Machine, newcomer: Newcomer, dice: random.Random, sampled: Sampled
) -> tuple[list[Choice], Violation | None]:
    state, choices = within.start, list[Choice]()
    # Some schedules switch at every step, others let an actor go on for long.
    patience = dice.choice([0.2, 0.6, 0.9])
    fault = dice.choice([0.0, 0.05, 0.2])
    while len(choices) < MOST_STEPS:
        choice = _choose(within, state, dice, patience, fault, choices)
        if choice is None:
            break
        choices.append(choice)
        sampled.steps += 1
        sampled.faults += choice.how in ("late", "twice")
        sampled.crashes += choice.how == "crash"
        following = within.take(state, choice)
        if isinstance(following, Violation):
            return choices, following
        state = following
    return choices, newcomer.check(within, state)


def _choose(
    within: Machine,
    state: State,
    dice: random.Random,
    patience: float,
    fault: float,
    before: list[Choice],
) -> Choice | None:
    every = list(within.choices(state))
    plain = [choice for choice in every if choice.actor >= 0 and not choice.how]
    if not plain:
        return dice.choice(every) if every and dice.random() < 0.8 else None
    if dice.random() < fault:
        faulty = [choice for choice in every if choice.how]
        if faulty:
            return dice.choice(faulty)
        if dice.random() < 0.3:
            return Choice(dice.choice(plain).actor, "crash")
    if before and dice.random() < patience:
        same = [choice for choice in plain if choice.actor == before[-1].actor]
        if same:
            return same[0]
    return dice.choice(plain)
