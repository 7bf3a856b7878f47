"""Scenarios: how a catalog begins, who acts on it at the same time, and how far the search goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tests.simulation import actors, commits
from tests.simulation.actors import MARKER_VERBS, ROW_VERBS, Code, SimulatedServices
from tests.simulation.commits import (
    MANAGED_COMMIT_VERBS,
    MARKED_COMMIT_VERBS,
    ROW_COMMIT_VERBS,
    is_quiet,
)
from tests.simulation.ledger import Bookkeeper
from tests.simulation.oracle import Oracle
from tests.simulation.process import Finished, Process
from tests.simulation.requests import Objects, serve
from tests.simulation.search import Bounds, Judge, Machine
from tests.simulation.specs import MarkerSpec, Op, RowsSpec, Spec

LETTERS = "abcdefgh"
BEFORE = "opqrstuvw"
PLAIN = SimulatedServices
COMMITS = {
    "versions": MARKED_COMMIT_VERBS,
    "versions of a row": ROW_COMMIT_VERBS,
    "managed versions": MANAGED_COMMIT_VERBS,
}


@dataclass(frozen=True)
class Scenario:
    """`start` is what was done before, one after the other; `actors` are verbs for each actor."""

    arbiter: str  # "marker" or "rows"; of commits: "versions" or "versions of a row"
    start: tuple[str, ...]
    actors: tuple[tuple[str, ...], ...]
    bounds: Bounds = field(default_factory=Bounds)
    skews_ms: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        before = "+".join(self.start) or "nothing"
        return f"{self.arbiter}: {before} | {' || '.join('+'.join(verbs) for verbs in self.actors)}"


def spec_of(arbiter: str) -> Spec:
    return MarkerSpec() if arbiter == "marker" else RowsSpec()


def _judge(arbiter: str, checks_versions: bool, faults: int) -> Judge:
    if arbiter in COMMITS:
        marked = COMMITS[arbiter] is MARKED_COMMIT_VERBS
        return Bookkeeper(marked, strict=checks_versions, tidy=not faults)
    return Oracle(spec_of(arbiter), checks_versions=checks_versions)


def process(
    arbiter: str,
    letter: str,
    verbs: Sequence[str],
    code: Code = PLAIN,
    skew_ms: int = 0,
    *,
    merges: bool = False,
) -> Process:
    if arbiter in COMMITS:
        made = commits.build(letter, tuple(verbs), COMMITS[arbiter], code, skew_ms)
        return Process(letter, made, merges=merges)
    table = MARKER_VERBS if arbiter == "marker" else ROW_VERBS
    return Process(letter, actors.build(letter, verbs, table, code, skew_ms), merges=merges)


def alone(worker: Process, objects: Objects) -> tuple[Objects, list[Finished]]:
    """Let one actor work undisturbed."""
    node, finished = worker.root, list[Finished]()
    while node.request is not None:
        objects, answer = serve(objects, node.request)
        node, ended = worker.advance(node, answer)
        finished.extend(ended)
    return objects, finished


@lru_cache(maxsize=1_000)
def _begun(arbiter: str, start: tuple[str, ...], code: Code) -> Objects:
    """What was there before: every step by another, so that data tells who made it."""
    objects: Objects = {}
    assert len(start) <= len(BEFORE)
    for letter, verb in zip(BEFORE, start, strict=False):
        objects, finished = alone(process(arbiter, letter, (verb,), code), objects)
        assert [end.verdict for end in finished] == ["ok"], finished
    return objects


def machine(
    scenario: Scenario, code: Code = PLAIN, *, checks_versions: bool = True, merges: bool = False
) -> Machine:
    """The scenario, ready to be searched. A thorough search wants positions merged."""
    skews = (*scenario.skews_ms, *[0] * len(scenario.actors))
    processes = [
        process(scenario.arbiter, LETTERS[at], verbs, code, skews[at], merges=merges)
        for at, verbs in enumerate(scenario.actors)
    ]
    ops = [
        [Op(LETTERS[at], position, verb) for position, verb in enumerate(verbs)]
        for at, verbs in enumerate(scenario.actors)
    ]
    oracle = _judge(scenario.arbiter, checks_versions, scenario.bounds.faults)
    is_files = scenario.arbiter in ("versions", "versions of a row")
    quiet = is_quiet if is_files else None
    objects = _begun(scenario.arbiter, scenario.start, code)  # type: ignore[arg-type]
    return Machine(processes, ops, oracle, objects, scenario.bounds, quiet)
