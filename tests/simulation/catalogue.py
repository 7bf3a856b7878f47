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
RENAMED = ("create", "rename")
TRASHED = ("create", "rename", "drop_other")
INDEXED = ("create", "deregister", "register")  # with a row beside its marker
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
# What becomes of a table that has left the name of its directory.
AWAY_VERBS = (
    "rename_back",
    "drop_other",
    "undrop_other",
    "purge_other",
    "deregister_other",
    "register",
    "create",
    "zombie",
)
INDEXED_VERBS = ("drop_named", "undrop_named", "purge", "deregister", "register", "rename")
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
    (LIVE, "rename", "register", "drop"),
    (LIVE, "rename", "register", "drop_other"),
    (LIVE, "rename", "register", "drop_other+purge_other"),
    (DROPPED, "undrop_as", "register", "purge"),
    (RENAMED, "rename_back", "drop_other+purge_other", "register"),
    (RENAMED, "rename_back+rename", "drop_other", "undrop_other"),
    (RENAMED, "deregister_other", "register", "drop_other"),
    (RENAMED, "rename_back", "drop_named", "register"),
    (INDEXED, "drop_named+undrop_named", "rename", "register"),
    (TRASHED, "purge_other", "purge_other+zombie", "register"),
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
    (LIVE, "rename", "register", "drop_other", "drop"),
]
# Small enough for every order of all requests.
_WHOLE_QUADRUPLES = [
    (LIVE, "drop", "undrop", "deregister", "rename"),
    (LIVE, "drop", "undrop", "purge", "deregister"),
    (LIVE, "drop", "undrop", "deregister", "hold"),
    (RENAMED, "rename_back", "drop_other", "undrop_other", "register"),
]
# Versions must not begin again even if Lance's own client has deleted what came after a purge.
_PEER_TRIPLES = [(DROPPED, "purge", "purge+create", "peer+create")]
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
    for one, other in combinations_with_replacement(AWAY_VERBS, 2):
        for start in (RENAMED, TRASHED):
            yield Scenario("marker", start, ((one,), (other,)), Bounds(faults))
    for one, other in combinations_with_replacement(INDEXED_VERBS, 2):
        for start in (INDEXED, (*INDEXED, "drop_named")):
            yield Scenario("marker", start, ((one,), (other,)), Bounds(faults))


def row_pairs(faults: int = 2) -> Iterator[Scenario]:
    for one, other in combinations_with_replacement(ROW_VERBS, 2):
        for start in (LIVE, DROPPED, NOTHING):
            yield Scenario("rows", start, ((one,), (other,)), Bounds(faults))


def triples() -> Iterator[Scenario]:
    """Each twice: every order of the requests, and few switches with a fault."""
    for bounds in (Bounds(0), Bounds(1, switches=2)):
        yield from (_made("marker", line, bounds) for line in _MARKER_TRIPLES)
    yield from (_made("marker", line, Bounds(0, switches=3)) for line in _PEER_TRIPLES)
    yield from (_made("rows", line, Bounds(1)) for line in _ROW_TRIPLES)


def quadruples() -> Iterator[Scenario]:
    """Every order of some, few switches between the requests of others."""
    yield from (_made("marker", line, Bounds(0)) for line in _WHOLE_QUADRUPLES)
    yield from (_made("rows", line, Bounds(0)) for line in _ROW_QUADRUPLES)
    for bounds in (Bounds(0, switches=3), Bounds(1, switches=1)):
        yield from (_made("marker", line, bounds) for line in _MARKER_QUADRUPLES)
    yield from (_made("rows", line, Bounds(1, switches=3)) for line in _ROW_QUADRUPLES)


def _made(arbiter: str, line: tuple[tuple[str, ...] | str, ...], bounds: Bounds) -> Scenario:
    start, *actors = line
    assert isinstance(start, tuple)
    split = tuple(tuple(verbs.split("+")) for verbs in actors if isinstance(verbs, str))
    return Scenario(arbiter, start, split, bounds)
