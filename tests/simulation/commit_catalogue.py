"""Which scenarios of committing, tagging, branching and deleting versions are searched: every pair
of verbs from every start, and larger ones where a writer stalls across somebody else's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement

from tests.simulation.scenarios import Scenario
from tests.simulation.search import Bounds

MARKED = "versions"
ROWS = "versions of a row"
MANAGED = "managed versions"

_THREE = ("create", "append", "append")
_FOUR = (*_THREE, "append")
_STARTS = [
    _THREE,
    (*_FOUR, "tag2"),
    (*_FOUR, "delete3"),  # with versions that stay behind the boundary
    (*_THREE, "branch"),
]
VERBS = (
    "append",
    "update",
    "restore1",
    "collect",
    "delete2",
    "delete_head",
    "scrub",
    "tag2",
    "drop",
    "branch_update",
    "branch_collect",
)

# A word for each actor; "+" joins what one actor does in a row.
_STALLED = [
    # a writer that sleeps across a clean-up, or builds on what it has read long ago
    (("create",), "update", "update+append+collect"),
    (("create",), "append", "append+append+collect"),
    (("create",), "update", "update+append+collect", "scrub"),
    (("create",), "update", "update+append", "collect"),
    (("create",), "append", "append+append+collect", "scrub"),
    (_THREE, "update", "update", "collect"),
    (_THREE, "update", "append+collect", "collect"),
    (_THREE, "append", "append+collect", "append+collect"),
    (_THREE, "append", "delete_head", "collect"),
    # two collectors, taggers and scrubs
    (_FOUR, "delete2", "delete3", "tag2"),
    (_FOUR, "collect", "delete2", "tag2"),
    (_FOUR, "collect", "collect", "tag2"),
    (_FOUR, "collect", "tag2", "scrub"),
    ((*_FOUR, "delete3"), "delete2", "tag2", "scrub"),
    ((*_FOUR, "delete3"), "delete2", "delete12", "tag2"),
    ((*_FOUR, "delete3"), "collect", "tag1", "tag2"),
    # a table that goes, and comes again
    (("create",), "append", "drop+purge"),
    (("create",), "append", "drop+purge", "scrub"),
    (("create",), "append", "drop+purge+create"),
    (("create",), "append", "append+append+delete2+drop+purge"),
    (("create", "append"), "append", "drop+undrop", "collect"),
    (("create", "append"), "collect", "drop+purge+create"),
    (("create", "append"), "tag1", "drop+purge+create"),
    (("create", "append"), "tag1", "drop+create"),
    (("create", "append"), "restore1", "drop+create"),
    (("create",), "append", "drop+purge", "create"),
    # a branch has numbers and a boundary of its own
    (("create", "branch"), "branch_update", "branch_update+branch_append+branch_collect"),
    (("create", "append", "branch"), "branch_append", "append+collect", "branch_collect"),
    (("create", "branch"), "branch_append", "drop+purge"),
    (_THREE, "branch", "append+collect"),
    (("create", "append"), "branch", "drop+create"),
    (("create", "append"), "branch", "drop+purge+create"),
    # a version that is restored has to stay until it is a version again
    (_THREE, "restore1", "collect"),
    (_THREE, "restore1", "collect", "scrub"),
    (_THREE, "restore1", "update", "collect"),
]
# Lance's own client puts another table into the directory.
_REPLACED = [
    ((*_THREE, "collect"), "replace", "append+append"),
    ((*_THREE, "collect"), "replace+append", "append"),
    ((*_THREE, "collect"), "replace", "append", "collect"),
    ((*_THREE, "collect"), "replace", "collect", "scrub"),
    ((*_FOUR, "collect"), "replace+append+collect", "append"),
]


# Versions that are rows of the manifest, and tables whose versions become that.
_TWO = ("create", "create_other", "manage_both")
_ROWS = (*_THREE, "manage")
_MANAGED = [
    (_ROWS, "append", "append"),
    (_ROWS, "update", "update"),
    (_ROWS, "append", "collect"),
    (_ROWS, "read", "append"),
    (_ROWS, "read", "append+append+collect"),
    (_ROWS, "collect", "scrub"),
    (_ROWS, "append", "drop"),
    (_ROWS, "append", "drop+undrop"),
    (_ROWS, "append", "drop+purge"),
    (("create", "manage"), "update", "update+append+collect"),
    (("create", "manage"), "append", "append+append+collect"),
    (_ROWS, "append", "append+collect", "read"),
    # two tables in one commit
    (_TWO, "batch", "append"),
    (_TWO, "batch", "batch"),
    (_TWO, "batch", "append+collect"),
    (_TWO, "batch", "drop"),
    # from files to rows
    (("create", "append"), "append", "manage"),
    (("create", "append"), "update", "manage", "update"),
    (("create", "append"), "append", "manage", "manage"),
    (_THREE, "collect", "manage"),
    (("create",), "update", "update+append+collect", "manage"),
]


def managed(bounds: Bounds) -> Iterator[Scenario]:
    yield from (_made(MANAGED, each, bounds) for each in _MANAGED)


def pairs(faults: int = 1, arbiters: Sequence[str] = (MARKED, ROWS)) -> Iterator[Scenario]:
    for arbiter in arbiters:
        for start in _STARTS:
            for one, other in combinations_with_replacement(VERBS, 2):
                on_branch = "branch" in one or "branch" in other
                if not on_branch or "branch" in start:
                    yield Scenario(arbiter, start, ((one,), (other,)), Bounds(faults))


def stalled(bounds: Bounds) -> Iterator[Scenario]:
    for arbiter in (MARKED, ROWS):
        yield from (_made(arbiter, each, bounds) for each in _STALLED)


def replaced(bounds: Bounds) -> Iterator[Scenario]:
    yield from (_made(MARKED, each, bounds) for each in _REPLACED)


def larger() -> Iterator[Scenario]:
    """Every order of the requests, and few switches with a fault."""
    for bounds in (Bounds(0), Bounds(1, switches=3)):
        yield from stalled(bounds)
        yield from replaced(bounds)
        yield from managed(bounds)


def _made(arbiter: str, line: tuple[tuple[str, ...] | str, ...], bounds: Bounds) -> Scenario:
    start, *actors = line
    assert isinstance(start, tuple)
    split = tuple(tuple(actor.split("+")) for actor in actors if isinstance(actor, str))
    return Scenario(arbiter, start, split, bounds)
