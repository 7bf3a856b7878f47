"""Conditional writes come to a certain end, whatever happens to their answers."""

from __future__ import annotations

import pytest

from tests.kit.stores import Crash, Fault, FaultyStore
from tiltyard.errors import (
    InvalidInputError,
    ServiceUnavailableError,
    StoreCannotCompareAndSwapError,
    UnsupportedOperationError,
)
from tiltyard.store import AlreadyThere, Ambiguous, Changed, MemoryStore, Retry, Tag, read_back

pauses: list[float] = []
RETRY = Retry(attempts=4, sleep=pauses.append, dice=lambda: 1.0)


@pytest.fixture
def store() -> FaultyStore:
    pauses.clear()
    return FaultyStore(MemoryStore())


@pytest.fixture
def tag(store: FaultyStore) -> Tag:
    """The state of an object that is there from the start."""
    return store.inner.put("object", b"before")


# -- create


def test_a_create_without_faults_is_one_request(store: FaultyStore) -> None:
    tag = read_back.put_new(store, "new", b"mine", RETRY)
    assert store.count() == 1
    assert store.get("new").tag == tag


def test_a_create_whose_answer_was_lost_is_recognised(store: FaultyStore) -> None:
    store.plan(Fault.LOST_ANSWER, verb="put_new")
    tag = read_back.put_new(store, "new", b"mine", RETRY)
    assert store.inner.get("new").tag == tag
    assert [request.verb for request in store.requests] == ["put_new", "get"]


def test_a_create_refused_by_nothing_is_tried_again(store: FaultyStore) -> None:
    store.plan(Fault.CONFLICT, verb="put_new", times=2)
    read_back.put_new(store, "new", b"mine", RETRY)
    assert store.inner.get("new").body == b"mine"
    assert store.count("put_new") == 3


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LATE])
def test_a_create_that_did_not_happen_is_tried_again(store: FaultyStore, fault: Fault) -> None:
    store.plan(fault, verb="put_new")
    read_back.put_new(store, "new", b"mine", RETRY)
    assert store.inner.get("new").body == b"mine"
    assert all(isinstance(answer, AlreadyThere) for answer in store.deliver_late())


def test_a_create_that_lost_says_so_and_changes_nothing(store: FaultyStore, tag: Tag) -> None:
    with pytest.raises(AlreadyThere):
        read_back.put_new(store, "object", b"mine", RETRY)
    assert store.inner.get("object").tag == tag
    assert store.count() == 2


def test_a_create_in_doubt_stays_in_doubt_when_another_is_found(store: FaultyStore) -> None:
    def another_changes_it() -> None:
        store.inner.put("new", b"another's")

    store.plan(Fault.LOST_ANSWER, verb="put_new")
    store.plan(Fault.STALL, verb="get", hook=another_changes_it)
    with pytest.raises(Ambiguous):
        read_back.put_new(store, "new", b"mine", RETRY)
    assert store.inner.get("new").body == b"another's"


def test_doubt_outlives_later_tries_of_a_create(store: FaultyStore) -> None:
    # Written, answer lost, deleted by another, then created by another: was it ever ours?
    store.plan(Fault.LOST_ANSWER, verb="put_new")
    store.plan(Fault.STALL, verb="get", hook=lambda: store.inner.delete("new"))
    store.plan(Fault.STALL, verb="put_new", hook=lambda: store.inner.put("new", b"another's"))
    with pytest.raises(Ambiguous):
        read_back.put_new(store, "new", b"mine", RETRY)
    assert store.pending == []


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.UNAVAILABLE, Fault.LATE])
def test_the_tries_of_a_create_are_bounded(store: FaultyStore, fault: Fault) -> None:
    store.plan(fault, verb="put_new", times=100)
    # A conflict with nothing there is definite; a lost or missing answer leaves it open.
    certain = fault is Fault.CONFLICT
    with pytest.raises(ServiceUnavailableError if certain else Ambiguous, match="4 tries"):
        read_back.put_new(store, "new", b"mine", RETRY)
    assert store.count("put_new") == 4
    assert pauses == sorted(pauses)
    assert len(pauses) == 4


# -- swap


def test_a_swap_without_faults_is_one_request(store: FaultyStore, tag: Tag) -> None:
    new = read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.count() == 1
    assert store.get("object").tag == new


def test_a_swap_whose_answer_was_lost_is_recognised(store: FaultyStore, tag: Tag) -> None:
    store.plan(Fault.LOST_ANSWER, verb="replace")
    new = read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.inner.get("object").tag == new
    assert [request.verb for request in store.requests] == ["replace", "get"]


def test_a_swap_refused_by_nothing_is_tried_again(store: FaultyStore, tag: Tag) -> None:
    store.plan(Fault.CONFLICT, verb="replace", times=2)
    read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.inner.get("object").body == b"mine"
    assert store.count("replace") == 3


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LATE])
def test_a_swap_that_did_not_happen_is_tried_again(
    store: FaultyStore, tag: Tag, fault: Fault
) -> None:
    store.plan(fault, verb="replace")
    read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.inner.get("object").body == b"mine"
    assert all(isinstance(answer, Changed) for answer in store.deliver_late())


def test_a_swap_that_lost_says_so_and_changes_nothing(store: FaultyStore, tag: Tag) -> None:
    store.inner.put("object", b"another's")
    with pytest.raises(Changed):
        read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.inner.get("object").body == b"another's"
    assert store.count() == 2


def test_a_swap_of_what_is_gone_has_lost(store: FaultyStore, tag: Tag) -> None:
    store.inner.delete("object")
    with pytest.raises(Changed):
        read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.inner.first("") is None


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.UNAVAILABLE])
def test_a_swap_in_doubt_stays_in_doubt_when_another_is_found(
    store: FaultyStore, tag: Tag, fault: Fault
) -> None:
    store.plan(fault, verb="replace")
    store.plan(Fault.STALL, verb="get", hook=lambda: store.inner.put("object", b"another's"))
    with pytest.raises(Ambiguous):
        read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.inner.get("object").body == b"another's"


def test_a_swap_in_doubt_stays_in_doubt_when_the_object_is_gone(
    store: FaultyStore, tag: Tag
) -> None:
    store.plan(Fault.LOST_ANSWER, verb="replace")
    store.plan(Fault.STALL, verb="get", hook=lambda: store.inner.delete("object"))
    with pytest.raises(Ambiguous):
        read_back.replace(store, "object", b"mine", tag, RETRY)


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.UNAVAILABLE, Fault.LATE])
def test_the_tries_of_a_swap_are_bounded(store: FaultyStore, tag: Tag, fault: Fault) -> None:
    store.plan(fault, verb="replace", times=100)
    # A conflict with nothing there is definite; a lost or missing answer leaves it open.
    certain = fault is Fault.CONFLICT
    with pytest.raises(ServiceUnavailableError if certain else Ambiguous, match="4 tries"):
        read_back.replace(store, "object", b"mine", tag, RETRY)
    assert store.count("replace") == 4


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_crash_goes_through_every_handler(store: FaultyStore, fault: Fault) -> None:
    store.plan(fault, verb="put_new")
    with pytest.raises(Crash):
        read_back.put_new(store, "new", b"mine", RETRY)
    assert store.count() == 1


# -- the probe


class _Forgetful(MemoryStore):
    """Ignores one of the conditions, as some servers do."""

    def __init__(self, ignored: str) -> None:
        super().__init__()
        self._ignored = ignored

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        return self.put(key, body) if self._ignored == "put_new" else super().put_new(key, body)

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        if self._ignored == "replace":
            return self.put(key, body)
        return super().replace(key, body, tag)


@pytest.mark.parametrize(
    ("ignored", "ability"), [("put_new", "create-if-absent"), ("replace", "compare-and-swap")]
)
def test_the_probe_finds_each_condition_that_is_ignored(ignored: str, ability: str) -> None:
    store = FaultyStore(_Forgetful(ignored))
    with pytest.raises(StoreCannotCompareAndSwapError, match=ability):
        read_back.probe(store)
    assert store.first("") is None


def test_the_probe_passes_a_good_store_and_cleans_up(store: FaultyStore) -> None:
    read_back.probe(store)
    assert store.count() == 5
    assert store.first("") is None


def test_the_probe_of_a_store_that_does_not_answer_condemns_nothing(store: FaultyStore) -> None:
    store.plan(Fault.UNAVAILABLE, verb="replace")
    with pytest.raises(ServiceUnavailableError):
        read_back.probe(store)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (UnsupportedOperationError("no such header"), StoreCannotCompareAndSwapError),
        (InvalidInputError("no such bucket"), InvalidInputError),
    ],
)
def test_the_probe_tells_a_store_without_conditions_from_a_wrong_address(
    store: FaultyStore, problem: Exception, expected: type[Exception]
) -> None:
    def refuse() -> None:
        raise problem

    store.plan(Fault.STALL, verb="put_new", hook=refuse)
    with pytest.raises(expected):
        read_back.probe(store)
