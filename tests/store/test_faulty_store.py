"""The store that fails on purpose does what its plans say, and nothing else."""

from __future__ import annotations

import threading

import pytest

from tests.kit.stores import Crash, Fault, FaultyStore, Request
from tiltyard.errors import ServiceUnavailableError
from tiltyard.store import AlreadyThere, Ambiguous, Changed, MemoryStore, NotThere, Store


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


def test_it_is_a_store_and_passes_everything_on(store: FaultyStore) -> None:
    tag = store.put_new("a/1", b"one")
    store.replace("a/1", b"two", tag)
    store.put("a/2", b"three")
    store.delete("a/2")
    store.require_conditions()
    assert isinstance(store, Store)
    assert store.get("a/1").body == b"two"
    assert store.head("a/1").size == 3
    assert store.list().directories == ("a",)
    assert store.first("a") == next(store.walk("a"))
    assert store.url == store.inner.url


def test_it_logs_and_counts_every_request(store: FaultyStore) -> None:
    store.put_new("a/1", b"")
    with pytest.raises(NotThere):
        store.get("nothing")
    list(store.walk("a"))
    assert store.requests == [
        Request("put_new", "a/1"),
        Request("get", "nothing"),
        Request("walk", "a"),
    ]
    assert store.count() == 3
    assert store.count("put*") == 1
    assert store.count(key="a*") == 2


def test_a_bulk_delete_is_one_request_for_so_many_keys() -> None:
    store = FaultyStore(MemoryStore(), bulk=2)
    seen: list[int] = []
    assert store.delete_many(["a", "b", "c"], seen.append) == 3
    assert seen == [2, 3]
    assert store.requests == [Request("delete_many", "a"), Request("delete_many", "c")]


def test_a_lost_answer_comes_after_the_effect(store: FaultyStore) -> None:
    store.plan(Fault.LOST_ANSWER, verb="put_new")
    with pytest.raises(Ambiguous):
        store.put_new("object", b"1")
    assert store.get("object").body == b"1"


def test_an_unavailable_store_does_nothing(store: FaultyStore) -> None:
    tag = store.put_new("object", b"1")
    store.plan(Fault.UNAVAILABLE, times=4)
    with pytest.raises(Ambiguous):
        store.replace("object", b"2", tag)
    with pytest.raises(Ambiguous):
        store.put_new("other", b"2")
    with pytest.raises(ServiceUnavailableError):
        store.get("object")
    with pytest.raises(ServiceUnavailableError):
        store.delete("object")
    assert store.get("object").body == b"1"


def test_a_conflict_refuses_conditional_writes_only(store: FaultyStore) -> None:
    plan = store.plan(Fault.CONFLICT, times=2)
    tag = store.put("object", b"1")
    with pytest.raises(AlreadyThere):
        store.put_new("new", b"1")
    with pytest.raises(Changed):
        store.replace("object", b"2", tag)
    assert plan.is_spent
    assert store.get("object").body == b"1"
    assert store.first("new") is None


def test_a_late_write_arrives_when_told(store: FaultyStore) -> None:
    store.plan(Fault.LATE, times=2)
    with pytest.raises(Ambiguous):
        store.put_new("object", b"1")
    with pytest.raises(Ambiguous):
        store.put_new("object", b"2")
    with pytest.raises(NotThere):
        store.get("object")
    first, second = store.deliver_late()
    assert first is None
    assert isinstance(second, AlreadyThere)
    assert store.get("object").body == b"1"
    assert store.deliver_late() == []


def test_another_actor_can_act_during_a_stall(store: FaultyStore) -> None:
    reached, released = threading.Event(), threading.Event()

    def hook() -> None:
        reached.set()
        assert released.wait(300)

    store.plan(Fault.STALL, verb="put_new", hook=hook)
    outcome: list[type[Exception]] = []

    def stalled() -> None:
        try:
            store.put_new("object", b"slow")
        except AlreadyThere as refused:
            outcome.append(type(refused))

    thread = threading.Thread(target=stalled)
    thread.start()
    assert reached.wait(300)
    store.inner.put_new("object", b"fast")
    released.set()
    thread.join()
    assert outcome == [AlreadyThere]


def test_a_stall_can_come_after_the_effect(store: FaultyStore) -> None:
    seen: list[bytes] = []
    hook = lambda: seen.append(store.inner.get("object").body)  # noqa: E731 - one line says it
    store.plan(Fault.STALL_AFTER, verb="put", hook=hook)
    store.put("object", b"1")
    assert seen == [b"1"]


@pytest.mark.parametrize(
    ("fault", "exists"), [(Fault.CRASH_BEFORE, False), (Fault.CRASH_AFTER, True)]
)
def test_a_crash_is_not_an_exception(store: FaultyStore, fault: Fault, exists: bool) -> None:
    store.plan(fault, verb="put")
    assert not issubclass(Crash, Exception)
    with pytest.raises(Crash):
        store.put("object", b"1")
    assert (store.first("") is not None) is exists


def test_a_plan_picks_verb_and_key_and_spares_the_first(store: FaultyStore) -> None:
    plan = store.plan(Fault.UNAVAILABLE, verb="put", key="*.deleted", after=1, times=1)
    store.put("users.lance", b"")
    store.put("a.deleted", b"")
    store.get("a.deleted")
    assert store.pending == [plan]
    with pytest.raises(ServiceUnavailableError):
        store.put("b.deleted", b"")
    store.put("c.deleted", b"")
    assert store.pending == []


def test_any_key_of_a_bulk_delete_can_be_picked(store: FaultyStore) -> None:
    store.plan(Fault.CRASH_BEFORE, verb="delete_many", key="b")
    with pytest.raises(Crash):
        store.delete_many(["a", "b"])


def test_only_a_stall_takes_a_hook(store: FaultyStore) -> None:
    with pytest.raises(ValueError, match="hook"):
        store.plan(Fault.STALL)
    with pytest.raises(ValueError, match="hook"):
        store.plan(Fault.LATE, hook=lambda: None)
