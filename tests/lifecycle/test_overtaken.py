"""A client that is slow: what it looked at is dropped or purged before it writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import PEOPLE, PLANTS, contents, create, drop, refused, tables
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_directory_listing
from tests.behaviours.places import Place
from tests.behaviours.trash import bytes_below, on_disk, status
from tests.kit.stores import Fault, FaultyStore
from tiltyard import DirectoryNamespace

pytestmark = on_disk


def _drop(catalog: DirectoryNamespace) -> None:
    drop(catalog, "people")


def _purge(catalog: DirectoryNamespace) -> None:
    drop(catalog, "people")
    catalog.purge_table(["people"])


@pytest.mark.parametrize("meanwhile", [_drop, _purge], ids=["dropped", "purged"])
def test_an_overwrite_of_a_table_that_was_dropped_meanwhile_is_not_acknowledged(
    catalog: DirectoryNamespace,
    faulty: tuple[DirectoryNamespace, FaultyStore],
    meanwhile: Callable[[DirectoryNamespace], None],
) -> None:
    create(catalog, "people")
    client, store = faulty
    store.plan(
        Fault.STALL_AFTER, verb="first", key="*people*/_versions", hook=lambda: meanwhile(catalog)
    )

    with refused(ErrorCode.TABLE_NOT_FOUND):
        create(client, "people", data=PLANTS, mode="Overwrite")

    assert not store.pending
    assert tables(catalog) == []


@with_directory_listing
def test_an_overwrite_of_a_table_that_another_has_replaced_is_not_acknowledged(
    catalog: DirectoryNamespace,
    reopen: Reopen,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its files are on the list of a purge, and the next table lies in the same directory."""
    create(catalog, "people")
    client = reopen()
    assert isinstance(client, DirectoryNamespace)
    commit = client.services.files.commit

    def overtaken(staged: Any, nonce: str) -> int:
        _purge(catalog)
        version = commit(staged, nonce)
        create(catalog, "people")
        return version

    monkeypatch.setattr(client.services.files, "commit", overtaken)

    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        create(client, "people", data=PLANTS, mode="Overwrite")

    assert contents(catalog, place, "people") == PEOPLE


def test_an_overwrite_does_not_fill_the_directory_of_a_purged_table(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore], place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")
    client, store = faulty
    store.plan(Fault.STALL, verb="first", key="*people*/_versions", hook=lambda: _purge(catalog))

    with refused(ErrorCode.TABLE_NOT_FOUND):
        create(client, "people", data=PLANTS, mode="Overwrite")

    assert not store.pending
    assert bytes_below(place, location) == {}
    assert status(catalog, "people") == "not_found"
    create(catalog, "people", data=PEOPLE)
    assert contents(catalog, place, "people") == PEOPLE


@with_directory_listing
@pytest.mark.parametrize("call", ["undrop_table", "purge_table", "hold_table"])
def test_who_comes_too_late_for_a_dropped_table_is_told_so(
    catalog: DirectoryNamespace,
    faulty: tuple[DirectoryNamespace, FaultyStore],
    place: Place,
    call: str,
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    client, store = faulty
    store.plan(
        Fault.STALL_AFTER,
        verb="get",
        key="people.deleted",
        hook=lambda: create(catalog, "people", data=PLANTS),
    )

    with refused(ErrorCode.TABLE_NOT_FOUND, ErrorCode.TABLE_ALREADY_EXISTS):
        getattr(client, call)(["people"])

    assert not store.pending
    assert contents(catalog, place, "people") == PLANTS


@with_directory_listing
def test_who_comes_too_late_keeps_no_name(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore], place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    client, store = faulty
    store.plan(
        Fault.STALL_AFTER,
        verb="get",
        key="people.deleted",
        hook=lambda: catalog.purge_table(["people"]),
    )

    with refused(ErrorCode.TABLE_NOT_FOUND):
        client.undrop_table(["people"])

    assert not store.pending
    location = create(catalog, "people", data=PLANTS).location or ""
    assert place.key(location) == "people.lance", "the name is as free as it was"
