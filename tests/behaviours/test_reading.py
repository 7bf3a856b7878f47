"""Reads never write: they work where nothing may be written, and leave nothing behind."""

from __future__ import annotations

from pathlib import Path

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    all_tables,
    create,
    declare,
    deregister,
    describe,
    drop,
    exists,
    namespace_exists,
    namespaces,
    properties_of,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.places import Disk, Place


def _read_everything(catalog: api.LanceNamespace) -> None:
    for name in tables(catalog):
        describe(catalog, name, load_detailed_metadata=True, check_declared=True)
        exists(catalog, name)
    tables(catalog, include_declared=False)
    all_tables(catalog)
    namespaces(catalog)
    properties_of(catalog)
    namespace_exists(catalog)
    exists(catalog, "missing")


def test_a_catalog_that_is_not_there_yet_is_empty(
    catalog: api.LanceNamespace, place: Place
) -> None:
    assert tables(catalog) == []
    assert all_tables(catalog) == []
    assert namespaces(catalog) == []
    assert properties_of(catalog) == {}
    assert namespace_exists(catalog)
    assert not exists(catalog, "people")
    with refused(ErrorCode.TABLE_NOT_FOUND):
        describe(catalog, "people")

    assert place.files() == {}
    assert not (isinstance(place, Disk) and Path(place.root).exists())


@pytest.mark.parametrize("place", ["disk"], indirect=True)
def test_an_empty_directory_stays_empty(catalog: api.LanceNamespace, place: Place) -> None:
    Path(place.root).mkdir()

    _read_everything(catalog)

    assert place.files() == {}


def test_failing_to_find_something_leaves_nothing_behind(
    catalog: api.LanceNamespace, place: Place
) -> None:
    for deregister_or_drop in (deregister, drop):
        with refused(ErrorCode.TABLE_NOT_FOUND):
            deregister_or_drop(catalog, "people")

    assert not [key for key in place.files() if "people" in key]


def test_reading_changes_no_file(catalog: api.LanceNamespace, reopen: Reopen, place: Place) -> None:
    create(catalog, "people")
    declare(catalog, "plants")
    create(catalog, "hidden")
    deregister(catalog, "hidden")
    before = place.files()

    _read_everything(reopen())

    assert place.files() == before
