"""The protocols of versions, searched: small bounds here, all of them in the report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation import commit_catalogue
from tests.simulation.commit_mutants import COMMIT_MUTANTS
from tests.simulation.explore import explore, no_waiting
from tests.simulation.mutants import Mutant
from tests.simulation.scenarios import PLAIN, Scenario, machine
from tests.simulation.search import Bounds
from tests.simulation.trace import steps

# What a search of a few seconds can afford; the report goes further.
FEW = 250

# Guard A prevents a lost update, Guard B a false success, Guard C a commit to a purged table and a
# tag on a table that is another by now.
LOSSES = {
    "no guard A": "lost: update of version 2 is not in",
    "no guard B": "false: a.append was told that",
    "no guard C": "false: a.append was told that",
    "tags any table": "false: a.tag1 was told that",
    "tags blindly": "lost: a of version 2 refers to nothing",
    "branches blindly": "lost: side of version 3 refers to nothing",
    "restores unpinned": "restores a version that is gone",
}

every_mutant = pytest.mark.parametrize(
    "mutant", COMMIT_MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-")
)


def _told(scenario: Scenario, choices: object) -> str:
    with no_waiting():
        return "\n".join(steps(machine(scenario, PLAIN), choices))  # type: ignore[arg-type]


def _must_hold(scenarios: Iterator[Scenario], most_states: int) -> int:
    states = 0
    for scenario in scenarios:
        found = explore(scenario, most_states=most_states)
        states += found.states
        assert found.violation is None, _told(scenario, found.choices)
    return states


@pytest.mark.parametrize("start", commit_catalogue.STARTS, ids="+".join)
def test_no_two_of_writers_collectors_and_taggers_lose_anything(start: tuple[str, ...]) -> None:
    pairs = commit_catalogue.pairs(faults=0, arbiters=[commit_catalogue.MARKED], starts=[start])
    assert _must_hold(pairs, FEW) > 4_000


@pytest.mark.parametrize("arbiter", [commit_catalogue.MARKED, commit_catalogue.ROWS])
def test_no_writer_that_stalls_loses_anything(arbiter: str) -> None:
    stalled = commit_catalogue.stalled(Bounds(1, switches=1), [arbiter])
    assert _must_hold(stalled, FEW) > 4_000


def test_no_versions_that_are_rows_are_lost() -> None:
    assert _must_hold(commit_catalogue.managed(Bounds(0, switches=2)), FEW) > 2_000


def test_no_table_that_others_replace_stops_anyone() -> None:
    assert _must_hold(commit_catalogue.replaced(Bounds(0, switches=2)), FEW) > 1_000


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_no_two_or_three_lose_anything_in_any_order() -> None:
    _must_hold(commit_catalogue.pairs(), 200_000)
    _must_hold(commit_catalogue.larger(), 200_000)


@every_mutant
def test_a_guard_left_out_is_found_out(mutant: Mutant) -> None:
    """What is found has to be a loss, not its cause."""
    found = explore(mutant.scenario, mutant.code, resumes=False, checks_versions=False)
    assert found.violation is not None
    assert found.violation.kind in ("lost", "false", "half", "left")
    assert LOSSES.get(mutant.name, "") in f"{found.violation.kind}: {found.violation.text}"


@every_mutant
def test_the_guard_itself_holds_where_its_mutant_fails(mutant: Mutant) -> None:
    found = explore(mutant.scenario, most_states=4 * FEW)
    assert found.violation is None, _told(mutant.scenario, found.choices)


def test_merging_positions_hides_no_state() -> None:
    for scenario in (
        Scenario("versions", ("create", "append"), (("update",), ("collect",)), Bounds(1)),
        Scenario("versions", ("create", "append"), (("tag1",), ("collect",)), Bounds(1)),
        Scenario("versions of a row", ("create",), (("append",), ("drop",)), Bounds(0)),
    ):
        merged, apart = (explore(scenario, merges=each, keeps_views=True) for each in (True, False))
        assert merged.complete
        assert apart.complete
        assert merged.views == apart.views
        assert merged.resumed == apart.resumed
