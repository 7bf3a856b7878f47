"""Dropping a table: it is gone for everybody, at once."""

from __future__ import annotations

import lance_namespace as api
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    all_tables,
    contents,
    create,
    declare,
    describe,
    drop,
    exists,
    make_namespace,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_manifest, with_manifest_only
from tests.behaviours.places import Place


def test_a_dropped_table_is_gone_for_everybody(catalog: api.LanceNamespace, reopen: Reopen) -> None:
    create(catalog, "people")
    create(catalog, "plants")

    drop(catalog, "people")

    for client in (catalog, reopen()):
        assert tables(client) == ["plants"]
        assert all_tables(client) == ["plants"]
        assert not exists(client, "people")
        with refused(ErrorCode.TABLE_NOT_FOUND):
            describe(client, "people", load_detailed_metadata=True)


def test_dropping_answers_what_was_dropped(catalog: api.LanceNamespace) -> None:
    location = create(catalog, "people").location

    answer = drop(catalog, "people")

    assert (answer.id, answer.location) == (["people"], location)


def test_only_the_table_that_was_meant_is_dropped(
    catalog: api.LanceNamespace, place: Place
) -> None:
    for name in ("people", "people2", "peopl", "people.lance"):
        create(catalog, name)

    drop(catalog, "people")

    assert tables(catalog) == ["peopl", "people.lance", "people2"]
    assert contents(catalog, place, "people.lance") == PEOPLE


def test_the_name_of_a_dropped_table_is_free(catalog: api.LanceNamespace, place: Place) -> None:
    create(catalog, "people")

    for _ in range(3):
        drop(catalog, "people")
        create(catalog, "people", data=PLANTS)

    assert tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PLANTS


@with_manifest_only
def test_the_name_of_a_dropped_table_can_be_declared(catalog: api.LanceNamespace) -> None:
    first = create(catalog, "people")
    drop(catalog, "people")

    second = declare(catalog, "people")

    assert second.location != first.location
    assert describe(catalog, "people", check_declared=True).is_only_declared is True


def test_a_declared_table_can_be_dropped(catalog: api.LanceNamespace) -> None:
    declare(catalog, "people")

    drop(catalog, "people")

    assert tables(catalog) == []
    assert not exists(catalog, "people")


def test_only_a_table_that_is_there_can_be_dropped(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    for table in ("people", "plants"):
        with refused(ErrorCode.TABLE_NOT_FOUND):
            drop(catalog, table)


@with_manifest
def test_a_table_of_a_namespace_is_dropped_from_there(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")
    create(catalog, "prod", "people")

    drop(catalog, "prod", "people")

    assert all_tables(catalog) == ["people"]


@with_manifest
def test_a_table_of_a_missing_namespace_is_told_by_the_namespace(
    catalog: api.LanceNamespace,
) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        drop(catalog, "prod", "people")


@with_manifest
def test_a_namespace_cannot_be_dropped_as_a_table(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")

    with refused(ErrorCode.TABLE_NOT_FOUND):
        drop(catalog, "prod")
