"""Declaring a table: its name and its place are taken, and it holds nothing yet."""

from __future__ import annotations

import lance
import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    contents,
    create,
    declare,
    deregister,
    describe,
    exists,
    make_namespace,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import in_directory_mode, with_directory_listing, with_manifest
from tests.behaviours.places import Place


def test_a_declared_table_is_listed_and_exists(catalog: api.LanceNamespace, reopen: Reopen) -> None:
    declare(catalog, "people")

    assert tables(catalog) == ["people"]
    assert exists(catalog, "people")
    assert tables(reopen()) == ["people"]


def test_a_declared_table_says_that_it_is_only_declared(catalog: api.LanceNamespace) -> None:
    declared = declare(catalog, "people")

    described = describe(catalog, "people", check_declared=True, load_detailed_metadata=True)

    assert described.is_only_declared is True
    assert described.location == declared.location
    assert (described.version, described.var_schema, described.stats) == (None, None, None)


def test_a_declared_table_has_no_versions(catalog: api.LanceNamespace) -> None:
    declare(catalog, "people")

    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        describe(catalog, "people", version=1)


def test_a_name_is_declared_once(catalog: api.LanceNamespace) -> None:
    declare(catalog, "people")

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        declare(catalog, "people")


def test_a_created_table_cannot_be_declared(catalog: api.LanceNamespace, place: Place) -> None:
    create(catalog, "people")

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        declare(catalog, "people")

    assert contents(catalog, place, "people") == PEOPLE


@in_directory_mode
def test_a_hidden_table_keeps_its_name(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")
    deregister(catalog, "people")

    with refused(ErrorCode.TABLE_ALREADY_EXISTS) as caught:
        declare(catalog, "people")

    assert "register_table" in str(caught.value)


@pytest.mark.parametrize("how", ["create", "exist_ok", "overwrite"])
def test_any_mode_of_create_fills_a_declared_table(
    catalog: api.LanceNamespace, place: Place, how: str
) -> None:
    declared = declare(catalog, "people")

    created = create(catalog, "people", mode=how)

    assert (created.location, created.version) == (declared.location, 1)
    assert contents(catalog, place, "people") == PEOPLE
    assert describe(catalog, "people", check_declared=True).is_only_declared is False


def test_whoever_declared_a_table_may_write_it_with_lance(
    catalog: api.LanceNamespace, place: Place
) -> None:
    location = declare(catalog, "people").location

    lance.write_dataset(PEOPLE, location, storage_options=place.storage_options or None)

    described = describe(catalog, "people", load_detailed_metadata=True, check_declared=True)
    assert (described.version, described.is_only_declared) == (1, False)
    assert contents(catalog, place, "people") == PEOPLE


@with_directory_listing
def test_the_location_that_the_catalog_would_choose_may_be_given(
    catalog: api.LanceNamespace, place: Place
) -> None:
    declared = declare(catalog, "people", location=place.uri("people.lance"))

    assert declared.location == place.uri("people.lance")


@pytest.mark.parametrize("elsewhere", ["other.lance", "/somewhere/else", "s3://foreign/people"])
def test_no_other_location_may_be_given(
    catalog: api.LanceNamespace, place: Place, elsewhere: str
) -> None:
    with refused(ErrorCode.INVALID_INPUT):
        declare(catalog, "people", location=elsewhere)

    assert place.files() == {}


@in_directory_mode
def test_directory_mode_has_no_place_for_properties(
    catalog: api.LanceNamespace, place: Place
) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        declare(catalog, "people", properties={"owner": "ada"})

    assert place.files() == {}


@with_manifest
def test_a_declared_table_keeps_its_properties(catalog: api.LanceNamespace, reopen: Reopen) -> None:
    declared = declare(catalog, "people", properties={"owner": "ada"})

    assert declared.properties == {"owner": "ada"}
    assert describe(reopen(), "people").properties == {"owner": "ada"}


@with_manifest
def test_a_table_is_declared_in_a_namespace(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")

    declare(catalog, "prod", "people")

    assert tables(catalog, "prod") == ["people"]
    assert tables(catalog) == []
    described = describe(catalog, "prod", "people")
    assert (described.namespace, described.table) == (["prod"], "people")


@with_manifest
def test_a_table_is_not_declared_in_a_namespace_that_is_missing(
    catalog: api.LanceNamespace, place: Place
) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        declare(catalog, "prod", "people")

    assert not any("people" in key for key in place.files())
