"""What the explorer has found and is not mended yet, each with a schedule that still goes wrong.

`test_explorer` replays them and fails once one goes right: then its entry has to go. The report
tells them apart from what is new.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.oracle import Violation
from tests.simulation.scenarios import PLAIN, Scenario, machine
from tests.simulation.search import Bounds, Choice, State
from tests.simulation.settle import Settler


@dataclass(frozen=True)
class Known:
    """A hole: what is wrong, and a schedule that shows it."""

    reason: str
    scenario: Scenario
    choices: str

    def still_fails(self) -> Violation | None:
        within = machine(self.scenario)
        state: State | Violation = within.start
        for each in self.choices.split():
            assert isinstance(state, State)
            state = within.take(state, Choice.parse(each))
        if isinstance(state, Violation):
            return state
        return Settler(self.scenario.arbiter, PLAIN).check(within, state)


LEFT_OVER_ROW = (
    "the row of a rename that was undone stays, and keeps its directory from being registered"
)
REGISTER_UNDOES_RENAME = (
    "a register that looked before a rename arrived shows the table again although the row, or "
    "the trash that it was dropped into, owns it by then"
)
PURGE_OF_RENAMED = "the purge of a renamed table looks at its marker and then deletes"
PEER_FORGETS_FLOOR = (
    "Lance's own client deletes a table that was purged and made anew: a live marker has no floor, "
    "versions begin at 1 again, and a stalled purge deletes the next table's first"
)


def _of(actors: str, start: str, reason: str, choices: str, faults: int = 0) -> Known:
    split = tuple(tuple(each.split("+")) for each in actors.split(" || "))
    return Known(
        reason, Scenario("marker", tuple(start.split("+")), split, Bounds(faults)), choices
    )


KNOWN = [
    _of(
        "deregister || rename",
        "create",
        LEFT_OVER_ROW,
        "1 1 1 1 1 1 1late 1 1 1 0 0 0 ~0",
        faults=1,
    ),
    _of(
        "rename || rename",
        "create",
        LEFT_OVER_ROW,
        "0 0 0 0 0 0 0late 0 0 0 1 1 1 ~0",
        faults=1,
    ),
    _of(
        "rename || register || drop",
        "create",
        REGISTER_UNDOES_RENAME,
        "0 0 0 0 0 0 1 0 0 1 1 1 1 1",
    ),
    _of(
        "rename+drop_other+purge_other || register",
        "create",
        PURGE_OF_RENAMED,
        "0 0 0 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 1",
    ),
    _of(
        "purge || purge+create || peer+create",
        "create+drop",
        PEER_FORGETS_FLOOR,
        "0 0 0 0 0 0 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 2 2 0",
    ),
]

NAMES = {each.scenario.name for each in KNOWN}
