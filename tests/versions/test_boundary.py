"""A boundary moves on and never back; what it refuses, it refuses for good."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from tests.kit.stores import FaultyStore
from tiltyard.errors import InvalidTableStateError, VersionBehindBoundaryError
from tiltyard.store import LocalStore, MemoryStore, Retry, Store
from tiltyard.versions.boundary import ADVANCES, CHECKS, REJECTED, Boundary
from tiltyard.world import WORLD

AT_ONCE = Retry(attempts=50, first_pause=0, sleep=lambda _: None)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else LocalStore(str(tmp_path))


def boundary(store: Store) -> Boundary:
    return Boundary(store, "__gc/t.lance", WORLD, AT_ONCE)


def test_nothing_was_ever_deleted(store: Store) -> None:
    fresh = boundary(store)
    assert fresh.read() == 0
    fresh.check(1)
    assert fresh.kept().shows(1)


def test_it_moves_on_and_never_back(store: Store) -> None:
    one, other = boundary(store), boundary(store)
    one.advance(5, keep=[2])
    other.advance(9, keep=[7])
    one.advance(3, keep=[])
    assert (one.read(), other.read()) == (9, 9)
    assert store.get("__gc/t.lance/versions.boundary").body == b"9"
    kept = one.kept()
    assert [number for number in range(12) if kept.shows(number)] == [2, 7, 10, 11]


def test_what_is_let_go_is_hidden(store: Store) -> None:
    only = boundary(store)
    only.advance(5, keep=[2, 4])
    only.advance(5, keep=[], let_go=[2])
    assert not only.kept().shows(2)
    assert only.kept().shows(4)


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
            number = turn * 8 + worker
            mine.advance(number, keep=[number])

    threads = [threading.Thread(target=collect, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = boundary(store).kept()
    assert kept.boundary == 63
    assert kept.retained == set(range(64))


def test_checks_and_advances_are_counted(store: Store) -> None:
    checks, advances = CHECKS.count, ADVANCES.value
    only = boundary(store)
    only.check(1)
    only.advance(4, keep=[])
    assert CHECKS.count == checks + 1
    assert ADVANCES.value == advances + 1
