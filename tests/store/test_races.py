"""One suite for every backend: of many who race exactly one wins, and the losers change nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.store.conftest import Backend
from tiltyard.store import AlreadyThere, Changed, Store, Tag, read_back

ROUNDS = 3


def race(backend: Backend, store: Store, act: Callable[[Store, bytes], object]) -> list[bytes]:
    """Let every racer act at the same moment, each with its own client; returns who won."""
    start = threading.Barrier(backend.racers)

    def run(number: int) -> bytes | None:
        mine = backend.another_client(store)
        body = f"racer {number}".encode()
        start.wait()
        try:
            act(mine, body)
        except (AlreadyThere, Changed):
            return None
        return body

    with ThreadPoolExecutor(backend.racers) as pool:
        return [body for body in pool.map(run, range(backend.racers)) if body is not None]


def test_one_creator_wins(backend: Backend) -> None:
    store = backend.new()
    for number in range(ROUNDS):
        key = f"race/{number}"

        def create(mine: Store, body: bytes, key: str = key) -> None:
            read_back.put_new(mine, key, body)

        winners = race(backend, store, create)
        assert winners == [store.get(key).body]


def test_one_swapper_wins(backend: Backend) -> None:
    store = backend.new()
    tag = store.put_new("object", b"start")
    for _ in range(ROUNDS):

        def swap(mine: Store, body: bytes, tag: Tag = tag) -> None:
            read_back.replace(mine, "object", body + tag_of(tag), tag)

        winners = race(backend, store, swap)
        assert len(winners) == 1
        found = store.get("object")
        assert found.body.startswith(winners[0])
        tag = found.tag


def tag_of(tag: Tag) -> bytes:
    """Makes the bodies of every round unique, as those of swapped objects must be."""
    return f" after {tag}".encode()


def test_no_increment_is_lost(backend: Backend) -> None:
    store = backend.new()
    store.put_new("count", b"0 start")
    racers = min(backend.racers, 8)
    start = threading.Barrier(racers)

    def increment(number: int) -> None:
        mine = backend.another_client(store)
        start.wait()
        for turn in range(ROUNDS):
            while True:
                found = mine.get("count")
                count = int(found.body.split()[0])
                try:
                    body = f"{count + 1} {number} {turn}".encode()
                    read_back.replace(mine, "count", body, found.tag)
                    break
                except Changed:
                    continue

    with ThreadPoolExecutor(racers) as pool:
        list(pool.map(increment, range(racers)))
    assert int(store.get("count").body.split()[0]) == racers * ROUNDS
