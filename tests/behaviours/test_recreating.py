"""Creating a table whose name is in the trash: a new version where the directory is the name, a
table of its own where it is not. Versions never start again below what was there."""

from __future__ import annotations

import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    dataset,
    declare,
    describe,
    drop,
    make_namespace,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import (
    Mode,
    with_directory_listing,
    with_manifest,
    with_manifest_only,
)
from tests.behaviours.places import Place
from tests.behaviours.trash import bytes_below, on_disk, status, trash, write_unaware
from tiltyard import DirectoryNamespace


def _version(catalog: DirectoryNamespace, *table: str) -> int | None:
    return describe(catalog, *table, load_detailed_metadata=True).version


@pytest.mark.parametrize("create_mode", ["Create", "ExistOk", "Overwrite"])
def test_a_create_over_a_dropped_table_holds_the_new_data(
    catalog: DirectoryNamespace, reopen: Reopen, place: Place, create_mode: str
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    created = create(catalog, "people", data=PLANTS, mode=create_mode)

    for client in (catalog, reopen()):
        assert tables(client) == ["people"]
        assert contents(client, place, "people") == PLANTS
        assert _version(client, "people") == created.version
    assert status(catalog, "people") == "exists"


def test_a_held_table_stays_in_the_trash_whatever_is_created_under_its_name(
    catalog: DirectoryNamespace, place: Place, mode: Mode
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.hold_table(["people"])

    if mode.has_manifest:
        create(catalog, "people", data=PLANTS)
        assert contents(catalog, place, "people") == PLANTS
    else:
        with refused(ErrorCode.TABLE_ALREADY_EXISTS) as caught:
            create(catalog, "people", data=PLANTS)
        assert "release_table" in (caught.value.hint or "")

    (held,) = catalog.list_trash()
    assert (held.id, held.held, held.restorable) == (("people",), True, True)
    as_id = ["people_before"] if mode.has_manifest else None
    catalog.undrop_table(["people"], generation=held.generation, as_id=as_id)
    assert contents(catalog, place, *(as_id or ["people"])) == PEOPLE


@on_disk
@with_manifest
def test_a_create_over_a_dropped_table_takes_none_of_its_properties(
    catalog: DirectoryNamespace,
) -> None:
    create(catalog, "people", properties={"owner": "ada", "team": "a"})
    drop(catalog, "people")

    create(catalog, "people", properties={"owner": "bo"})

    assert describe(catalog, "people").properties == {"owner": "bo"}


@with_directory_listing
def test_where_the_directory_is_the_name_the_versions_go_on(
    catalog: DirectoryNamespace, place: Place
) -> None:
    first = create(catalog, "people")
    drop(catalog, "people")

    second = create(catalog, "people", data=PLANTS)

    assert (first.version, second.version) == (1, 2)
    assert second.location == first.location
    assert dataset(catalog, place, "people", version=1).to_table() == PEOPLE
    assert trash(catalog) == [], "what was dropped is a version of the new table now"
    with refused(ErrorCode.TABLE_ALREADY_EXISTS) as caught:
        create(catalog, "people")
    assert caught.value.hint is None


@with_directory_listing
def test_what_was_written_after_the_drop_is_not_lost_to_the_versions(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    assert write_unaware(place, "people.lance", PEOPLE.slice(0, 1)) == 2

    assert create(catalog, "people", data=PLANTS).version == 3

    assert dataset(catalog, place, "people", version=2).to_table() == PEOPLE.slice(0, 1)


@with_directory_listing
def test_versions_never_start_again_after_a_purge(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    create(catalog, "people", mode="Overwrite")
    versions = [2]
    for _ in range(3):
        drop(catalog, "people")
        catalog.purge_table(["people"])
        assert bytes_below(place, "people.lance") == {}

        versions.append(create(catalog, "people", data=PLANTS).version or 0)
        assert contents(catalog, place, "people") == PLANTS

    assert versions == sorted(set(versions))
    assert not any("-" in key for key in bytes_below(place, "people.lance") if "/data/" in key)


@with_manifest_only
def test_with_a_manifest_every_table_of_a_name_lies_apart_and_can_be_brought_back(
    catalog: DirectoryNamespace, place: Place
) -> None:
    numbers = range(1, 4)
    for number in numbers:
        created = create(catalog, "people", data=PEOPLE.slice(0, number))
        assert created.version == 1
        drop(catalog, "people")

    generations = [dropped.generation for dropped in catalog.list_trash()]
    assert trash(catalog) == [("people",)] * 3
    assert len({dropped.location for dropped in catalog.list_trash()}) == 3
    assert catalog.table_status(["people"]).generation == generations[-1]
    for number, generation in zip(numbers, generations, strict=True):
        catalog.undrop_table(["people"], generation=generation)
        assert contents(catalog, place, "people") == PEOPLE.slice(0, number)
        drop(catalog, "people")
    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PEOPLE, "the last that was dropped, unless told"


@on_disk
@with_manifest
def test_of_several_generations_one_is_purged_and_the_others_stay(
    catalog: DirectoryNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    for number in (1, 2):
        create(catalog, "prod", "people", data=PEOPLE.slice(0, number))
        drop(catalog, "prod", "people")
    create(catalog, "prod", "people")
    first, second = catalog.list_trash()

    catalog.hold_table(["prod", "people"], generation=second.generation)
    catalog.purge_table(["prod", "people"], generation=first.generation)

    assert [dropped.generation for dropped in catalog.list_trash()] == [second.generation]
    catalog.undrop_table(["prod", "people"], as_id=["prod", "older"])
    assert contents(catalog, place, "prod", "older") == PEOPLE.slice(0, 2)
    assert contents(catalog, place, "prod", "people") == PEOPLE


@on_disk
def test_a_table_can_not_come_back_while_another_has_its_name(
    catalog: DirectoryNamespace, mode: Mode, place: Place
) -> None:
    namespace = ("prod",) if mode.has_manifest else ()
    if namespace:
        make_namespace(catalog, *namespace)
    create(catalog, *namespace, "people")
    drop(catalog, *namespace, "people")
    create(catalog, *namespace, "people", data=PLANTS)

    codes = (ErrorCode.TABLE_ALREADY_EXISTS, ErrorCode.TABLE_NOT_FOUND)
    with refused(codes[0] if namespace else codes[1]) as caught:
        catalog.undrop_table([*namespace, "people"])

    if namespace:
        assert "another name" in (caught.value.hint or "")
    assert contents(catalog, place, *namespace, "people") == PLANTS


@on_disk
@with_manifest_only
def test_with_a_manifest_the_name_of_a_dropped_table_can_be_declared(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    declare(catalog, "people")

    assert trash(catalog) == [("people",)]
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        catalog.undrop_table(["people"])
    catalog.undrop_table(["people"], as_id=["older"])
    assert contents(catalog, place, "older") == PEOPLE
