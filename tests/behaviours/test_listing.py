"""Listing tables: one namespace or all, whole or in pages."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    all_tables,
    create,
    declare,
    make_namespace,
    refused,
    tables,
    write_lance,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_directory_listing, with_manifest
from tests.behaviours.places import Place

NAMES = ["a", "b", "b.c", "c", "Z"]


@pytest.fixture
def filled(catalog: api.LanceNamespace) -> api.LanceNamespace:
    for name in NAMES:
        declare(catalog, name)
    return catalog


def _page(catalog: api.LanceNamespace, **request: object) -> tuple[list[str], str | None]:
    answer = catalog.list_tables(api.ListTablesRequest(id=[], **request))
    return list(answer.tables), answer.page_token


def test_tables_are_listed_in_order(filled: api.LanceNamespace, reopen: Reopen) -> None:
    assert _page(filled) == (sorted(NAMES), None)
    assert tables(reopen()) == sorted(NAMES)


def test_all_tables_of_a_flat_catalog_are_its_tables(filled: api.LanceNamespace) -> None:
    assert all_tables(filled) == sorted(NAMES)


@with_manifest
def test_all_tables_are_listed_by_their_object_ids(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")
    make_namespace(catalog, "prod", "eu")
    declare(catalog, "people")
    declare(catalog, "prod", "people")
    create(catalog, "prod", "eu", "people")

    assert all_tables(catalog) == ["people", "prod$eu$people", "prod$people"]


@with_manifest
def test_a_namespace_lists_its_own_tables_only(catalog: api.LanceNamespace) -> None:
    for namespace in (["prod"], ["prod", "eu"], ["prod2"]):
        make_namespace(catalog, *namespace)
    for table in (["a"], ["prod", "b"], ["prod", "eu", "c"], ["prod2", "d"]):
        declare(catalog, *table)

    assert tables(catalog) == ["a"]
    assert tables(catalog, "prod") == ["b"]
    assert tables(catalog, "prod", "eu") == ["c"]


def test_pages_cover_everything_once(filled: api.LanceNamespace) -> None:
    seen: list[str] = []
    token: str | None = None
    for _ in NAMES:
        page, token = _page(filled, limit=2, page_token=token)
        assert len(page) <= 2
        seen += page
        if token is None:
            break

    assert seen == sorted(NAMES)


def test_a_page_that_holds_all_has_no_next(filled: api.LanceNamespace) -> None:
    assert _page(filled, limit=len(NAMES)) == (sorted(NAMES), None)
    assert _page(filled, limit=len(NAMES) + 1) == (sorted(NAMES), None)


def test_a_page_of_none_is_empty_and_the_last(filled: api.LanceNamespace) -> None:
    assert _page(filled, limit=0) == ([], None)


def test_a_token_past_the_end_gives_an_empty_page(filled: api.LanceNamespace) -> None:
    assert _page(filled, page_token="zzz") == ([], None)
    assert _page(filled, page_token="zzz", limit=2) == ([], None)


def test_a_negative_limit_is_refused(filled: api.LanceNamespace) -> None:
    with refused(ErrorCode.INVALID_INPUT):
        tables(filled, limit=-1)
    with refused(ErrorCode.INVALID_INPUT):
        all_tables(filled, limit=-1)


def test_all_tables_come_in_pages_too(filled: api.LanceNamespace) -> None:
    first = filled.list_all_tables(api.ListTablesRequest(limit=3))
    rest = filled.list_all_tables(api.ListTablesRequest(page_token=first.page_token))

    assert list(first.tables) + list(rest.tables) == sorted(NAMES)
    assert rest.page_token is None


def test_declared_tables_may_be_left_out(catalog: api.LanceNamespace) -> None:
    declare(catalog, "a")
    create(catalog, "b")
    declare(catalog, "c")

    assert tables(catalog, include_declared=False) == ["b"]
    assert all_tables(catalog, include_declared=False) == ["b"]
    assert tables(catalog, include_declared=True) == ["a", "b", "c"]


def test_pages_without_declared_tables_are_full(catalog: api.LanceNamespace) -> None:
    for name in ("a", "c"):
        declare(catalog, name)
    for name in ("b", "d", "e"):
        create(catalog, name)

    assert _page(catalog, include_declared=False, limit=2) == (["b", "d"], "d")


@with_directory_listing
def test_a_table_that_lance_wrote_is_listed(catalog: api.LanceNamespace, place: Place) -> None:
    write_lance(place, "people.lance")

    assert tables(catalog) == ["people"]


@with_directory_listing
def test_what_is_no_table_is_not_listed(catalog: api.LanceNamespace, place: Place) -> None:
    for key in ("notes.txt", "folder/file", ".lance/file", "a$b.lance/file", "__x.lance/file"):
        place.write(key, b"x")
    place.write("file.lance", b"a file and not a directory")

    assert tables(catalog) == []


@with_manifest
def test_a_missing_namespace_cannot_be_listed(catalog: api.LanceNamespace) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        tables(catalog, "prod")
