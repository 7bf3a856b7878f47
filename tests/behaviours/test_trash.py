"""Dropping is soft: the table is gone for everybody, and every byte of it is still there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import (
    PLANTS,
    all_tables,
    create,
    declare,
    deregister,
    describe,
    drop,
    drop_namespace,
    exists,
    make_namespace,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen, open_catalog
from tests.behaviours.modes import (
    COMPATIBILITY,
    V1,
    V2,
    Mode,
    with_directory_listing,
    with_manifest,
)
from tests.behaviours.places import Place
from tests.behaviours.trash import bytes_below, clocks_ahead, on_disk, status, trash
from tiltyard import DirectoryNamespace


def test_a_drop_leaves_every_byte_of_the_table(catalog: DirectoryNamespace, place: Place) -> None:
    location = place.key(create(catalog, "people").location or "")
    before = bytes_below(place, location)
    assert len(before) > 2

    drop(catalog, "people")

    assert bytes_below(place, location) == before


def test_a_dropped_table_is_in_nobodys_view(catalog: DirectoryNamespace, reopen: Reopen) -> None:
    create(catalog, "people")
    create(catalog, "plants")

    drop(catalog, "people")

    for client in (catalog, reopen()):
        assert tables(client) == all_tables(client) == ["plants"]
        assert tables(client, include_declared=False) == ["plants"]
        assert not exists(client, "people")
        for look in (
            lambda: describe(client, "people", load_detailed_metadata=True),  # noqa: B023
            lambda: client.open_table(["people"]),  # noqa: B023
            lambda: drop(client, "people"),  # noqa: B023
            lambda: deregister(client, "people"),  # noqa: B023
            lambda: client.protect_table(["people"]),  # noqa: B023
        ):
            with refused(ErrorCode.TABLE_NOT_FOUND):
                look()


@on_disk
@pytest.mark.parametrize("ttl", ["3d", "never"])
def test_who_looks_for_a_dropped_table_is_told_where_it_is_and_until_when(
    catalog: DirectoryNamespace, ttl: str
) -> None:
    create(catalog, "people")
    drop(catalog, "people", ttl=ttl)
    until = catalog.table_status(["people"]).expires_at

    for call in (describe, drop):
        with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
            call(catalog, "people")
        hint = caught.value.hint or ""
        assert "in the trash" in hint
        assert "undrop_table" in hint
        assert (f"until {until:%Y-%m-%d %H:%M}" if until else "stays there") in hint


def test_a_status_tells_what_became_of_a_table(catalog: DirectoryNamespace) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    assert status(catalog, "people") == "not_found"
    create(catalog, "people")
    assert status(catalog, "people") == "exists"

    drop(catalog, "people", ttl="2d")

    told = catalog.table_status(["people"])
    assert told.state.value == "soft_deleted"
    assert told.deleted_at is not None
    assert before <= told.deleted_at <= datetime.now(UTC)
    assert told.expires_at == told.deleted_at + timedelta(days=2)
    assert told.generation == catalog.list_trash()[0].generation
    catalog.undrop_table(["people"])
    assert status(catalog, "people") == "exists"
    drop(catalog, "people")
    catalog.purge_table(["people"])
    assert catalog.table_status(["people"]) == catalog.table_status(["never was"])


def test_the_trash_tells_everything_about_a_drop(mode: Mode, place: Place) -> None:
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    catalog = tiltyard.connect(place.root, actor="ada", **mode.properties, **storage)
    location = place.key(create(catalog, "people").location or "")
    create(catalog, "people", data=PLANTS, mode="overwrite")
    size = sum(map(len, bytes_below(place, location).values()))

    drop(catalog, "people", ttl=timedelta(hours=1), reason="no longer needed")

    (dropped,) = catalog.list_trash(with_bytes=True)
    assert dropped.id == ("people",)
    assert dropped.location == location
    assert dropped.state == "deleted"
    assert dropped.dropped_by == "ada"
    assert dropped.reason == "no longer needed"
    assert dropped.expires_at == dropped.dropped_at + timedelta(hours=1)
    assert dropped.version == 2
    assert dropped.restorable is True
    assert dropped.held is False
    assert len(dropped.generation) == 16
    assert dropped.bytes is not None
    assert 0 <= dropped.bytes - size < 100, "no more than the file that hides it from other clients"
    assert catalog.list_trash()[0].bytes is None, "unless asked, sizes are not looked up"


@on_disk
def test_the_trash_is_sorted_by_the_time_of_the_drop(
    catalog: DirectoryNamespace, reopen: Reopen
) -> None:
    for name in ("a", "b", "c"):
        create(catalog, name)
    with clocks_ahead(timedelta(hours=1)):
        later = reopen()

    drop(later, "a")
    drop(catalog, "c")
    drop(catalog, "b")

    assert trash(catalog)[-1] == ("a",)
    assert sorted(trash(catalog)) == [("a",), ("b",), ("c",)]


def test_a_declared_table_goes_into_the_trash_and_comes_back_as_it_was(
    catalog: DirectoryNamespace,
) -> None:
    declare(catalog, "people")

    drop(catalog, "people")
    assert [dropped.version for dropped in catalog.list_trash()] == [None]
    catalog.undrop_table(["people"])

    assert describe(catalog, "people", check_declared=True).is_only_declared


@with_directory_listing
def test_a_deregistered_table_can_be_dropped(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    deregister(catalog, "people")

    drop(catalog, "people")

    assert trash(catalog) == [("people",)]
    catalog.undrop_table(["people"])
    assert tables(catalog) == ["people"]


@on_disk
def test_many_tables_are_dropped_at_once(catalog: DirectoryNamespace) -> None:
    for name in ("a", "b", "c"):
        create(catalog, name)

    answers = catalog.drop_tables(
        [api.DropTableRequest(id=["a"]), api.DropTableRequest(id=["c"])], ttl="1h", reason="old"
    )

    assert [answer.id for answer in answers] == [["a"], ["c"]]
    assert tables(catalog) == ["b"]
    assert {(dropped.id, dropped.reason) for dropped in catalog.list_trash()} == {
        (("a",), "old"),
        (("c",), "old"),
    }


def test_of_many_tables_none_is_dropped_if_one_can_not_be(catalog: DirectoryNamespace) -> None:
    for name in ("a", "b", "c"):
        create(catalog, name)
    catalog.protect_table(["b"])
    requests = [api.DropTableRequest(id=[name]) for name in ("a", "b", "c")]

    with refused(ErrorCode.INVALID_TABLE_STATE):
        catalog.drop_tables(requests)
    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.drop_tables([requests[0], api.DropTableRequest(id=["missing"])])

    assert tables(catalog) == ["a", "b", "c"]
    assert trash(catalog) == []


@on_disk
@with_manifest
def test_of_tables_of_both_kinds_none_is_dropped_if_one_can_not_be(
    catalog: DirectoryNamespace,
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")
    create(catalog, "prod", "people")
    catalog.protect_table(["prod", "people"])

    with refused(ErrorCode.INVALID_TABLE_STATE):
        catalog.drop_tables(
            [api.DropTableRequest(id=["people"]), api.DropTableRequest(id=["prod", "people"])]
        )

    assert all_tables(catalog) == ["people", "prod$people"]


@with_manifest
def test_a_cascade_drops_every_table_below_and_each_can_be_brought_back(
    catalog: DirectoryNamespace,
) -> None:
    make_namespace(catalog, "prod")
    make_namespace(catalog, "prod", "eu")
    create(catalog, "people")
    create(catalog, "prod", "people", properties={"owner": "ada"})
    create(catalog, "prod", "eu", "plants", data=PLANTS)

    drop_namespace(catalog, "prod", behavior="Cascade")

    assert all_tables(catalog) == ["people"]
    assert set(trash(catalog)) == {("prod", "people"), ("prod", "eu", "plants")}
    with refused(ErrorCode.NAMESPACE_NOT_FOUND) as caught:
        catalog.undrop_table(["prod", "eu", "plants"])
    assert "create it again" in (caught.value.hint or "")
    make_namespace(catalog, "prod")
    catalog.undrop_table(["prod", "people"])
    catalog.undrop_table(["prod", "eu", "plants"], as_id=["plants"])
    assert all_tables(catalog) == ["people", "plants", "prod$people"]
    assert describe(catalog, "prod", "people").properties == {"owner": "ada"}


@on_disk
@with_manifest
def test_a_cascade_stops_before_a_protected_table(catalog: DirectoryNamespace) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")
    create(catalog, "prod", "plants")
    catalog.protect_table(["prod", "plants"])

    with refused(ErrorCode.INVALID_TABLE_STATE):
        drop_namespace(catalog, "prod", behavior="Cascade")

    assert all_tables(catalog) == ["prod$people", "prod$plants"]
    assert trash(catalog) == []


@pytest.mark.parametrize("mode", [COMPATIBILITY], indirect=True, ids=str)
@pytest.mark.parametrize("other", [V1, V2], ids=str)
def test_a_table_at_a_v1_location_is_dropped_and_brought_back_in_every_mode(
    catalog: DirectoryNamespace, other: Mode, place: Place
) -> None:
    create(catalog, "people")
    client = open_catalog(other, place)

    drop(client, "people")
    assert tables(client) == tables(catalog) == []
    assert trash(client) == trash(catalog) == [("people",)]
    catalog.undrop_table(["people"])
    assert tables(client) == tables(catalog) == ["people"]
    drop(catalog, "people")
    client.undrop_table(["people"])

    assert tables(client) == tables(catalog) == ["people"]
