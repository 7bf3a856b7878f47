"""Bringing a dropped table back: as it was, under its own name or another, without a copy."""

from __future__ import annotations

from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    all_tables,
    contents,
    create,
    dataset,
    describe,
    drop,
    make_namespace,
    refused,
    rename,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import (
    Mode,
    in_directory_mode,
    with_manifest,
)
from tests.behaviours.places import Place
from tests.behaviours.trash import NESTED, bytes_below, on_disk, status, trash, write_unaware
from tiltyard import DirectoryNamespace


def test_a_table_comes_back_as_it_was(
    catalog: DirectoryNamespace, reopen: Reopen, mode: Mode, place: Place
) -> None:
    properties = {"owner": "ada"} if mode.has_manifest else None
    create(catalog, "people", properties=properties)
    create(catalog, "people", data=PLANTS, mode="overwrite")
    location = place.key(describe(catalog, "people").location or "")
    before = bytes_below(place, location)
    drop(catalog, "people")

    answer = catalog.undrop_table(["people"])

    assert place.key(answer.location or "") == location
    assert answer.properties == properties
    assert bytes_below(place, location) == before
    assert not any(key.endswith(NESTED) for key in place.files())
    for client in (catalog, reopen()):
        assert tables(client) == ["people"]
        assert contents(client, place, "people") == PLANTS
        assert dataset(client, place, "people", version=1).to_table() == PEOPLE
        assert describe(client, "people").properties == properties
    assert trash(catalog) == []


@on_disk
def test_only_what_is_in_the_trash_can_be_brought_back(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    dropped = catalog.table_status(["people"]).generation or "none"
    with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
        catalog.undrop_table(["people"], generation="0" * 16)
    assert dropped in str(caught.value.hint), "which one there is"
    catalog.undrop_table(["people"])

    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.undrop_table(["people"])
    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.undrop_table(["missing"])
    drop(catalog, "people")
    catalog.purge_table(["people"])
    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.undrop_table(["people"])


def test_a_table_can_be_dropped_and_brought_back_any_number_of_times(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")

    generations = set()
    for _ in range(4):
        drop(catalog, "people")
        generations.add(catalog.table_status(["people"]).generation)
        catalog.undrop_table(["people"])

    assert len(generations) == 4
    assert contents(catalog, place, "people") == PEOPLE
    assert describe(catalog, "people", load_detailed_metadata=True).version == 1


# -- under another name


@with_manifest
def test_a_table_comes_back_under_another_name_and_no_byte_is_copied(
    catalog: DirectoryNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people", properties={"owner": "ada"})
    create(catalog, "plants", data=PLANTS)
    location = place.key(describe(catalog, "people").location or "")
    files = {
        key: state for key, state in place.files().items() if key.startswith(f"{location}/data")
    }
    assert files
    drop(catalog, "people")
    drop(catalog, "plants")

    staff = catalog.undrop_table(["people"], as_id=["staff"])
    catalog.undrop_table(["plants"], as_id=["prod", "flora"])

    assert all_tables(catalog) == ["prod$flora", "staff"]
    assert place.key(staff.location or "") == location
    assert {key: place.files()[key] for key in files} == files, "the very same files"
    assert contents(catalog, place, "staff") == PEOPLE
    assert contents(catalog, place, "prod", "flora") == PLANTS
    assert describe(catalog, "staff").properties == {"owner": "ada"}
    assert status(catalog, "people") == "not_found"


@with_manifest
def test_a_name_that_was_left_is_free_and_its_next_table_apart(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.undrop_table(["people"], as_id=["staff"])

    create(catalog, "people", data=PLANTS)
    drop(catalog, "people")
    catalog.purge_table(["people"])

    assert contents(catalog, place, "staff") == PEOPLE
    rename(catalog, "staff", to="people")
    assert tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PEOPLE


@on_disk
@with_manifest
def test_a_table_under_another_name_is_dropped_and_purged_like_any_other(
    catalog: DirectoryNamespace, place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")
    drop(catalog, "people")
    catalog.undrop_table(["people"], as_id=["staff"])

    drop(catalog, "staff")
    assert trash(catalog) == [("staff",)]
    catalog.undrop_table(["staff"])
    assert contents(catalog, place, "staff") == PEOPLE
    drop(catalog, "staff")
    catalog.purge_table(["staff"])

    assert bytes_below(place, location) == {}
    assert tables(catalog) == trash(catalog) == []


@on_disk
@with_manifest
def test_a_table_that_went_by_another_name_comes_home_in_the_end(
    catalog: DirectoryNamespace, mode: Mode, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.undrop_table(["people"], as_id=["staff"])
    drop(catalog, "staff")

    if mode.lists_directories:
        with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
            catalog.undrop_table(["staff"], as_id=["people"])
        assert "rename it" in (caught.value.hint or "")
        catalog.undrop_table(["staff"])
        rename(catalog, "staff", to="people")
    else:
        catalog.undrop_table(["staff"], as_id=["people"])

    assert tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PEOPLE
    drop(catalog, "people")
    catalog.undrop_table(["people"])
    assert tables(catalog) == ["people"]


@on_disk
@in_directory_mode
def test_in_directory_mode_a_table_comes_back_under_its_own_name_only(
    catalog: DirectoryNamespace,
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    with refused(ErrorCode.UNSUPPORTED) as caught:
        catalog.undrop_table(["people"], as_id=["staff"])

    assert "manifest_enabled" in (caught.value.hint or "")
    assert trash(catalog) == [("people",)]


@on_disk
@with_manifest
def test_a_table_comes_back_to_a_free_name_in_a_namespace_that_exists(
    catalog: DirectoryNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")
    create(catalog, "plants", data=PLANTS)
    drop(catalog, "people")

    with refused(ErrorCode.TABLE_ALREADY_EXISTS) as caught:
        catalog.undrop_table(["people"], as_id=["plants"])
    assert "another name" in (caught.value.hint or "")
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        catalog.undrop_table(["people"], as_id=["missing", "people"])
    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        catalog.undrop_table(["people"], as_id=["prod"])

    assert all_tables(catalog) == ["plants"]
    assert contents(catalog, place, "plants") == PLANTS
    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PEOPLE


@on_disk
@with_manifest
def test_a_table_whose_name_became_a_namespace_stays_in_the_trash(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    make_namespace(catalog, "people")

    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        catalog.undrop_table(["people"])

    assert trash(catalog) == [("people",)]
    catalog.undrop_table(["people"], as_id=["people", "old"])
    assert contents(catalog, place, "people", "old") == PEOPLE


# -- what happened meanwhile


def test_what_was_written_after_the_drop_is_kept_only_if_asked_for(
    catalog: DirectoryNamespace, place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")
    drop(catalog, "people")
    assert write_unaware(place, location) == 2

    with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
        catalog.undrop_table(["people"])
    assert "version 2" in str(caught.value)
    assert "keep_newer" in (caught.value.hint or "")
    assert status(catalog, "people") == "soft_deleted"
    catalog.undrop_table(["people"], keep_newer=True)

    assert contents(catalog, place, "people") == PLANTS
    assert dataset(catalog, place, "people", version=1).to_table() == PEOPLE
