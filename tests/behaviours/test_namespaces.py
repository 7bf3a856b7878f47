"""Namespaces where there is a manifest to keep them."""

from __future__ import annotations

from contextlib import suppress

import lance_namespace as api
import pytest
from lance_namespace import errors as lance_errors
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    all_tables,
    create,
    declare,
    drop_namespace,
    exists,
    make_namespace,
    namespace_exists,
    namespaces,
    properties_of,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_manifest

pytestmark = with_manifest


def test_a_created_namespace_is_listed_described_and_exists(catalog: api.LanceNamespace) -> None:
    answer = make_namespace(catalog, "prod", properties={"owner": "ada"})

    assert answer.properties == {"owner": "ada"}
    assert namespaces(catalog) == ["prod"]
    assert properties_of(catalog, "prod") == {"owner": "ada"}
    assert namespace_exists(catalog, "prod")
    assert tables(catalog, "prod") == []


def test_a_namespace_without_properties_has_none(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")

    assert properties_of(catalog, "prod") == {}


def test_properties_keep_every_character(catalog: api.LanceNamespace, reopen: Reopen) -> None:
    awkward = {"quote": 'a "b" \\ c', "": "empty key", "long": "x" * 5_000, "ключ": "✓\n"}

    make_namespace(catalog, "prod", properties=awkward)

    assert properties_of(reopen(), "prod") == awkward


def test_namespaces_nest(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")
    make_namespace(catalog, "prod", "eu")
    make_namespace(catalog, "prod", "eu", "web", properties={"depth": "3"})

    assert namespaces(catalog) == ["prod"]
    assert namespaces(catalog, "prod") == ["eu"]
    assert namespaces(catalog, "prod", "eu") == ["web"]
    assert properties_of(catalog, "prod", "eu", "web") == {"depth": "3"}


def test_a_namespace_lists_its_own_children_only(catalog: api.LanceNamespace) -> None:
    for name in ("prod", "prod2", "pro"):
        make_namespace(catalog, name)
    make_namespace(catalog, "prod", "eu")
    make_namespace(catalog, "prod2", "us")

    assert namespaces(catalog, "prod") == ["eu"]
    assert namespaces(catalog, "pro") == []


def test_a_namespace_needs_its_parent(catalog: api.LanceNamespace) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        make_namespace(catalog, "prod", "eu")

    assert namespaces(catalog) == []


def test_a_namespace_is_created_once(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod", properties={"owner": "ada"})

    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        make_namespace(catalog, "prod", properties={"owner": "bo"})

    assert properties_of(catalog, "prod") == {"owner": "ada"}


@pytest.mark.parametrize("spelling", ["exist_ok", "ExistOk", "EXIST_OK"])
def test_exist_ok_leaves_a_namespace_as_it_is(catalog: api.LanceNamespace, spelling: str) -> None:
    make_namespace(catalog, "prod", properties={"owner": "ada"})

    answer = make_namespace(catalog, "prod", mode=spelling, properties={"owner": "bo"})

    assert answer.properties == {"owner": "ada"}
    assert properties_of(catalog, "prod") == {"owner": "ada"}


def test_overwrite_replaces_the_properties(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod", properties={"owner": "ada", "old": "1"})

    answer = make_namespace(catalog, "prod", mode="overwrite", properties={"owner": "bo"})

    assert answer.properties == {"owner": "bo"}
    assert properties_of(catalog, "prod") == {"owner": "bo"}


@pytest.mark.parametrize("mode_of_create", ["exist_ok", "overwrite"])
def test_any_mode_creates_a_namespace_that_is_missing(
    catalog: api.LanceNamespace, mode_of_create: str
) -> None:
    make_namespace(catalog, "prod", mode=mode_of_create, properties={"owner": "ada"})

    assert properties_of(catalog, "prod") == {"owner": "ada"}


def test_overwrite_never_takes_a_table_away(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people")

    with suppress(lance_errors.NamespaceNotEmptyError):
        make_namespace(catalog, "prod", mode="overwrite")

    assert exists(catalog, "prod", "people")


def test_namespaces_come_in_pages(catalog: api.LanceNamespace) -> None:
    for name in ("c", "a", "d", "b"):
        make_namespace(catalog, name)

    first = catalog.list_namespaces(api.ListNamespacesRequest(id=[], limit=3))
    rest = catalog.list_namespaces(
        api.ListNamespacesRequest(id=[], limit=3, page_token=first.page_token)
    )

    assert list(first.namespaces) == ["a", "b", "c"]
    assert (list(rest.namespaces), rest.page_token) == (["d"], None)


def test_the_root_has_properties_too(catalog: api.LanceNamespace, reopen: Reopen) -> None:
    make_namespace(catalog, mode="overwrite", properties={"owner": "ada"})

    assert properties_of(reopen()) == {"owner": "ada"}


def test_the_root_exists_and_cannot_be_created_or_dropped(catalog: api.LanceNamespace) -> None:
    assert namespace_exists(catalog)
    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        make_namespace(catalog)
    with refused(ErrorCode.INVALID_INPUT):
        drop_namespace(catalog)


def test_a_missing_namespace_is_told_as_such(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")

    assert not namespace_exists(catalog, "test")
    for ask in (namespaces, tables, properties_of, drop_namespace):
        with refused(ErrorCode.NAMESPACE_NOT_FOUND):
            ask(catalog, "test")
        with refused(ErrorCode.NAMESPACE_NOT_FOUND):
            ask(catalog, "prod", "test")


def test_a_dropped_namespace_is_gone_and_its_name_free(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod", properties={"owner": "ada"})

    answer = drop_namespace(catalog, "prod")

    assert answer.properties == {"owner": "ada"}
    assert namespaces(catalog) == []
    assert not namespace_exists(catalog, "prod")
    make_namespace(catalog, "prod")
    assert properties_of(catalog, "prod") == {}


@pytest.mark.parametrize("behavior", [None, "Restrict"])
@pytest.mark.parametrize("child", ["table", "declared", "namespace"])
def test_a_namespace_that_holds_something_is_not_dropped(
    catalog: api.LanceNamespace, child: str, behavior: str | None
) -> None:
    make_namespace(catalog, "prod")
    {"table": create, "declared": declare, "namespace": make_namespace}[child](
        catalog, "prod", "child"
    )

    with refused(ErrorCode.NAMESPACE_NOT_EMPTY):
        drop_namespace(catalog, "prod", behavior=behavior)

    assert namespace_exists(catalog, "prod")


def test_a_sibling_with_a_longer_name_does_not_keep_a_namespace(
    catalog: api.LanceNamespace,
) -> None:
    make_namespace(catalog, "prod")
    make_namespace(catalog, "prod2")
    create(catalog, "prod2", "people")

    drop_namespace(catalog, "prod")

    assert namespaces(catalog) == ["prod2"]
    assert exists(catalog, "prod2", "people")


def test_cascade_drops_all_that_a_namespace_holds_and_nothing_else(
    catalog: api.LanceNamespace,
) -> None:
    make_namespace(catalog, "prod")
    make_namespace(catalog, "prod", "eu")
    make_namespace(catalog, "prod2")
    create(catalog, "prod", "people")
    create(catalog, "prod", "eu", "people")
    create(catalog, "prod2", "people")
    create(catalog, "prod_people")

    drop_namespace(catalog, "prod", behavior="Cascade")

    assert namespaces(catalog) == ["prod2"]
    assert all_tables(catalog) == ["prod2$people", "prod_people"]


def test_skip_forgives_a_missing_namespace(catalog: api.LanceNamespace) -> None:
    drop_namespace(catalog, "prod", mode="skip")

    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        drop_namespace(catalog, "prod", mode="fail")


def test_skip_still_drops_a_namespace_that_is_there(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")

    drop_namespace(catalog, "prod", mode="Skip")

    assert not namespace_exists(catalog, "prod")


def test_a_table_and_a_namespace_cannot_share_an_id_and_the_one_there_names_the_error(
    catalog: api.LanceNamespace,
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")
    declare(catalog, "prod", "people")

    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        create(catalog, "prod")
    with refused(ErrorCode.NAMESPACE_ALREADY_EXISTS):
        declare(catalog, "prod")
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        make_namespace(catalog, "people")
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        make_namespace(catalog, "prod", "people")


def test_a_table_is_no_namespace(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")

    assert not namespace_exists(catalog, "people")
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        create(catalog, "people", "inner")


@pytest.mark.parametrize("wrong", [{"mode": "maybe"}, {"behavior": "sometimes"}])
def test_unknown_ways_to_drop_are_refused(
    catalog: api.LanceNamespace, wrong: dict[str, str]
) -> None:
    make_namespace(catalog, "prod")

    with refused(ErrorCode.INVALID_INPUT):
        drop_namespace(catalog, "prod", **wrong)

    assert namespace_exists(catalog, "prod")
