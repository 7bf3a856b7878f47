"""A crash between a marker and its row: nothing is lost, and no name stays blocked."""

from __future__ import annotations

from typing import Any

import pytest
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    declare,
    deregister,
    describe,
    drop,
    drop_namespace,
    make_namespace,
    namespaces,
    refused,
    register,
    tables,
)
from tests.behaviours.modes import COMPATIBILITY, V1, V2, every_mode
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk, status, trash
from tests.kit.stores import Crash, Fault, FaultyStore
from tiltyard import DirectoryNamespace

MARKER = "people.deleted"
KEPT = {"team": "data"}

pytestmark = on_disk
in_compatibility_mode = pytest.mark.parametrize("mode", [COMPATIBILITY], ids=str, indirect=True)


@pytest.fixture
def crashing(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore]
) -> tuple[DirectoryNamespace, FaultyStore]:
    """A catalog with a root table that has properties, and a client that is about to die."""
    create(catalog, "people", properties=KEPT)
    return faulty


def _by_rows_alone(place: Place) -> DirectoryNamespace:
    return tiltyard.connect(place.root, **V2.properties)


def _properties(catalog: DirectoryNamespace, *table: str) -> dict[str, str]:
    return describe(catalog, *table).properties or {}


@in_compatibility_mode
@pytest.mark.parametrize("call", [create, declare])
def test_a_drop_that_was_cut_off_leaves_its_name_free(
    catalog: DirectoryNamespace,
    crashing: tuple[DirectoryNamespace, FaultyStore],
    place: Place,
    call: Any,
) -> None:
    client, store = crashing
    store.plan(Fault.CRASH_AFTER, verb="put_new", key=MARKER)
    with pytest.raises(Crash):
        drop(client, "people")
    rows = _by_rows_alone(place)
    assert tables(rows) == tables(catalog) == []

    call(rows, "people")

    assert tables(rows) == ["people"]
    rows.undrop_table(["people"], as_id=["staff"])
    assert contents(rows, place, "staff") == PEOPLE
    assert _properties(rows, "staff") == KEPT


@in_compatibility_mode
def test_an_undrop_that_was_cut_off_after_its_swap_has_lost_nothing(
    catalog: DirectoryNamespace, crashing: tuple[DirectoryNamespace, FaultyStore], place: Place
) -> None:
    client, store = crashing
    drop(catalog, "people")
    store.plan(Fault.CRASH_AFTER, verb="replace", key=MARKER)
    with pytest.raises(Crash):
        client.undrop_table(["people"])

    for client in (catalog, _by_rows_alone(place)):
        assert tables(client) == ["people"]
        assert contents(client, place, "people") == PEOPLE
        assert _properties(client, "people") == KEPT


@in_compatibility_mode
def test_an_undrop_that_was_cut_off_before_its_swap_can_be_repeated(
    catalog: DirectoryNamespace, crashing: tuple[DirectoryNamespace, FaultyStore], place: Place
) -> None:
    client, store = crashing
    drop(catalog, "people")
    store.plan(Fault.CRASH_BEFORE, verb="replace", key=MARKER)
    with pytest.raises(Crash):
        client.undrop_table(["people"])
    for client in (catalog, _by_rows_alone(place)):
        assert tables(client) == []
        assert status(client, "people") == "soft_deleted"

    catalog.undrop_table(["people"])

    assert tables(catalog) == ["people"]
    assert _properties(catalog, "people") == KEPT


@in_compatibility_mode
def test_an_undrop_whose_name_is_taken_meanwhile_is_refused_and_undone(
    catalog: DirectoryNamespace, crashing: tuple[DirectoryNamespace, FaultyStore], place: Place
) -> None:
    client, store = crashing
    drop(catalog, "people")
    rows = _by_rows_alone(place)
    hook = lambda: create(rows, "people", data=PLANTS)  # noqa: E731
    store.plan(Fault.STALL, verb="replace", key=MARKER, hook=hook)

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        client.undrop_table(["people"])

    assert contents(rows, place, "people") == PLANTS
    assert trash(catalog) == [("people",)]
    catalog.undrop_table(["people"], as_id=["staff"])
    assert contents(catalog, place, "staff") == PEOPLE


@in_compatibility_mode
def test_a_table_without_a_row_can_be_registered_where_rows_alone_count(
    catalog: DirectoryNamespace, crashing: tuple[DirectoryNamespace, FaultyStore], place: Place
) -> None:
    client, store = crashing
    location = deregister(catalog, "people").location or ""
    store.plan(Fault.CRASH_AFTER, verb="replace", key=MARKER)
    with pytest.raises(Crash):
        register(client, "people", at="people.lance")
    rows = _by_rows_alone(place)
    assert tables(rows) == []

    register(rows, "people", at=place.key(location))

    assert contents(rows, place, "people") == PEOPLE


@in_compatibility_mode
def test_directory_mode_does_not_lose_the_properties_of_a_table(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people", properties=KEPT)
    plain = tiltyard.connect(place.root, **V1.properties)

    drop(catalog, "people")
    with refused(ErrorCode.UNSUPPORTED) as caught:
        plain.undrop_table(["people"])
    assert "manifest_enabled" in (caught.value.hint or "")
    catalog.undrop_table(["people"])
    deregister(catalog, "people")
    with refused(ErrorCode.UNSUPPORTED):
        register(plain, "people", at="people.lance")

    assert tables(plain) == []


# -- races


@pytest.mark.parametrize("mode", [V2, COMPATIBILITY], ids=str, indirect=True)
@pytest.mark.parametrize("change", [create, drop])
def test_a_cascade_looks_again_if_a_table_comes_or_goes_meanwhile(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore], change: Any
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")
    if change is drop:
        create(catalog, "prod", "plants")
    client, store = faulty
    store.plan(
        Fault.STALL_AFTER,
        verb="first",
        key="*people/_versions",
        hook=lambda: change(catalog, "prod", "plants"),
    )

    drop_namespace(client, "prod", behavior="Cascade")

    assert not store.pending
    assert namespaces(catalog) == []
    assert sorted(trash(catalog)) == [("prod", "people"), ("prod", "plants")]


@every_mode
def test_of_two_purges_at_once_one_has_the_receipt(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore]
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    client, store = faulty
    others = []
    store.plan(
        Fault.STALL,
        verb="delete_many",
        hook=lambda: others.append(catalog.purge_table(["people"])),
    )

    receipt = client.purge_table(["people"])

    assert [receipt.outcome.value for receipt in others] == ["purged"]
    assert (receipt.outcome.value, receipt.objects) == ("skipped", 0)
    assert trash(catalog) == []
