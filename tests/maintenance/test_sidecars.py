"""Sidecars are written, moved on by one at a time, and refused if they are not understood."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tiltyard import names
from tiltyard.clock import SYSTEM_CLOCK
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
)
from tiltyard.maintenance.sidecars import (
    Covered,
    Kind,
    Sidecar,
    Sidecars,
    State,
    Unreadable,
    decode,
    encode,
)
from tiltyard.maintenance.verdicts import Found, Sight, Verdict, classify, decide
from tiltyard.store.memory import MemoryStore

A = Covered(("a",), "a.lance", 4, 4, "uuid-a", "a.lance/_versions/staged")
B = Covered(("shop", "b"), "0123abcd_shop$b", 7, 7, "uuid-b")


@pytest.fixture
def sidecars() -> Sidecars:
    return Sidecars(MemoryStore(), SYSTEM_CLOCK, "ada")


def test_a_sidecar_reads_as_it_was_written(sidecars: Sidecars) -> None:
    armed = sidecars.arm(Kind.BATCH, [A, B])
    assert sidecars.read(armed.operation) == armed
    assert (armed.state, armed.actor, armed.tables) == (State.ARMED, "ada", (A, B))
    assert replace(decode(encode(armed), "key"), tag=armed.tag) == armed


def test_operations_are_listed_oldest_first(sidecars: Sidecars) -> None:
    first, second = sidecars.arm(Kind.BATCH, [A]), sidecars.arm(Kind.COMPACTION, [B])
    assert list(sidecars.every()) == sorted([first, second], key=lambda each: each.operation)
    sidecars.done(first)
    assert list(sidecars.every()) == [second]


def test_of_an_owner_and_a_sweep_one_wins(sidecars: Sidecars) -> None:
    armed = sidecars.arm(Kind.BATCH, [A])
    aborted = sidecars.abort(armed)
    with pytest.raises(ConcurrentModificationError):
        sidecars.publishing(armed)
    assert sidecars.read(armed.operation) == aborted
    assert not aborted.published


def test_that_it_was_published_is_remembered_when_it_is_aborted(sidecars: Sidecars) -> None:
    published = sidecars.publishing(sidecars.arm(Kind.BATCH, [A]))
    assert sidecars.abort(published).published


def test_no_two_bodies_are_equal(sidecars: Sidecars) -> None:
    armed = sidecars.arm(Kind.BATCH, [A])
    published = sidecars.publishing(armed)
    assert len({armed.nonce, published.nonce, sidecars.abort(published).nonce}) == 3


@pytest.mark.parametrize("tables", [[], [A, A]])
def test_what_makes_no_sense_is_not_armed(sidecars: Sidecars, tables: list[Covered]) -> None:
    with pytest.raises(InvalidInputError):
        sidecars.arm(Kind.BATCH, tables)
    assert sidecars.keys() == []


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"kind": "dance"}, {"state": "asleep"}, {"tables": [{"id": "a"}]}],
)
def test_what_is_not_understood_is_refused_and_kept(change: dict[str, object]) -> None:
    store = MemoryStore()
    sidecars = Sidecars(store, SYSTEM_CLOCK, "ada")
    armed = sidecars.arm(Kind.BATCH, [A])
    body = json.dumps({**json.loads(store.get(armed.key).body), **change}).encode()
    store.put(armed.key, body)
    with pytest.raises(InvalidTableStateError, match="upgrade"):
        sidecars.read(armed.operation)
    (found,) = sidecars.every()
    assert isinstance(found, Unreadable)
    assert store.get(armed.key).body == body


# -- judging

HERE = Sight(True, head=4, staged=True)


@pytest.mark.parametrize(
    ("sight", "found"),
    [
        (HERE, Found.FREE),
        (replace(HERE, staged=False), Found.STUCK),
        (replace(HERE, head=5, writer="uuid-a"), Found.LANDED),
        (replace(HERE, head=9, writer="uuid-a"), Found.LANDED),
        (replace(HERE, head=6, writer="uuid-a", undone=True), Found.UNDONE),
        (replace(HERE, head=5, writer="another"), Found.TAKEN),
        (replace(HERE, head=9), Found.PASSED),
        (replace(HERE, head=3), Found.GONE),
        (Sight(False), Found.GONE),
        (Sight(False, writer="uuid-a"), Found.LANDED),
    ],
)
def test_a_change_is_known_by_its_transaction_and_not_by_its_number(
    sight: Sight, found: Found
) -> None:
    assert classify(A, sight) is found


def _sidecar(kind: Kind = Kind.BATCH, state: State = State.PUBLISHING) -> Sidecar:
    return Sidecar("1", kind, "ada", 0, state, "n", (A, B), published=state is not State.ARMED)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ((Found.LANDED, Found.LANDED), Verdict.DONE),
        ((Found.LANDED, Found.PASSED), Verdict.DONE),
        ((Found.LANDED, Found.FREE), Verdict.FORWARD),
        ((Found.FREE, Found.FREE), Verdict.FORWARD),
        ((Found.LANDED, Found.TAKEN), Verdict.BACK),
        ((Found.LANDED, Found.STUCK), Verdict.BACK),
        ((Found.LANDED, Found.GONE), Verdict.BACK),
        ((Found.UNDONE, Found.FREE), Verdict.BACK),
    ],
)
def test_all_of_a_batch_lands_or_nothing(found: tuple[Found, Found], verdict: Verdict) -> None:
    assert decide(_sidecar(), found) is verdict
    expected = Verdict.DONE if verdict is Verdict.DONE else Verdict.BACK
    assert decide(_sidecar(state=State.ABORTED), found) is expected


def test_before_it_was_published_nothing_can_have_landed() -> None:
    assert decide(_sidecar(state=State.ARMED), (Found.FREE, Found.TAKEN)) is Verdict.DISCARD


def test_a_compaction_needs_no_company() -> None:
    compaction = _sidecar(Kind.COMPACTION)
    assert decide(compaction, (Found.LANDED, Found.TAKEN)) is Verdict.DISCARD
    assert decide(compaction, (Found.LANDED, Found.LANDED)) is Verdict.DONE


def test_their_place_is_reserved() -> None:
    for name in (names.RECOVERY, names.AUDIT, names.BRANCH_LISTS):
        with pytest.raises(InvalidInputError, match="reserved"):
            names.parse_table_id([name])
