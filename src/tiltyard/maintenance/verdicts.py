"""What became of an operation, and what is to be done about it: functions of what was seen.

A change is known by its transaction, never by its number: that the head is one above the pin does
not make it ours. Nothing here touches a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import NAMESPACE_OID, uuid5

from tiltyard.maintenance.sidecars import Covered, Sidecar, State


@dataclass(frozen=True, slots=True)
class Sight:
    """What is seen of one table: its latest version, and whose the one in question is.

    `writer` is the transaction of that version, None if there is none; `undone` says that the
    version after it takes it back.
    """

    exists: bool
    head: int = 0
    writer: str | None = None
    undone: bool = False
    staged: bool = False


class Found(StrEnum):
    """What became of one change."""

    LANDED = "landed"
    UNDONE = "undone"  # landed, and was taken back by a recovery
    TAKEN = "taken"  # the number is another's, so it never lands
    PASSED = "passed"  # the number is behind the head and its version deleted: nothing tells
    FREE = "free"  # it has not landed, and still can
    STUCK = "stuck"  # the same, and what it was to become is gone
    GONE = "gone"  # the table is


class Verdict(StrEnum):
    """What a recovery does."""

    DONE = "done"  # all is there
    FORWARD = "forward"  # let the rest land
    BACK = "back"  # take back what landed
    DISCARD = "discard"  # nothing has to be done


# A version that was there and was deleted since may have been ours: nothing of it is undone.
_THERE = (Found.LANDED, Found.PASSED)


def classify(covered: Covered, sight: Sight) -> Found:
    """What became of the change of one table."""
    if sight.writer == covered.transaction:
        return Found.UNDONE if sight.undone else Found.LANDED
    if sight.writer is not None:
        return Found.TAKEN
    if not sight.exists or sight.head < covered.base_head:
        return Found.GONE
    if sight.head > covered.base_head:
        return Found.PASSED
    return Found.FREE if sight.staged else Found.STUCK


def decide(sidecar: Sidecar, found: Sequence[Found]) -> Verdict:
    """What to do about an operation, from what became of each of its changes.

    What is there of all tables is done, whatever the sidecar says. A compaction needs no company.
    """
    if all(each in _THERE for each in found):
        return Verdict.DONE
    if sidecar.kind.preserves_rows or not sidecar.published:
        return Verdict.DISCARD
    may_land = all(each in (*_THERE, Found.FREE) for each in found)
    if may_land and sidecar.state is State.PUBLISHING:
        return Verdict.FORWARD
    return Verdict.BACK


def undoing(operation: str, location: str) -> str:
    """The transaction that takes back the change of one table: the same, whoever makes it."""
    return str(uuid5(NAMESPACE_OID, f"tiltyard undo {operation} {location}"))


def fencing(operation: str, location: str) -> str:
    """The transaction that keeps the change of one table from landing any more."""
    return str(uuid5(NAMESPACE_OID, f"tiltyard fence {operation} {location}"))
