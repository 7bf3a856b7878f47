"""Taking a table out of the catalog and putting it back; its data is never touched."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    make_namespace,
    refused,
    register,
    tables,
    write_lance,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import in_directory_mode, with_manifest
from tests.behaviours.places import Place

NOT_MINE = (ErrorCode.INVALID_INPUT, ErrorCode.TABLE_ALREADY_EXISTS)


# -- out


def test_a_deregistered_table_is_hidden_from_everybody(
    catalog: api.LanceNamespace, reopen: Reopen
) -> None:
    create(catalog, "people")
    create(catalog, "plants", data=PLANTS)

    deregister(catalog, "people")

    for client in (catalog, reopen()):
        assert tables(client) == ["plants"]
        assert not exists(client, "people")
        with refused(ErrorCode.TABLE_NOT_FOUND):
            describe(client, "people")


def test_deregistering_answers_where_the_data_stays(
    catalog: api.LanceNamespace, place: Place
) -> None:
    location = create(catalog, "people").location
    data = {key: state for key, state in place.files().items() if "/data/" in key}

    answer = deregister(catalog, "people")

    assert (answer.id, answer.location) == (["people"], location)
    assert data == {key: state for key, state in place.files().items() if "/data/" in key}


def test_a_declared_table_can_be_deregistered(catalog: api.LanceNamespace) -> None:
    declare(catalog, "people")

    deregister(catalog, "people")

    assert tables(catalog) == []


def test_only_a_table_that_is_there_can_be_deregistered(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")
    deregister(catalog, "people")

    for table in ("people", "plants"):
        with refused(ErrorCode.TABLE_NOT_FOUND):
            deregister(catalog, table)


@in_directory_mode
def test_a_deregistered_table_can_be_dropped(catalog: api.LanceNamespace, place: Place) -> None:
    create(catalog, "people")
    deregister(catalog, "people")

    drop(catalog, "people")

    assert tables(catalog) == []
    create(catalog, "people", data=PLANTS)
    assert contents(catalog, place, "people") == PLANTS


@with_manifest
def test_deregistering_answers_with_the_properties(catalog: api.LanceNamespace) -> None:
    create(catalog, "people", properties={"owner": "ada"})

    assert deregister(catalog, "people").properties == {"owner": "ada"}


@with_manifest
def test_a_table_of_a_missing_namespace_cannot_be_deregistered(
    catalog: api.LanceNamespace,
) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        deregister(catalog, "prod", "people")


# -- in


def test_a_registered_table_is_back_as_it_was(
    catalog: api.LanceNamespace, reopen: Reopen, place: Place
) -> None:
    create(catalog, "people")
    location = deregister(catalog, "people").location

    answer = register(catalog, "people", at=location)

    assert answer.location == location
    for client in (catalog, reopen()):
        assert tables(client) == ["people"]
        assert contents(client, place, "people") == PEOPLE


def test_a_table_can_go_out_and_in_many_times(catalog: api.LanceNamespace) -> None:
    location = create(catalog, "people").location

    for _ in range(3):
        deregister(catalog, "people")
        assert not exists(catalog, "people")
        register(catalog, "people", at=location)
        assert exists(catalog, "people")


@pytest.mark.parametrize("form", ["relative", "with a slash", "location", "table uri"])
def test_a_location_is_understood_in_every_form(
    catalog: api.LanceNamespace, place: Place, form: str
) -> None:
    create(catalog, "a b%20c")
    described = describe(catalog, "a b%20c", with_table_uri=True)
    assert described.location is not None
    assert described.table_uri is not None
    forms = {
        "relative": place.key(described.location),
        "with a slash": f"{place.key(described.location)}/",
        "location": described.location,
        "table uri": described.table_uri,
    }
    deregister(catalog, "a b%20c")

    register(catalog, "a b%20c", at=forms[form])

    assert describe(catalog, "a b%20c").location == described.location


def test_a_name_is_registered_once(catalog: api.LanceNamespace) -> None:
    location = create(catalog, "people").location

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        register(catalog, "people", at=location)


@pytest.mark.parametrize(
    "elsewhere",
    [
        "",
        "/",
        ".",
        "..",
        "../people.lance",
        "people.lance/../people.lance",
        "folder//people.lance",
        "/somewhere/else/people.lance",
        "s3://foreign/people.lance",
        "file:///somewhere/else/people.lance",
        "gs://",
    ],
)
def test_a_location_outside_the_catalog_is_refused(
    catalog: api.LanceNamespace, place: Place, elsewhere: str
) -> None:
    create(catalog, "people")
    deregister(catalog, "people")
    before = place.files()

    with refused(ErrorCode.INVALID_INPUT):
        register(catalog, "people", at=elsewhere)

    assert place.files() == before


def test_a_root_whose_name_begins_like_ours_is_outside(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    location = deregister(catalog, "people").location
    assert location is not None

    with refused(ErrorCode.INVALID_INPUT):
        register(catalog, "people", at=location.replace(place.root, f"{place.root}x"))


def test_a_place_without_a_table_cannot_be_registered(
    catalog: api.LanceNamespace, place: Place
) -> None:
    with refused(ErrorCode.INVALID_INPUT):
        register(catalog, "people", at="people.lance")

    assert not exists(catalog, "people")


@in_directory_mode
def test_in_directory_mode_the_location_is_the_name(
    catalog: api.LanceNamespace, place: Place
) -> None:
    write_lance(place, "imported/people")
    create(catalog, "people")
    deregister(catalog, "people")

    for name, location in (("other", "people.lance"), ("people", "imported/people")):
        with refused(ErrorCode.INVALID_INPUT):
            register(catalog, name, at=location)


@in_directory_mode
def test_directory_mode_has_no_place_for_properties(catalog: api.LanceNamespace) -> None:
    location = create(catalog, "people").location
    deregister(catalog, "people")

    with refused(ErrorCode.UNSUPPORTED):
        register(catalog, "people", at=location, properties={"owner": "ada"})

    assert not exists(catalog, "people")


def test_an_unknown_mode_is_refused(catalog: api.LanceNamespace) -> None:
    location = create(catalog, "people").location
    deregister(catalog, "people")

    with refused(ErrorCode.INVALID_INPUT):
        register(catalog, "people", at=location, mode="perhaps")

    assert not exists(catalog, "people")


# -- in, where a manifest says what lies where


@with_manifest
def test_a_table_that_lance_wrote_can_be_registered_under_any_name(
    catalog: api.LanceNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    write_lance(place, "imported/2024")

    answer = register(catalog, "prod", "people", at="imported/2024", properties={"owner": "ada"})

    assert answer.location == place.uri("imported/2024")
    assert answer.properties == {"owner": "ada"}
    assert contents(catalog, place, "prod", "people") == PEOPLE
    assert describe(catalog, "prod", "people").properties == {"owner": "ada"}


@with_manifest
def test_a_deregistered_table_can_come_back_under_another_name(
    catalog: api.LanceNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")
    location = deregister(catalog, "prod", "people").location

    register(catalog, "staff", at=location)

    assert tables(catalog) == ["staff"]
    assert contents(catalog, place, "staff") == PEOPLE
    assert not exists(catalog, "prod", "people")


@with_manifest
@pytest.mark.parametrize(
    "claimed", ["imported/people", "imported", "imported/people/inner", "imported/people/data"]
)
def test_a_location_has_one_owner(catalog: api.LanceNamespace, place: Place, claimed: str) -> None:
    for key in ("imported/people", "imported", "imported/people/inner"):
        write_lance(place, key)
    register(catalog, "people", at="imported/people")

    with refused(*NOT_MINE):
        register(catalog, "thief", at=claimed)

    assert tables(catalog) == ["people"]


@with_manifest
def test_a_neighbour_with_a_longer_name_is_no_owner(
    catalog: api.LanceNamespace, place: Place
) -> None:
    for key in ("imported/people", "imported/people2"):
        write_lance(place, key)

    register(catalog, "people", at="imported/people")
    register(catalog, "people2", at="imported/people2")

    assert tables(catalog) == ["people", "people2"]


@with_manifest
def test_the_place_of_a_created_table_cannot_be_registered(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")
    location = create(catalog, "prod", "people").location

    with refused(*NOT_MINE):
        register(catalog, "prod", "thief", at=location)

    assert tables(catalog, "prod") == ["people"]


@with_manifest
@pytest.mark.parametrize("own", ["__manifest", "__manifest/data", "__trash", "__gc/x"])
def test_the_catalogs_own_places_cannot_be_registered(
    catalog: api.LanceNamespace, own: str
) -> None:
    create(catalog, "people")

    with refused(ErrorCode.INVALID_INPUT):
        register(catalog, "thief", at=own)

    assert tables(catalog) == ["people"]


@with_manifest
def test_a_table_cannot_be_registered_in_a_missing_namespace(
    catalog: api.LanceNamespace, place: Place
) -> None:
    write_lance(place, "imported/people")

    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        register(catalog, "prod", "people", at="imported/people")


@with_manifest
def test_overwrite_points_a_name_at_another_table(
    catalog: api.LanceNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")
    write_lance(place, "imported/plants", PLANTS)

    register(catalog, "prod", "people", at="imported/plants", mode="overwrite")

    assert contents(catalog, place, "prod", "people") == PLANTS
