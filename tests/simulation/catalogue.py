"""Which scenarios are searched: every pair of verbs from every start, triples and quadruples where
the protocols have most to fear, each with faults and with crashes at every request.

What is too large to be searched to its end is bounded, and the report says by what.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement

from tests.simulation.scenarios import Scenario
from tests.simulation.search import Bounds

LIVE = ("create",)
DROPPED = ("create", "drop")
PURGED = ("create", "drop", "purge")
NOTHING: tuple[str, ...] = ()

MARKER_VERBS = (
    "drop",
    "undrop",
    "purge",
    "create",
    "write",
    "declare",
    "deregister",
    "rename",
    "zombie",
    "peer",
)
ROW_VERBS = ("drop", "undrop", "undrop_as", "purge", "create", "rename", "hold")

# A word for each actor; "+" joins what one actor does in a row.
_MARKER_TRIPLES = [
    (DROPPED, "purge", "purge", "create"),
    (DROPPED, "purge", "create", "undrop"),
    (DROPPED, "create", "create", "undrop"),
    (DROPPED, "create", "look", "purge"),
    (DROPPED, "create", "look", "undrop"),
    (DROPPED, "purge", "create", "zombie"),
    (DROPPED, "create", "undrop", "zombie"),
    (DROPPED, "purge", "hold", "create"),
    (DROPPED, "purge", "purge+create", "drop"),
    (PURGED, "create", "create", "look"),
    (LIVE, "drop", "create", "purge"),
    (LIVE, "drop", "deregister", "register"),
    (NOTHING, "create", "create", "drop"),
    (("declare", "drop"), "create", "look", "undrop"),
    (NOTHING, "write", "create+drop", "purge"),
    (DROPPED, "write", "purge", "create"),
    (DROPPED, "write", "purge", "undrop"),
    (DROPPED, "write", "look", "purge"),
    (PURGED, "write", "create", "drop"),
]
_MARKER_QUADRUPLES = [
    (DROPPED, "purge", "purge", "create", "undrop"),
    (DROPPED, "create", "look", "purge", "undrop"),
    (LIVE, "drop", "undrop", "purge", "create"),
]
_ROW_TRIPLES = [
    (DROPPED, "purge", "undrop", "create"),
    (DROPPED, "purge", "purge", "undrop_as"),
    (DROPPED, "purge", "hold", "undrop"),
    (LIVE, "drop", "create", "purge"),
    (LIVE, "drop", "rename", "create"),
    (LIVE, "rename", "drop", "undrop"),
    (NOTHING, "create", "create", "drop"),
    (("create", "drop", "create"), "drop", "undrop", "purge"),
]
_ROW_QUADRUPLES = [
    (DROPPED, "purge", "undrop", "create", "rename"),
    (LIVE, "drop", "undrop", "purge", "create"),
]


def pairs(faults: int = 1) -> Iterator[Scenario]:
    for one, other in combinations_with_replacement(MARKER_VERBS, 2):
        for start in (LIVE, DROPPED, PURGED, NOTHING):
            yield Scenario("marker", start, ((one,), (other,)), Bounds(faults))


def row_pairs(faults: int = 2) -> Iterator[Scenario]:
    for one, other in combinations_with_replacement(ROW_VERBS, 2):
        for start in (LIVE, DROPPED, NOTHING):
            yield Scenario("rows", start, ((one,), (other,)), Bounds(faults))


def triples() -> Iterator[Scenario]:
    """Each twice: every order of the requests, and few switches with a fault."""
    for bounds in (Bounds(0), Bounds(1, switches=2)):
        yield from (_made("marker", each, bounds) for each in _MARKER_TRIPLES)
    yield from (_made("rows", each, Bounds(1)) for each in _ROW_TRIPLES)


def quadruples() -> Iterator[Scenario]:
    for bounds in (Bounds(0, switches=3), Bounds(1, switches=1)):
        yield from (_made("marker", each, bounds) for each in _MARKER_QUADRUPLES)
    yield from (_made("rows", each, Bounds(1, switches=3)) for each in _ROW_QUADRUPLES)


def _made(arbiter: str, line: tuple[tuple[str, ...] | str, ...], bounds: Bounds) -> Scenario:
    start, *actors = line
    assert isinstance(start, tuple)
    split = tuple(tuple(each.split("+")) for each in actors if isinstance(each, str))
    return Scenario(arbiter, start, split, bounds)
