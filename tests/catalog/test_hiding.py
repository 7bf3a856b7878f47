"""Hiding and showing a table beside Lance's own clients, and from several sides at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance.namespace
import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    contents,
    create,
    deregister,
    describe,
    drop,
    exists,
    refused,
    register,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import V1, with_directory_listing
from tests.behaviours.places import Place
from tests.kit.stores import Fault, FaultyStore
from tiltyard import DirectoryNamespace, TiltyardError

pytestmark = with_directory_listing

THREADS = 4
ROUNDS = 10
on_disk = pytest.mark.parametrize("place", ["disk"], indirect=True)


@pytest.fixture
def peer(place: Place) -> api.LanceNamespace:
    """pylance's own client in directory mode, on the same root."""
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    opened: api.LanceNamespace = lance.namespace.DirectoryNamespace(
        root=place.root, **V1.properties, **storage
    )
    return opened


# -- beside Lance's own clients


def test_a_table_that_we_hide_is_hidden_from_lances_own_client(
    catalog: api.LanceNamespace, peer: api.LanceNamespace
) -> None:
    location = create(catalog, "people").location or ""
    create(catalog, "plants")
    assert tables(peer) == ["people", "plants"]

    deregister(catalog, "people")
    assert tables(peer) == ["plants"]
    assert not exists(peer, "people")

    register(catalog, "people", at=location)
    assert sorted(tables(peer)) == ["people", "plants"]
    assert exists(peer, "people")


def test_a_table_that_lances_own_client_hides_is_hidden_from_us(
    catalog: api.LanceNamespace, peer: api.LanceNamespace
) -> None:
    create(catalog, "people")

    deregister(peer, "people")

    assert not exists(catalog, "people")
    with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
        describe(catalog, "people")
    assert "register_table" in str(caught.value)
    with refused(ErrorCode.TABLE_NOT_FOUND):
        deregister(catalog, "people")
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        create(catalog, "people")


def test_a_table_that_lances_own_client_hid_can_be_shown_again_by_us(
    catalog: api.LanceNamespace, peer: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    deregister(peer, "people")

    register(catalog, "people", at="people.lance")

    assert contents(catalog, place, "people") == PEOPLE
    assert exists(peer, "people")


def test_a_table_that_lances_own_client_hid_can_be_dropped_by_us(
    catalog: api.LanceNamespace, peer: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    deregister(peer, "people")

    drop(catalog, "people")

    assert isinstance(catalog, DirectoryNamespace)
    assert [table.id for table in catalog.list_trash()] == [("people",)]
    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PEOPLE
    assert exists(peer, "people")


def test_our_nested_file_without_our_marker_hides_nothing_from_us(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    deregister(catalog, "people")
    nested = place.read("people.lance/.lance-deregistered")
    register(catalog, "people", at="people.lance")

    place.write("people.lance/.lance-deregistered", nested)

    assert exists(catalog, "people")


# -- from several sides at once


def _at_once(acts: list[Callable[[], object]]) -> list[str]:
    """What became of each: "done", or the name of its error. Only errors of ours may occur."""
    start = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> str:
        start.wait(300)
        try:
            act()
        except TiltyardError as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


def test_racing_deregisters_have_one_winner(
    catalog: api.LanceNamespace, reopen: Reopen, place: Place
) -> None:
    clients = [reopen() for _ in range(THREADS)]
    create(catalog, "people")
    for _ in range(ROUNDS):
        outcomes = _at_once([lambda c=client: deregister(c, "people") for client in clients])

        assert outcomes.count("done") == 1
        assert set(outcomes) <= {"done", "TableNotFoundError", "ConcurrentModificationError"}
        assert not exists(catalog, "people")
        register(catalog, "people", at="people.lance")

    assert contents(catalog, place, "people") == PEOPLE


def test_racing_registers_have_one_winner(
    catalog: api.LanceNamespace, reopen: Reopen, place: Place
) -> None:
    clients = [reopen() for _ in range(THREADS)]
    create(catalog, "people")
    for _ in range(ROUNDS):
        deregister(catalog, "people")
        outcomes = _at_once(
            [lambda c=client: register(c, "people", at="people.lance") for client in clients]
        )

        assert outcomes.count("done") == 1
        assert set(outcomes) <= {"done", "TableAlreadyExistsError", "ConcurrentModificationError"}
        assert exists(catalog, "people")

    assert contents(catalog, place, "people") == PEOPLE


def test_hiding_and_showing_at_once_leaves_one_or_the_other(
    catalog: api.LanceNamespace, reopen: Reopen, place: Place
) -> None:
    clients = [reopen() for _ in range(THREADS)]
    create(catalog, "people")
    for _ in range(ROUNDS):
        _at_once(
            [
                *(lambda c=client: deregister(c, "people") for client in clients[::2]),
                *(
                    lambda c=client: register(c, "people", at="people.lance")
                    for client in clients[1::2]
                ),
            ]
        )

        assert (tables(catalog) == ["people"]) == exists(catalog, "people")
        if not exists(catalog, "people"):
            register(catalog, "people", at="people.lance")

    assert contents(catalog, place, "people") == PEOPLE


@on_disk
def test_a_slow_deregister_does_not_hide_from_lance_what_was_shown_since(
    catalog: api.LanceNamespace,
    faulty: tuple[DirectoryNamespace, FaultyStore],
    peer: api.LanceNamespace,
) -> None:
    create(catalog, "people")
    slow, store = faulty
    store.plan(
        Fault.STALL,
        verb="put",
        key="*/.lance-deregistered",
        hook=lambda: register(catalog, "people", at="people.lance"),
    )

    deregister(slow, "people")

    assert not store.pending
    assert tables(catalog) == ["people"]
    assert tables(peer) == ["people"], "Lance's own client sees what we see"


@on_disk
def test_hidden_tables_keep_every_byte(catalog: api.LanceNamespace, place: Place) -> None:
    create(catalog, "people")
    data = {path: path.read_bytes() for path in Path(place.root).rglob("*.lance/data/*")}
    assert data

    deregister(catalog, "people")
    register(catalog, "people", at="people.lance")

    assert data == {path: path.read_bytes() for path in data}
