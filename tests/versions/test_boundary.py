"""A boundary moves on and never back; what it refuses, it refuses for good."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from tests.kit.stores import FaultyStore
from tiltyard.catalog.boundary import ADVANCES, CHECKS, CLOSED, REJECTED, Boundary
from tiltyard.clock import SYSTEM_CLOCK
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    VersionBehindBoundaryError,
)
from tiltyard.store import LocalStore, MemoryStore, Retry, Store

AT_ONCE = Retry(attempts=50, first_pause=0, sleep=lambda _: None)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(str(tmp_path))


def boundary(store: Store) -> Boundary:
    return Boundary(store, "__gc/t.lance", SYSTEM_CLOCK, AT_ONCE)


def test_nothing_was_ever_deleted(store: Store) -> None:
    fresh = boundary(store)
    assert fresh.read() == 0
    fresh.check(1)
    assert fresh.retention().shows(1)


def test_it_moves_on_and_never_back(store: Store) -> None:
    one, other = boundary(store), boundary(store)
    one.advance(5, keep=[2])
    other.advance(9, keep=[7])
    one.advance(3, keep=[])
    assert (one.read(), other.read()) == (9, 9)
    assert store.get("__gc/t.lance/versions.boundary").body == b"9"
    kept = one.retention()
    assert [number for number in range(12) if kept.shows(number)] == [2, 7, 10, 11]


def test_what_is_let_go_is_hidden(store: Store) -> None:
    only = boundary(store)
    only.advance(5, keep=[2, 4])
    only.advance(5, keep=[], let_go=[2])
    assert not only.retention().shows(2)
    assert only.retention().shows(4)


def test_numbers_behind_it_are_refused_with_both_numbers(store: Store) -> None:
    only = boundary(store)
    only.advance(5, keep=[5])
    before = REJECTED.value
    with pytest.raises(VersionBehindBoundaryError) as caught:
        boundary(store).check(5)  # retained for readers, but nobody writes it again
    assert (caught.value.version, caught.value.boundary) == (5, 5)
    travelled = pickle.loads(pickle.dumps(caught.value))
    assert (travelled.version, travelled.boundary) == (5, 5)
    assert REJECTED.value == before + 1
    boundary(store).check(6)


def test_what_was_read_earlier_refuses_and_never_accepts(store: Store) -> None:
    counting = FaultyStore(store)
    stale = boundary(counting)
    stale.advance(5, keep=[])
    boundary(store).advance(8, keep=[])
    stale.read()
    asked = len(counting.requests)
    with pytest.raises(VersionBehindBoundaryError):
        stale.check(8)
    assert len(counting.requests) == asked, "refused by what was known"
    boundary(store).advance(12, keep=[])
    with pytest.raises(VersionBehindBoundaryError):
        stale.check(10)


def test_one_that_was_seen_and_is_gone_is_no_zero(store: Store) -> None:
    only = boundary(store)
    only.advance(5, keep=[])
    store.delete("__gc/t.lance/versions.boundary")
    with pytest.raises(InvalidTableStateError, match="was there and is gone"):
        only.check(9)
    with pytest.raises(InvalidTableStateError):
        only.advance(9, keep=[])


@pytest.mark.parametrize("body", [b"", b"twelve", b"-1", b"99999999999999999999999"])
def test_what_is_no_number_is_refused(store: Store, body: bytes) -> None:
    store.put("__gc/t.lance/versions.boundary", body)
    with pytest.raises(InvalidTableStateError):
        boundary(store).read()
    assert store.get("__gc/t.lance/versions.boundary").body == body


def test_a_list_of_another_format_is_left_alone(store: Store) -> None:
    body = b'{"format": 2, "versions": [1]}'
    store.put("__gc/t.lance/versions.retained", body)
    with pytest.raises(InvalidTableStateError, match="upgrade"):
        boundary(store).advance(3, keep=[2])
    assert store.get("__gc/t.lance/versions.retained").body == body
    assert boundary(store).read() == 0, "the list comes first"


def test_collectors_at_once_lose_nothing(store: Store) -> None:
    def collect(worker: int) -> None:
        mine = boundary(store)
        for turn in range(8):
            number = 2 * (turn * 8 + worker) + 1
            mine.advance(number, keep=range(2, number, 2), let_go=range(1, number + 1, 2))

    threads = [threading.Thread(target=collect, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = boundary(store).retention()
    assert kept.boundary == 127
    assert kept.retained == set(range(2, 127, 2))


def test_what_one_collector_gave_up_another_does_not_keep(store: Store) -> None:
    """The first is about to delete 4. If it came back to the list, it could be tagged meanwhile."""
    one, other = boundary(store), boundary(store)
    one.advance(5, keep=[1, 2, 3], let_go=[4, 5])
    other.advance(6, keep=[2, 4], let_go=[6])
    kept = other.retention()
    assert kept.boundary == 6
    assert kept.retained == {1, 2, 3}


def test_a_sequence_that_begins_again_has_a_boundary_of_its_own(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    old, stale = boundary(store), boundary(store)
    old.advance(7, keep=[3])
    assert stale.mark() == (1, 7)

    old.renew(1)

    assert "begin again" in caplog.text
    assert store.get("__gc/t.lance/versions.boundary").body == str(CLOSED).encode()
    for known in (old, stale, boundary(store)):
        assert known.mark() == (2, 0)
        assert known.retention().shows(1)
        known.check(1)
    boundary(store).advance(2, keep=[1])
    assert (stale.retention().boundary, stale.retention().retained) == (2, {1})


def test_a_closed_boundary_costs_nothing_once_it_is_known(store: Store) -> None:
    boundary(store).renew(1)
    counting = FaultyStore(store)
    only = boundary(counting)
    only.read()
    asked = len(counting.requests)
    only.read()
    assert len(counting.requests) == asked + 1


def test_a_collector_of_what_was_replaced_is_stopped(store: Store) -> None:
    only = boundary(store)
    seen = only.retention().incarnation
    boundary(store).renew(seen)
    with pytest.raises(ConcurrentModificationError, match="replaced"):
        only.advance(3, keep=[], let_go=[1, 2, 3], incarnation=seen)
    assert only.read() == 0


def test_checks_and_advances_are_counted(store: Store) -> None:
    checks, advances = CHECKS.count, ADVANCES.value
    only = boundary(store)
    only.check(1)
    only.advance(4, keep=[], incarnation=1)
    assert CHECKS.count == checks + 1
    assert ADVANCES.value == advances + 1
