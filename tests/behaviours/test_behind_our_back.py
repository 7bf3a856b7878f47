"""What others do to a dropped table: files that are gone, and markers of other forms."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    declare,
    drop,
    exists,
    refused,
    tables,
)
from tests.behaviours.modes import (
    COMPATIBILITY,
    in_directory_mode,
    with_directory_listing,
)
from tests.behaviours.places import Bucket, Disk, Place
from tests.behaviours.trash import bytes_below, on_disk, status, trash
from tiltyard import DirectoryNamespace

in_compatibility_mode = pytest.mark.parametrize("mode", [COMPATIBILITY], indirect=True, ids=str)


def _delete_behind_our_back(place: Place, location: str) -> None:
    """What a client does that knows no trash: it deletes the directory."""
    if isinstance(place, Disk):
        shutil.rmtree(Path(place.root, location))
    if isinstance(place, Bucket):
        prefix = place.root.removeprefix(f"s3://{place.server.bucket}/")
        keys = [f"{prefix}/{key}" for key in place.files() if key.startswith(f"{location}/")]
        obstore.delete(place.server.store(), keys)


def test_a_dropped_table_whose_files_are_gone_can_not_be_brought_back(
    catalog: DirectoryNamespace, place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")
    drop(catalog, "people")
    _delete_behind_our_back(place, location)

    with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
        catalog.undrop_table(["people"])

    assert "deleted its files" in str(caught.value)
    assert not exists(catalog, "people")


@with_directory_listing
def test_a_dropped_declaration_that_is_gone_can_not_be_brought_back(
    catalog: DirectoryNamespace, place: Place
) -> None:
    location = place.key(declare(catalog, "people").location or "")
    drop(catalog, "people")
    _delete_behind_our_back(place, location)

    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.undrop_table(["people"])

    assert status(catalog, "people") == "soft_deleted"


@on_disk
@in_directory_mode
def test_a_name_whose_versions_can_not_go_on_is_refused_to_a_create(
    catalog: DirectoryNamespace, place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")
    drop(catalog, "people")
    _delete_behind_our_back(place, location)

    with refused(ErrorCode.UNSUPPORTED) as caught:
        create(catalog, "people")

    assert "manifest_enabled" in (caught.value.hint or "")


@in_compatibility_mode
def test_a_name_whose_versions_can_not_go_on_gets_a_directory_of_its_own(
    catalog: DirectoryNamespace, place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")
    drop(catalog, "people")
    _delete_behind_our_back(place, location)

    created = create(catalog, "people", data=PLANTS)

    assert place.key(created.location or "") != location
    assert contents(catalog, place, "people") == PLANTS
    drop(catalog, "people")
    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PLANTS


def _purge_and_create(catalog: DirectoryNamespace, place: Place) -> str:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.purge_table(["people"])
    return place.key(create(catalog, "people").location or "")


@on_disk
@in_directory_mode
def test_versions_do_not_begin_again_where_a_table_was_purged_and_the_next_deleted(
    catalog: DirectoryNamespace, place: Place
) -> None:
    _delete_behind_our_back(place, _purge_and_create(catalog, place))
    assert tables(catalog) == []

    for call in (create, declare):
        with refused(ErrorCode.UNSUPPORTED) as caught:
            call(catalog, "people")
        assert "manifest_enabled" in (caught.value.hint or "")


@on_disk
@in_compatibility_mode
@pytest.mark.parametrize("call", [create, declare])
def test_with_a_manifest_the_next_table_there_gets_a_directory_of_its_own(
    catalog: DirectoryNamespace, place: Place, call: Callable[..., Any]
) -> None:
    location = _purge_and_create(catalog, place)
    _delete_behind_our_back(place, location)

    made = call(catalog, "people")

    assert place.key(made.location or "") != location


# -- markers of others


@with_directory_listing
def test_a_marker_of_the_proposals_form_is_a_dropped_table(
    catalog: DirectoryNamespace, place: Place
) -> None:
    for name in ("people", "plants"):
        create(catalog, name)
        body = {"deleted_at_ms": 1_700_000_000_000, "ttl_ms": 604_800_000}
        place.write(f"{name}.deleted", json.dumps(body).encode())

    assert tables(catalog) == []
    assert {dropped.id for dropped in catalog.list_purgable_tables()} == {("people",), ("plants",)}
    catalog.undrop_table(["people"])
    catalog.purge_table(["plants"])

    assert tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PEOPLE
    assert bytes_below(place, "plants.lance") == {}


@on_disk
@with_directory_listing
@pytest.mark.parametrize("body", [{"format": 9, "state": "deleted"}, {"format": 1, "state": "x"}])
def test_a_marker_that_is_not_understood_is_refused_by_every_call_and_left_alone(
    catalog: DirectoryNamespace, place: Place, body: dict[str, object]
) -> None:
    create(catalog, "people")
    place.write("people.deleted", json.dumps(body).encode().ljust(256))
    before = place.files()

    for call in (
        catalog.undrop_table,
        catalog.purge_table,
        catalog.hold_table,
        catalog.table_status,
    ):
        with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
            call(["people"])
        assert "people.deleted" in str(caught.value)

    assert catalog.purge_tables() == []
    assert place.files() == before


@on_disk
@with_directory_listing
def test_what_is_declared_over_a_dropped_table_is_told_what_to_do_instead(
    catalog: DirectoryNamespace,
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    with refused(ErrorCode.TABLE_ALREADY_EXISTS) as caught:
        declare(catalog, "people")

    assert "undrop_table" in (caught.value.hint or "")
    assert trash(catalog) == [("people",)]
