"""The arbiter of V1 locations on a store in memory: what a swap keeps, raises, and leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.kit.stores import Crash, Fault, FaultyStore
from tests.lifecycle.bench import LOCATION, MARKER, TABLE, Bench
from tiltyard.catalog import marker, version_files
from tiltyard.catalog.marker import HIDDEN_BYTES, LIVE_BYTES, Marker, State
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableAlreadyExistsError,
    TableNotFoundError,
)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.create("one")
    return made


# -- bodies and sizes


def test_every_state_has_its_size_and_no_two_bodies_are_equal(bench: Bench) -> None:
    bodies: list[bytes] = []
    sizes: dict[State, set[bool]] = {}

    def note() -> None:
        bodies.append(bench.body)
        sizes.setdefault(bench.marker.state, set()).add(len(bench.body) == LIVE_BYTES)
        assert len(bench.body) == LIVE_BYTES or len(bench.body) >= HIDDEN_BYTES

    for _ in range(3):
        acts: list[Callable[[], object]] = [
            bench.drop,
            lambda: bench.hold(True),
            lambda: bench.hold(False),
            bench.undrop,
            lambda: bench.protect(True),
            lambda: bench.protect(False),
            bench.deregister,
            bench.register,
            bench.drop,
            bench.claim,
            bench.purge,
            lambda: bench.create("again"),
        ]
        for act in acts:
            act()
            note()

    assert len(set(bodies)) == len(bodies)
    assert sizes == {
        State.DELETED: {False},
        State.LIVE: {True},
        State.DEREGISTERED: {False},
        State.PURGING: {False},
        State.PURGED: {False},
    }


def test_what_others_wrote_into_a_marker_survives_its_rewrites(bench: Bench) -> None:
    bench.drop()
    noted = replace(bench.marker, unknown={"colour": "red"})
    bench.store.inner.replace(MARKER, marker.encode(noted), bench.marker.tag)

    bench.hold(True)
    assert bench.marker.unknown == {"colour": "red"}
    bench.hold(False)
    bench.purge()

    assert bench.marker.unknown == {"colour": "red"}


# -- tombstones


def test_a_tombstone_keeps_how_far_the_versions_went_and_the_last_manifest(bench: Bench) -> None:
    for word in ("two", "three"):
        bench.files.append(LOCATION, word)
    last = bench.store.inner.get(version_files.key_of(LOCATION, 3)).body
    bench.drop()

    bench.purge()

    assert bench.marker.state is State.PURGED
    assert bench.marker.floor == 3
    assert bench.marker.last_manifest is not None
    assert bench.marker.last_manifest.version == 3
    assert bench.marker.last_manifest.body == last
    assert list(bench.store.inner.walk(LOCATION)) == []
    assert bench.create("next") == 4


def test_a_claim_says_what_it_keeps_before_anything_is_deleted(bench: Bench) -> None:
    bench.drop()

    claim = bench.claim()

    assert bench.marker.state is State.PURGING
    assert bench.marker.floor == 1
    assert bench.marker.last_manifest is not None
    assert {entry.key for entry in bench.store.inner.walk(LOCATION)} == set(claim.keys)
    folders = ["_versions" in key for key in claim.keys]
    assert folders == sorted(folders), "versions are deleted last"


@pytest.mark.parametrize("deleted", range(4))
def test_whoever_takes_a_purge_over_only_raises_what_is_kept(bench: Bench, deleted: int) -> None:
    bench.files.append(LOCATION, "two")
    bench.drop()
    first = bench.claim()
    kept = bench.marker
    bench.store.inner.delete_many(first.keys[:deleted] if deleted < 3 else first.keys)

    second = bench.claim()
    bench.finish(second)

    assert bench.marker.state is State.PURGED
    assert bench.marker.floor == kept.floor == 2
    assert bench.marker.last_manifest == kept.last_manifest


def test_a_takeover_raises_what_is_kept_to_what_came_meanwhile(bench: Bench) -> None:
    bench.drop()
    bench.claim()
    bench.files.append(LOCATION, "unaware")

    bench.purge()

    assert bench.marker.floor == 2
    assert bench.marker.last_manifest is not None
    assert bench.marker.last_manifest.version == 2


def test_a_tombstone_keeps_how_far_the_versions_went_though_another_deleted_them(
    bench: Bench,
) -> None:
    bench.files.append(LOCATION, "two")
    bench.drop()
    bench.store.inner.delete_many([entry.key for entry in bench.store.inner.walk(LOCATION)])

    bench.purge()

    assert (bench.marker.floor, bench.marker.last_manifest) == (2, None)


def test_a_purge_that_was_taken_over_finishes_nothing_and_deletes_only_what_it_listed(
    bench: Bench,
) -> None:
    bench.drop()
    stalled = bench.claim()
    bench.purge()
    assert bench.create("new") == 2
    before = bench.body

    bench.finish(stalled)

    assert bench.body == before
    assert bench.held() == ["new"]
    assert bench.latest() == 2


def test_a_held_table_is_not_claimed_nor_one_that_is_live(bench: Bench) -> None:
    with pytest.raises(TableNotFoundError):
        bench.claim()
    bench.drop()
    bench.hold(True)
    before = bench.body

    with pytest.raises(InvalidTableStateError):
        bench.claim()
    bench.hold(False)
    another = replace(bench.services.trash.find(TABLE), generation="another generation")
    with pytest.raises(TableNotFoundError):
        bench.services.purge.claim(another)

    assert bench.marker.state is State.DELETED
    assert before != bench.body


# -- losers


LOSERS: dict[str, tuple[Callable[[Bench], object], Callable[[Bench], object]]] = {
    "undrop, to a purge": (
        lambda it: it.undrop(),
        lambda it: it.claim(),
    ),
    "purge, to an undrop": (
        lambda it: it.claim(),
        lambda it: it.undrop(),
    ),
    "purge, to a create": (
        lambda it: it.claim(),
        lambda it: it.create("other"),
    ),
    "undrop, to a create": (
        lambda it: it.undrop(),
        lambda it: it.create("other"),
    ),
    "create, to an undrop": (
        lambda it: it.create("mine"),
        lambda it: it.undrop(),
    ),
    "create, to a create": (
        lambda it: it.create("mine"),
        lambda it: it.create("other"),
    ),
    "hold, to an undrop": (
        lambda it: it.hold(True),
        lambda it: it.undrop(),
    ),
}


@pytest.mark.parametrize("race", LOSERS, ids=str)
def test_who_loses_a_swap_is_told_and_has_changed_nothing(bench: Bench, race: str) -> None:
    loser, winner = LOSERS[race]
    bench.drop()
    rival = Bench(FaultyStore(bench.store.inner), replace(bench.clock, tokens=1_000))
    after: list[tuple[bytes, int, list[str]]] = []

    def win() -> None:
        winner(rival)
        after.append((bench.body, bench.latest(), bench.held()))

    bench.store.plan(Fault.STALL, verb="replace", key=MARKER, hook=win)

    with pytest.raises((TableNotFoundError, TableAlreadyExistsError, ConcurrentModificationError)):
        loser(bench)

    assert not bench.store.pending
    assert after == [(bench.body, bench.latest(), bench.held())]


# -- creates that a crash interrupted


def _crash(bench: Bench, act: Callable[[], object], **where: object) -> None:
    bench.store.plan(Fault.CRASH_AFTER, **where)  # type: ignore[arg-type]
    with pytest.raises(Crash):
        act()


def test_a_create_that_was_cut_off_is_left_alone_for_a_while(bench: Bench) -> None:
    bench.drop()
    _crash(bench, lambda: bench.create("new"), verb="replace", key=MARKER)
    assert bench.marker.state is State.REVIVING

    with pytest.raises(ConcurrentModificationError):
        bench.undrop()
    assert bench.marker.state is State.REVIVING
    bench.late()
    bench.undrop()

    assert bench.marker.state is State.LIVE


def test_a_create_that_was_cut_off_before_its_version_is_undone_and_shut_out(bench: Bench) -> None:
    bench.drop()
    dropped = bench.marker
    _crash(bench, lambda: bench.create("new"), verb="put", key="*/data/*")
    bench.late()

    present = bench.services.recreation.decided_marker("t")

    assert present.state is State.DELETED
    assert present.generation == dropped.generation
    assert present.version_at_drop == 2, "a fence has the number that the create wanted"
    assert bench.files.written_by(LOCATION, 2) == "fence"
    bench.undrop()
    assert bench.read() == ["one"]


def test_a_create_that_was_cut_off_after_its_version_is_finished(bench: Bench) -> None:
    bench.drop()
    _crash(bench, lambda: bench.create("new"), verb="put_new", key="*/_versions/*")
    bench.late()

    assert bench.services.recreation.decided_marker("t").state is State.LIVE

    assert bench.read() == ["new"]
    assert bench.latest() == 2


@pytest.mark.parametrize("protected", [False, True])
@pytest.mark.parametrize("floor", [0, 1, 12, 2**40])
def test_a_live_marker_keeps_its_floor_in_64_bytes(floor: int, protected: bool) -> None:
    live = Marker(nonce="0123456789ab", floor=floor, protected=protected)

    body = marker.encode(live)

    assert len(body) == 64
    assert marker.decode(body, MARKER) == live


def test_a_live_marker_without_a_floor_reads_as_ever() -> None:
    body = b'{"format":1,"state":"live","nonce":"0123456789ab","protected":1}'

    assert marker.decode(body, MARKER) == Marker(nonce="0123456789ab", protected=True)
