"""`python -m tests.simulation`: search everything and print a table, or show one schedule again."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from itertools import groupby
from typing import TypeVar

from tests.simulation import catalogue, commit_catalogue, sample
from tests.simulation.actors import Code
from tests.simulation.commit_mutants import COMMIT_MUTANTS
from tests.simulation.explore import SearchResult, explore, no_waiting
from tests.simulation.mutants import MUTANTS
from tests.simulation.sample import Sampled
from tests.simulation.scenarios import PLAIN, Scenario, machine
from tests.simulation.search import Bounds, Choice
from tests.simulation.trace import steps

WORKERS = 2
MINUTES = 9.0
# How many states one scenario may have, and which part of the time is for all of its group. Time
# that a group leaves is for those after it: pairs are searched to their end as a rule.
GROUPS = (
    ("pairs", catalogue.pairs, 400_000, 0.3),
    ("pairs of rows", catalogue.row_pairs, 400_000, 0.1),
    ("triples", catalogue.triples, 100_000, 0.2),
    ("quadruples", catalogue.quadruples, 100_000, 0.1),
    ("pairs of commits", commit_catalogue.pairs, 400_000, 0.1),
    ("stalled commits", commit_catalogue.larger, 200_000, 0.1),
    ("random schedules", None, 0, 0.1),
)
LEAST_SECONDS = 0.5

T = TypeVar("T")

PREFACE = """\
Every order of the requests of a scenario's actors, unless a line tells its bound. A crash is an
actor that is never asked again, so every state is also one in which any of them have crashed; from
every catalog that comes about a newcomer has to be able to go on ("resumed"). Faults are
conditional writes whose answer is lost or that arrive late, and writes and deletes that arrive
twice, so many in one schedule; data files and the file for Lance's own clients meet them in
random schedules only. An operation starts over once, in random schedules three times."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--report", action="store_true", help="search all scenarios")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="how long, all in all")
    parser.add_argument("--schedules", type=int, default=200_000, help="how many random ones")
    parser.add_argument("--seed", type=int, help="show the random schedule of a seed")
    parser.add_argument("--replay", metavar="SCENARIO", help="a line of the report; with --choices")
    parser.add_argument("--mutant", help="replay with the code that leaves this rule out")
    parser.add_argument("--choices", default="", help="the steps, as a violation prints them")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return show_seed(chosen.seed)
    if chosen.replay:
        choices = [Choice.parse(text) for text in chosen.choices.split()]
        codes = {mutant.name: mutant.code for mutant in (*MUTANTS, *COMMIT_MUTANTS)}
        return show(parse(chosen.replay), choices, code=codes.get(chosen.mutant, PLAIN))
    return report(chosen.schedules, chosen.minutes)


# -- the report


def report(schedules: int, minutes: float) -> int:
    """Search everything as far as the time goes; 1 if anything was lost."""
    began = time.monotonic()
    failed, part = 0, 0.0
    _say(PREFACE)
    # Lance does not like to be forked.
    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        for title, scenarios, most_states, share in GROUPS:
            part += share
            until = began + 60 * minutes * part
            _say(f"\n{title}")
            if scenarios is None:
                failed += _tell_samples(pool, schedules, until)
                continue
            _say(f"{'':64}{'faults':>7}{'states':>9}{'steps':>9}{'faulty':>8}{'resumed':>8}")
            failed += _tell(_search_all(pool, list(scenarios()), most_states, until))
    _say(f"\n{failed} violations; {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _search_all(
    pool: ProcessPoolExecutor, scenarios: Sequence[Scenario], most_states: int, until: float
) -> list[SearchResult]:
    """Search scenarios; each may take its share of the time that is left."""

    def searches() -> Iterator[Callable[[], SearchResult]]:
        for number, scenario in enumerate(scenarios):
            share = WORKERS * (until - time.monotonic()) / (len(scenarios) - number)
            seconds = max(share, LEAST_SECONDS)
            yield partial(explore, scenario, most_states=most_states, most_seconds=seconds)

    return list(_run(pool, searches()))


def _run(pool: ProcessPoolExecutor, tasks: Iterator[Callable[[], T]]) -> Iterator[T]:
    """The results of tasks, in their order. A task is made when a worker is free for it."""
    running: deque[Future[T]] = deque()
    for task in tasks:
        running.append(pool.submit(task))
        while len(running) > WORKERS:
            yield running.popleft().result()
    for left in running:
        yield left.result()


def _tell(results: list[SearchResult]) -> int:
    for name, members in groupby(results, key=_line):
        group = list(members)
        bounds = group[0].scenario.bounds
        _say(
            f"{name:64}{bounds.faults:7}{sum(result.states for result in group):9}"
            f"{sum(result.steps for result in group):9}{sum(result.faults for result in group):8}"
            f"{sum(result.resumed for result in group):8}{_limits(group)}"
        )
    wrong = [result for result in results if result.violation]
    for result in wrong:
        _say(f"\n{result.scenario.name}: {result.violation}")
        _say(
            f'  --replay "{result.scenario.name}" --choices "{" ".join(map(str, result.choices))}"'
        )
        show(result.scenario, result.choices)
    total = sum(result.states for result in results)
    _say(f"{len(results)} scenarios, {total} states, {len(wrong)} violations")
    return len(wrong)


def _line(result: SearchResult) -> str:
    """Pairs from different starts share a line."""
    name = result.scenario.name
    return (
        name
        if len(result.scenario.actors) > 2
        else f"{name.partition(':')[0]}:{name.partition('|')[2]}"
    )


def _limits(group: list[SearchResult]) -> str:
    told = []
    switches = group[0].scenario.bounds.switches
    if switches is not None:
        told.append(f"at most {switches} switches")
    cut = [result.depth for result in group if not result.complete and not result.violation]
    if cut:
        told.append(f"stopped after all schedules of {min(cut)} steps")
    return f"  ({'; '.join(told)})" if told else ""


def _tell_samples(pool: ProcessPoolExecutor, schedules: int, until: float) -> int:
    _say(f"{sample.ACTORS} actors, up to {sample.FAULTS} faults, crashes, wrong clocks")
    wrong = 0
    total = Sampled()
    blocks = (
        partial(sample.sample, first, min(sample.BLOCK, schedules - first))
        for first in range(0, schedules, sample.BLOCK)
        if time.monotonic() < until
    )
    for sampled in _run(pool, blocks):
        total.schedules += sampled.schedules
        total.steps += sampled.steps
        total.faults += sampled.faults
        total.crashes += sampled.crashes
        if sampled.violation is not None and sampled.seed is not None:
            wrong += 1
            _say(f"--seed {sampled.seed}: {sampled.violation}")
            show_seed(sampled.seed)
    _say(
        f"{total.schedules} schedules, {total.steps} steps, {total.faults} faults, "
        f"{total.crashes} crashes, {wrong} violations"
    )
    return wrong


# -- one schedule


def parse(name: str) -> Scenario:
    """The scenario of a name; faults are as many as its choices hold."""
    arbiter, _, rest = name.partition(": ")
    start, _, actors = rest.partition(" | ")
    before = () if start == "nothing" else tuple(start.split("+"))
    split = tuple(tuple(verbs.split("+")) for verbs in actors.split(" || "))
    return Scenario(arbiter, before, split, Bounds(9, everywhere=True))


def show(scenario: Scenario, choices: Iterable[Choice], tries: int = 2, code: Code = PLAIN) -> int:
    with no_waiting(tries):
        for line in steps(machine(scenario, code), choices):
            _say(line)
    return 0


def show_seed(seed: int) -> int:
    choices = sample.choices_of(seed)
    _say(sample.scenario_of(seed).name)
    return show(sample.scenario_of(seed), choices, sample.TRIES)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
