"""Sidecars are written, moved on by one at a time, and refused if they are not understood."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tiltyard import Settings
from tiltyard.catalog import names
from tiltyard.catalog.context import CatalogContext
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
)
from tiltyard.maintenance.recovery_steps import ChangeState, Decision, Observation, classify, decide
from tiltyard.maintenance.sidecars import (
    CoveredTable,
    OperationKind,
    Sidecar,
    Sidecars,
    SidecarState,
    UnreadableSidecar,
    decode,
    encode,
)
from tiltyard.store.memory import MemoryStore

A = CoveredTable(("a",), "a.lance", 4, 4, "uuid-a", "a.lance/_versions/staged")
B = CoveredTable(("shop", "b"), "0123abcd_shop$b", 7, 7, "uuid-b")


def _context() -> CatalogContext:
    settings = Settings.from_properties({"root": "nowhere", "actor": "ada"})
    return CatalogContext.open(settings, store=MemoryStore())


@pytest.fixture
def sidecars() -> Sidecars:
    return Sidecars(_context())


def test_a_sidecar_reads_as_it_was_written(sidecars: Sidecars) -> None:
    armed = sidecars.arm(OperationKind.BATCH, [A, B])
    assert sidecars.read(armed.operation) == armed
    assert (armed.state, armed.actor, armed.tables) == (SidecarState.ARMED, "ada", (A, B))
    assert replace(decode(encode(armed), "key"), tag=armed.tag) == armed


def test_operations_are_listed_oldest_first(sidecars: Sidecars) -> None:
    first, second = (
        sidecars.arm(OperationKind.BATCH, [A]),
        sidecars.arm(OperationKind.COMPACTION, [B]),
    )
    assert list(sidecars.every()) == sorted([first, second], key=lambda sidecar: sidecar.operation)
    sidecars.done(first)
    assert list(sidecars.every()) == [second]


def test_of_an_owner_and_a_sweep_one_wins(sidecars: Sidecars) -> None:
    armed = sidecars.arm(OperationKind.BATCH, [A])
    aborted = sidecars.abort(armed)
    with pytest.raises(ConcurrentModificationError):
        sidecars.publishing(armed)
    assert sidecars.read(armed.operation) == aborted
    assert not aborted.published


def test_that_it_was_published_is_remembered_when_it_is_aborted(sidecars: Sidecars) -> None:
    published = sidecars.publishing(sidecars.arm(OperationKind.BATCH, [A]))
    assert sidecars.abort(published).published


def test_no_two_bodies_are_equal(sidecars: Sidecars) -> None:
    armed = sidecars.arm(OperationKind.BATCH, [A])
    published = sidecars.publishing(armed)
    assert len({armed.nonce, published.nonce, sidecars.abort(published).nonce}) == 3


@pytest.mark.parametrize("tables", [[], [A, A]])
def test_what_makes_no_sense_is_not_armed(sidecars: Sidecars, tables: list[CoveredTable]) -> None:
    with pytest.raises(InvalidInputError):
        sidecars.arm(OperationKind.BATCH, tables)
    assert sidecars.operations() == []


@pytest.mark.parametrize(
    "change",
    [{"schema": 2}, {"kind": "dance"}, {"state": "asleep"}, {"tables": [{"id": "a"}]}],
)
def test_what_is_not_understood_is_refused_and_kept(change: dict[str, object]) -> None:
    context = _context()
    store, sidecars = context.store, Sidecars(context)
    armed = sidecars.arm(OperationKind.BATCH, [A])
    body = json.dumps({**json.loads(store.get(armed.key).body), **change}).encode()
    store.put(armed.key, body)
    with pytest.raises(InvalidTableStateError, match="upgrade"):
        sidecars.read(armed.operation)
    (kept,) = sidecars.every()
    assert isinstance(kept, UnreadableSidecar)
    assert store.get(armed.key).body == body


# -- judging

HERE = Observation(True, head=4, staged=True)


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (HERE, ChangeState.FREE),
        (replace(HERE, staged=False), ChangeState.STUCK),
        (replace(HERE, head=5, writer="uuid-a"), ChangeState.LANDED),
        (replace(HERE, head=9, writer="uuid-a"), ChangeState.LANDED),
        (replace(HERE, head=6, writer="uuid-a", undone=True), ChangeState.UNDONE),
        (replace(HERE, head=5, writer="another"), ChangeState.TAKEN),
        (replace(HERE, head=9), ChangeState.PASSED),
        (replace(HERE, head=3), ChangeState.GONE),
        (Observation(False), ChangeState.GONE),
        (Observation(False, writer="uuid-a"), ChangeState.LANDED),
    ],
)
def test_a_change_is_known_by_its_transaction_and_not_by_its_number(
    seen: Observation, state: ChangeState
) -> None:
    assert classify(A, seen) is state


def _sidecar(
    kind: OperationKind = OperationKind.BATCH, state: SidecarState = SidecarState.PUBLISHING
) -> Sidecar:
    return Sidecar(
        "1", kind, "ada", 0, state, "n", (A, B), published=state is not SidecarState.ARMED
    )


@pytest.mark.parametrize(
    ("changes", "decision"),
    [
        ((ChangeState.LANDED, ChangeState.LANDED), Decision.DONE),
        ((ChangeState.LANDED, ChangeState.PASSED), Decision.DONE),
        ((ChangeState.LANDED, ChangeState.FREE), Decision.FORWARD),
        ((ChangeState.FREE, ChangeState.FREE), Decision.FORWARD),
        ((ChangeState.LANDED, ChangeState.TAKEN), Decision.BACK),
        ((ChangeState.LANDED, ChangeState.STUCK), Decision.BACK),
        ((ChangeState.LANDED, ChangeState.GONE), Decision.BACK),
        ((ChangeState.UNDONE, ChangeState.FREE), Decision.BACK),
    ],
)
def test_all_of_a_batch_lands_or_nothing(
    changes: tuple[ChangeState, ChangeState], decision: Decision
) -> None:
    assert decide(_sidecar(), changes) is decision
    expected = Decision.DONE if decision is Decision.DONE else Decision.BACK
    assert decide(_sidecar(state=SidecarState.ABORTED), changes) is expected


def test_before_it_was_published_nothing_can_have_landed() -> None:
    assert (
        decide(_sidecar(state=SidecarState.ARMED), (ChangeState.FREE, ChangeState.TAKEN))
        is Decision.DISCARD
    )


def test_a_compaction_needs_no_company() -> None:
    compaction = _sidecar(OperationKind.COMPACTION)
    assert decide(compaction, (ChangeState.LANDED, ChangeState.TAKEN)) is Decision.DISCARD
    assert decide(compaction, (ChangeState.LANDED, ChangeState.LANDED)) is Decision.DONE


def test_their_place_is_reserved() -> None:
    for name in (names.RECOVERY, names.AUDIT, names.BRANCH_LISTS):
        with pytest.raises(InvalidInputError, match="reserved"):
            names.parse_table_id([name])
