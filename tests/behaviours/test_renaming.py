"""Renaming a table, also into another namespace: a matter of the manifest, its data stays."""

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
    describe,
    drop,
    exists,
    make_namespace,
    refused,
    rename,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import in_directory_mode, with_manifest
from tests.behaviours.places import Place


@in_directory_mode
def test_directory_mode_cannot_rename(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")

    with refused(ErrorCode.UNSUPPORTED):
        rename(catalog, "people", to="staff")

    assert tables(catalog) == ["people"]


@with_manifest
@pytest.mark.parametrize("home", [[], ["prod"]], ids=["root", "namespace"])
def test_a_renamed_table_has_its_new_name_only(
    catalog: api.LanceNamespace, reopen: Reopen, place: Place, home: list[str]
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, *home, "people")

    rename(catalog, *home, "people", to="staff")

    for client in (catalog, reopen()):
        assert tables(client, *home) == ["staff"]
        assert not exists(client, *home, "people")
        assert contents(client, place, *home, "staff") == PEOPLE


@with_manifest
def test_a_table_moves_between_namespaces(catalog: api.LanceNamespace, place: Place) -> None:
    make_namespace(catalog, "prod")
    make_namespace(catalog, "test")
    create(catalog, "test", "people")

    rename(catalog, "test", "people", to="people", into=["prod"])

    assert tables(catalog, "test") == []
    assert tables(catalog, "prod") == ["people"]
    assert contents(catalog, place, "prod", "people") == PEOPLE


@with_manifest
def test_a_table_moves_into_and_out_of_the_root(catalog: api.LanceNamespace, place: Place) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")

    rename(catalog, "people", to="staff", into=["prod"])
    assert (tables(catalog), tables(catalog, "prod")) == ([], ["staff"])

    rename(catalog, "prod", "staff", to="staff", into=[])
    assert (tables(catalog), tables(catalog, "prod")) == (["staff"], [])
    assert contents(catalog, place, "staff") == PEOPLE


@with_manifest
def test_a_renamed_table_keeps_its_properties(catalog: api.LanceNamespace) -> None:
    create(catalog, "people", properties={"owner": "ada"})

    rename(catalog, "people", to="staff")

    assert describe(catalog, "staff").properties == {"owner": "ada"}


@with_manifest
def test_a_declared_table_can_be_renamed_and_then_created(
    catalog: api.LanceNamespace, place: Place
) -> None:
    declare(catalog, "people")

    rename(catalog, "people", to="staff")
    create(catalog, "staff")

    assert tables(catalog) == ["staff"]
    assert contents(catalog, place, "staff") == PEOPLE


@with_manifest
def test_the_old_name_is_free_and_its_next_table_is_another(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    rename(catalog, "people", to="staff")

    create(catalog, "people", data=PLANTS)

    assert contents(catalog, place, "staff") == PEOPLE
    assert contents(catalog, place, "people") == PLANTS
    drop(catalog, "people")
    assert contents(catalog, place, "staff") == PEOPLE


@with_manifest
def test_a_taken_name_is_not_taken_over(catalog: api.LanceNamespace, place: Place) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")
    create(catalog, "plants", data=PLANTS)

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        rename(catalog, "people", to="plants")
    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        rename(catalog, "people", to="prod")

    assert contents(catalog, place, "people") == PEOPLE
    assert contents(catalog, place, "plants") == PLANTS


@with_manifest
def test_what_is_missing_is_told(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")

    with refused(ErrorCode.TABLE_NOT_FOUND):
        rename(catalog, "plants", to="trees")
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        rename(catalog, "prod", "people", to="staff")
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        rename(catalog, "people", to="staff", into=["prod"])

    assert tables(catalog) == ["people"]


@with_manifest
@pytest.mark.parametrize("name", ["", "a$b", "a/b", "..", "__manifest", "x" * 300])
def test_a_bad_new_name_is_refused(catalog: api.LanceNamespace, place: Place, name: str) -> None:
    create(catalog, "people")
    before = place.files()

    with refused(ErrorCode.INVALID_INPUT):
        rename(catalog, "people", to=name)

    assert place.files() == before
