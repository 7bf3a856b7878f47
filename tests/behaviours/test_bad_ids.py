"""Identifiers that can't be: refused by every operation, before anything is touched."""

from __future__ import annotations

from collections.abc import Iterable

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import NAMESPACE_CALLS, TABLE_CALLS, Id, create, refused, tables
from tests.behaviours.places import Place

BAD: tuple[Id, ...] = (
    None,
    [""],
    ["."],
    [".."],
    ["../people"],
    ["people/"],
    ["a\\b"],
    ["a$b"],
    ["$"],
    ["a\0b"],
    ["a\nb"],
    ["a\x7fb"],
    ["a\u2028b"],
    ["__manifest"],
    ["__trash"],
    ["__"],
    ["x" * 246],
    ["é" * 124],
    ["ok", ""],
    ["", "ok"],
    ["ok", "a$b"],
    ["ok", "..", "people"],
    ["__manifest", "people"],
    ["x" * 123, "x" * 123],
)


def _tellable(ids: Iterable[Id], transport: str) -> list[Id]:
    """Those that a URL can tell from others: in there "$" ends a part, and "." is nothing."""
    if transport == "direct":
        return list(ids)
    return [id for id in ids if id != ["."] and not any("$" in part for part in id or ())]


@pytest.mark.parametrize("call", TABLE_CALLS)
def test_no_operation_takes_a_bad_table_id(
    catalog: api.LanceNamespace, place: Place, call: str, transport: str
) -> None:
    for bad in _tellable((*BAD, []), transport):
        with refused(ErrorCode.INVALID_INPUT):
            TABLE_CALLS[call](catalog, bad)
        assert place.files() == {}, f"{call} of {bad} left something behind"


@pytest.mark.parametrize("call", NAMESPACE_CALLS)
def test_no_operation_takes_a_bad_namespace_id(
    catalog: api.LanceNamespace, place: Place, call: str, transport: str
) -> None:
    for bad in _tellable(BAD, transport):
        with refused(ErrorCode.INVALID_INPUT):
            NAMESPACE_CALLS[call](catalog, bad)
        assert place.files() == {}, f"{call} of {bad} left something behind"


@pytest.mark.parametrize("call", TABLE_CALLS)
def test_a_bad_id_touches_nothing_that_is_there(
    catalog: api.LanceNamespace, place: Place, call: str, transport: str
) -> None:
    create(catalog, "people")
    before = place.files()
    bad_ids = (["people/"], ["./people"], ["people.lance/../people"], ["x$people"])

    for bad in _tellable(bad_ids, transport):
        with refused(ErrorCode.INVALID_INPUT):
            TABLE_CALLS[call](catalog, bad)

    assert place.files() == before
    assert tables(catalog) == ["people"]


def test_the_longest_name_is_taken(catalog: api.LanceNamespace) -> None:
    create(catalog, "x" * 245)

    assert tables(catalog) == ["x" * 245]
