"""Two clients on one root: what one has changed, the other knows from then on."""

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
    drop_namespace,
    exists,
    make_namespace,
    namespaces,
    refused,
    register,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_manifest
from tests.behaviours.places import Place


@pytest.fixture
def other(reopen: Reopen, catalog: api.LanceNamespace) -> api.LanceNamespace:
    """Another client that has already looked, so that it may have something to be wrong about."""
    create(catalog, "seen")
    client = reopen()
    assert tables(client) == ["seen"]
    assert describe(client, "seen", load_detailed_metadata=True).version == 1
    assert not exists(client, "people")
    return client


def test_a_new_table_is_seen(catalog: api.LanceNamespace, other: api.LanceNamespace) -> None:
    create(catalog, "people")

    assert tables(other) == ["people", "seen"]
    assert exists(other, "people")


def test_a_new_version_is_seen(catalog: api.LanceNamespace, other: api.LanceNamespace) -> None:
    create(catalog, "seen", data=PLANTS, mode="overwrite")

    described = describe(other, "seen", load_detailed_metadata=True)
    assert described.version == 2
    assert described.var_schema is not None
    assert [field.name for field in described.var_schema.fields] == ["plant"]


def test_a_dropped_table_is_missed(catalog: api.LanceNamespace, other: api.LanceNamespace) -> None:
    drop(catalog, "seen")

    assert tables(other) == []
    assert not exists(other, "seen")
    with refused(ErrorCode.TABLE_NOT_FOUND):
        drop(other, "seen")


def test_a_table_made_anew_is_the_new_one(
    catalog: api.LanceNamespace, other: api.LanceNamespace, place: Place
) -> None:
    drop(catalog, "seen")
    create(catalog, "seen", data=PLANTS)

    assert contents(other, place, "seen") == PLANTS
    described = describe(other, "seen", load_detailed_metadata=True)
    assert described.var_schema is not None
    assert [field.name for field in described.var_schema.fields] == ["plant"]


def test_a_name_taken_by_one_is_taken_for_the_other(
    catalog: api.LanceNamespace, other: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        create(other, "people", data=PLANTS)
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        declare(other, "people")

    assert contents(other, place, "people") == PEOPLE


def test_hiding_and_showing_are_seen(
    catalog: api.LanceNamespace, other: api.LanceNamespace
) -> None:
    location = deregister(catalog, "seen").location
    assert tables(other) == []
    with refused(ErrorCode.TABLE_NOT_FOUND):
        deregister(other, "seen")

    register(other, "seen", at=location)
    assert tables(catalog) == ["seen"]


@with_manifest
def test_namespaces_are_seen_and_missed(
    catalog: api.LanceNamespace, other: api.LanceNamespace
) -> None:
    make_namespace(catalog, "prod")
    assert namespaces(other) == ["prod"]

    drop_namespace(catalog, "prod")
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        create(other, "prod", "people")


@with_manifest
def test_a_namespace_that_another_filled_is_not_dropped(
    catalog: api.LanceNamespace, other: api.LanceNamespace
) -> None:
    make_namespace(catalog, "prod")
    assert tables(other, "prod") == []
    create(catalog, "prod", "people")

    with refused(ErrorCode.NAMESPACE_NOT_EMPTY):
        drop_namespace(other, "prod")

    assert exists(catalog, "prod", "people")
