"""Any name is refused, or it goes through a table's whole life unchanged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from urllib.parse import quote

import lance_namespace as api
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    NAMESPACE_CALLS,
    PEOPLE,
    PLANTS,
    TABLE_CALLS,
    all_tables,
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
from tests.behaviours.conftest import open_catalog
from tests.behaviours.modes import Mode, with_manifest
from tests.behaviours.places import Disk, Place

Fresh = Callable[[], tuple[api.LanceNamespace, Place]]

AWKWARD = "\"'`%#?*[]{}|^~<>&+=:;,!@() .-_%2F%00é😀ßΩ中\u200d\u0301\ufeff"
PLAIN = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"])
LETTERS = (st.sampled_from(AWKWARD) | PLAIN).filter(lambda letter: letter not in "$/\\")


def _is_good(name: str) -> bool:
    return name not in (".", "..") and not name.startswith("__") and len(name.encode()) <= 120


GOOD = st.text(LETTERS, min_size=1, max_size=40).filter(_is_good)
FORBIDDEN = st.sampled_from(["$", "/", "\\", "\0", "\n", "\x1f", "\x7f", "\x85", "\u2028"])
BAD = (
    st.sampled_from(["", ".", ".."])
    | st.builds(lambda a, x, b: a + x + b, st.text(LETTERS), FORBIDDEN, st.text(LETTERS))
    | st.text(LETTERS, min_size=1, max_size=20).map(lambda name: f"__{name}")
    | st.text(st.sampled_from("aé中😀"), min_size=246, max_size=300)
)

NAMES = (
    "a b",
    "100%",
    "%41",
    "a%2Fb",
    "people.lance",
    "people.deleted",
    ".hidden",
    "cafe0123_x",
    "-",
    "a" * 100,
    "\u00e9",  # e with an accent as one character,
    "e\u0301",  # and as two: these are two tables
)

# The fixtures say where; every example then has a root of its own there.
few = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
many = settings(few, max_examples=30)
on_disk = pytest.mark.parametrize("place", ["disk"], indirect=True)
on_s3 = pytest.mark.parametrize("place", ["s3"], indirect=True)


@pytest.fixture
def fresh(mode: Mode, place: Place) -> Fresh:
    number = count()

    def another() -> tuple[api.LanceNamespace, Place]:
        inside = place.below(f"root{next(number)}")
        return open_catalog(mode, inside), inside

    return another


def _live(catalog: api.LanceNamespace, place: Place, name: str) -> None:
    declared = declare(catalog, name)
    assert tables(catalog) == [name]
    described = describe(catalog, name)
    assert (described.table, described.location) == (name, declared.location)

    create(catalog, name)
    assert contents(catalog, place, name) == PEOPLE
    assert all_tables(catalog) == [name]

    register(catalog, name, at=deregister(catalog, name).location or "")
    assert exists(catalog, name)

    drop(catalog, name)
    assert tables(catalog) == []
    assert not exists(catalog, name)


def _refuse(catalog: api.LanceNamespace, place: Place, name: str) -> None:
    for call in TABLE_CALLS.values():
        with refused(ErrorCode.INVALID_INPUT):
            call(catalog, [name])
    for call in NAMESPACE_CALLS.values():
        with refused(ErrorCode.INVALID_INPUT):
            call(catalog, [name])
    assert place.files() == {}


@on_disk
@many
@given(GOOD)
def test_a_good_name_lives_on_disk(fresh: Fresh, name: str) -> None:
    _live(*fresh(), name)


@on_s3
@few
@given(GOOD)
def test_a_good_name_lives_in_a_bucket(fresh: Fresh, name: str) -> None:
    _live(*fresh(), name)


@pytest.mark.parametrize("name", NAMES)
def test_names_that_look_like_something_else_live(fresh: Fresh, name: str) -> None:
    _live(*fresh(), name)


@on_disk
@many
@given(BAD)
@example("\ud800")
def test_a_bad_name_is_refused_by_every_operation(fresh: Fresh, name: str) -> None:
    _refuse(*fresh(), name)


@on_s3
@few
@given(BAD)
def test_a_bad_name_leaves_nothing_in_a_bucket(fresh: Fresh, name: str) -> None:
    _refuse(*fresh(), name)


@on_disk
@many
@given(st.lists(GOOD, min_size=2, max_size=6, unique=True))
def test_different_names_are_different_tables(fresh: Fresh, names: list[str]) -> None:
    catalog, _ = fresh()

    locations = {declare(catalog, name).location for name in names}

    assert len(locations) == len(names)
    assert tables(catalog) == sorted(names)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_and_its_encoded_form_are_two_tables(fresh: Fresh, name: str) -> None:
    catalog, place = fresh()
    encoded = quote(name, safe="") if quote(name, safe="") != name else f"{name}%20"

    create(catalog, name, data=PEOPLE)
    create(catalog, encoded, data=PLANTS)

    assert contents(catalog, place, name) == PEOPLE
    assert contents(catalog, place, encoded) == PLANTS


@on_disk
@with_manifest
@few
@given(st.lists(GOOD, min_size=2, max_size=3))
def test_a_good_path_lives(fresh: Fresh, path: list[str]) -> None:
    catalog, place = fresh()
    if len("$".join(path).encode()) > 245:
        return
    for depth in range(1, len(path)):
        make_namespace(catalog, *path[:depth])

    create(catalog, *path)

    assert namespaces(catalog) == path[:1]
    assert tables(catalog, *path[:-1]) == path[-1:]
    assert all_tables(catalog) == ["$".join(path)]
    assert contents(catalog, place, *path) == PEOPLE
    drop_namespace(catalog, path[0], behavior="Cascade")
    assert all_tables(catalog) == []


def test_a_path_on_disk_is_given_as_it_is_and_a_uri_encoded_once(
    catalog: api.LanceNamespace, place: Place
) -> None:
    location = create(catalog, "a b%20c#d").location

    assert location is not None
    if isinstance(place, Disk):
        assert "a b%20c#d" in location
    else:
        assert "a%20b%2520c%23d" in location
