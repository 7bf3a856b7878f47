"""The explorer over the code of the lifecycle: nothing is lost, and without a rule something is."""

from __future__ import annotations

import pytest

from tests.simulation import catalogue
from tests.simulation.explore import explore
from tests.simulation.known import KNOWN, Known
from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.sample import sample

PAIRS = [*catalogue.pairs(faults=0), *catalogue.row_pairs(faults=1)]
SHARES = 8


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_leaving_a_rule_out_loses_something(mutant: Mutant) -> None:
    found = explore(mutant.scenario, mutant.code)

    assert found.violation is not None
    assert found.choices, "the schedule that leads there is told"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_with_the_rule_nothing_is_lost_in_the_same_scenario(mutant: Mutant) -> None:
    found = explore(mutant.scenario, most_states=20_000)

    assert found.violation is None
    assert found.states > 1


@pytest.mark.parametrize("share", range(SHARES))
def test_no_pair_loses_anything_whoever_crashes(share: int) -> None:
    known = {each.scenario.name for each in KNOWN}
    for scenario in PAIRS[share::SHARES]:
        if scenario.name not in known:
            found = explore(scenario, most_states=2_000)
            assert found.violation is None, scenario.name


@pytest.mark.parametrize("hole", KNOWN, ids=lambda hole: hole.scenario.name)
def test_a_known_hole_is_still_there_or_its_entry_has_to_go(hole: Known) -> None:
    assert hole.still_fails() is not None


@pytest.mark.parametrize("first", range(0, 2_000, 1_000))
def test_no_random_schedule_of_five_loses_anything(first: int) -> None:
    sampled = sample(first, 1_000)

    assert sampled.violation is None, f"--seed {sampled.seed}"
    assert sampled.schedules == 1_000
    assert sampled.crashes > 0


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("first", range(0, 200_000, 20_000))
def test_not_one_of_200000_random_schedules_loses_anything(first: int) -> None:
    sampled = sample(first, 20_000)

    assert sampled.violation is None, f"--seed {sampled.seed}"
    assert sampled.schedules == 20_000
