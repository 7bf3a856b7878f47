"""The protocols of the lifecycle, searched: small bounds here, all of them in the report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation import catalogue, report
from tests.simulation.explore import explore, no_waiting
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.sample import choices_of, sample, scenario_of
from tests.simulation.scenarios import Scenario, machine
from tests.simulation.search import Bounds
from tests.simulation.trace import steps

# What a search of a few seconds can afford; the report goes further.
FEW = 6_000
SEEDS = 1_800
SLOW_SEEDS = 200_000


def _told(scenario: Scenario, choices: object) -> str:
    with no_waiting():
        return "\n".join(steps(machine(scenario), choices))  # type: ignore[arg-type]


def _must_hold(scenarios: Iterator[Scenario], most_states: int) -> int:
    states = 0
    for scenario in scenarios:
        result = explore(scenario, most_states=most_states)
        states += result.states
        assert result.violation is None, _told(scenario, result.choices)
    return states


@pytest.mark.parametrize("verb", catalogue.MARKER_VERBS)
def test_no_two_operations_at_a_v1_location_lose_anything(verb: str) -> None:
    mine = (scenario for scenario in catalogue.pairs() if scenario.actors[0] == (verb,))
    assert _must_hold(mine, FEW) > 50


def test_no_two_operations_on_rows_lose_anything() -> None:
    assert _must_hold(catalogue.row_pairs(faults=1), FEW) > 1_000


def test_no_few_switches_between_three_lose_anything() -> None:
    every = (scenario for scenario in catalogue.triples() if scenario.bounds.switches is not None)
    assert _must_hold(every, FEW) > 10_000


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_no_three_or_four_operations_lose_anything() -> None:
    _must_hold(catalogue.triples(), 200_000)
    _must_hold(catalogue.quadruples(), 200_000)


def test_random_schedules_of_five_actors_lose_nothing() -> None:
    sampled = sample(0, SEEDS, seconds=20)
    assert sampled.violation is None, f"python -m tests.simulation --seed {sampled.seed}"
    assert sampled.faults
    assert sampled.crashes


@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_many_random_schedules_of_five_actors_lose_nothing() -> None:
    sampled = sample(SEEDS, SLOW_SEEDS)
    assert sampled.violation is None, f"python -m tests.simulation --seed {sampled.seed}"
    assert sampled.schedules == SLOW_SEEDS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_rule_left_out_is_found_out(mutant: Mutant) -> None:
    """Without the check of version numbers: what is found has to be a loss, not its cause."""
    result = explore(mutant.scenario, mutant.code, resumes=mutant.blocks, checks_versions=False)
    assert result.violation is not None
    kinds = ["stuck"] if mutant.blocks else ["lost", "unexplained", "untrue"]
    assert result.violation.kind in kinds


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_rule_itself_holds_where_its_mutant_fails(mutant: Mutant) -> None:
    result = explore(mutant.scenario, resumes=mutant.blocks, most_states=4 * FEW)
    assert result.violation is None, _told(mutant.scenario, result.choices)


def test_merging_positions_hides_no_state() -> None:
    """A search that keeps every history apart reaches the same views, with more states."""
    for scenario in (
        Scenario("marker", ("create", "drop"), (("create",), ("undrop",)), Bounds(0)),
        Scenario("marker", ("create", "drop"), (("purge",), ("purge",)), Bounds(1)),
        Scenario("rows", ("create",), (("drop",), ("rename",)), Bounds(1)),
    ):
        merged, apart = (
            explore(scenario, merges=merges, keeps_views=True) for merges in (True, False)
        )
        assert merged.complete
        assert apart.complete
        assert merged.views == apart.views
        assert merged.resumed == apart.resumed
        assert merged.states <= apart.states


def test_a_seed_is_always_the_same_schedule() -> None:
    assert choices_of(1_234) == choices_of(1_234)
    assert scenario_of(1_234) == scenario_of(1_234)


def test_a_violation_replays_from_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    mutant = MUTANTS[0]
    result = explore(mutant.scenario, mutant.code, resumes=False)
    choices = " ".join(map(str, result.choices))

    report.main(["--replay", mutant.scenario.name, "--choices", choices, "--mutant", mutant.name])

    assert "VIOLATION" in capsys.readouterr().out
