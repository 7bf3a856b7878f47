"""lancedb on our directory: with its own namespace, and with ours as its namespace."""

from __future__ import annotations

import lance_namespace as api
import pyarrow as pa
import pytest
from lancedb.namespace import LanceNamespaceDBConnection
from lancedb.table import Table

from tests.behaviours.calls import (
    contents,
    create,
    describe,
    drop,
    exists,
    make_namespace,
    namespaces,
    rename,
    tables,
)
from tests.behaviours.modes import Mode, with_manifest
from tests.behaviours.places import Place
from tests.peers.clients import OURS, THEIRS, open_lancedb

Catalog = api.LanceNamespace
Database = LanceNamespaceDBConnection

POINTS = pa.table(
    {
        "id": pa.array([1, 2, 3]),
        "vector": pa.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], pa.list_(pa.float32(), 2)),
    }
)
TWICE = pa.concat_tables([POINTS, POINTS])

on_disk = pytest.mark.parametrize("place", ["disk"], indirect=True)


@pytest.fixture(params=[THEIRS, OURS])
def database(request: pytest.FixtureRequest, mode: Mode, place: Place) -> Database:
    return open_lancedb(request.param, mode, place)


@pytest.fixture
def home(catalog: Catalog, mode: Mode) -> list[str]:
    """Where the mode has namespaces, one of them."""
    if not mode.has_manifest:
        return []
    make_namespace(catalog, "lake")
    return ["lake"]


def _open(database: Database, home: list[str], name: str) -> Table:
    # Options of the connection do not reach an open in this version of lancedb.
    options = database.storage_options or None
    return database.open_table(name, namespace_path=home, storage_options=options)


def _names(database: Database, home: list[str]) -> list[str]:
    return list(database.list_tables(namespace_path=home).tables)


def test_a_table_of_ours_is_opened_searched_and_added_to(
    catalog: Catalog, place: Place, database: Database, home: list[str]
) -> None:
    create(catalog, *home, "points", data=POINTS)

    opened = _open(database, home, "points")
    nearest = opened.search([0.9, 0.9]).limit(1).to_list()
    opened.add(POINTS)

    assert _names(database, home) == ["points"]
    assert [row["id"] for row in nearest] == [2]
    assert contents(catalog, place, *home, "points") == TWICE


def test_a_table_of_lancedb_is_ours(
    catalog: Catalog, place: Place, database: Database, home: list[str]
) -> None:
    database.create_table("points", POINTS, namespace_path=home).add(POINTS)

    assert tables(catalog, *home) == ["points"]
    assert describe(catalog, *home, "points", load_detailed_metadata=True).version == 2
    assert contents(catalog, place, *home, "points") == TWICE


@on_disk
def test_lancedb_overwrites_a_table(
    catalog: Catalog, place: Place, database: Database, home: list[str]
) -> None:
    create(catalog, *home, "points", data=TWICE)

    database.create_table("points", POINTS, namespace_path=home, mode="overwrite")

    assert contents(catalog, place, *home, "points") == POINTS


@on_disk
def test_lancedb_is_refused_a_name_that_is_taken(
    catalog: Catalog, place: Place, database: Database, home: list[str]
) -> None:
    create(catalog, *home, "points", data=POINTS)

    with pytest.raises((ValueError, RuntimeError), match="already exists"):
        database.create_table("points", TWICE, namespace_path=home)

    assert contents(catalog, place, *home, "points") == POINTS


@on_disk
def test_a_table_that_lancedb_drops_is_gone_for_us(
    catalog: Catalog, database: Database, home: list[str]
) -> None:
    create(catalog, *home, "points", data=POINTS)

    database.drop_table("points", namespace_path=home)

    assert not exists(catalog, *home, "points")


@on_disk
def test_a_table_that_we_drop_is_gone_for_lancedb(
    catalog: Catalog, database: Database, home: list[str]
) -> None:
    database.create_table("points", POINTS, namespace_path=home)

    drop(catalog, *home, "points")

    assert _names(database, home) == []
    with pytest.raises((api.TableNotFoundError, RuntimeError), match=r"(?i)table ?not ?found"):
        _open(database, home, "points")


@on_disk
@with_manifest
def test_a_table_that_we_rename_has_its_new_name_in_lancedb(
    catalog: Catalog, database: Database, home: list[str]
) -> None:
    database.create_table("points", POINTS, namespace_path=home)

    rename(catalog, *home, "points", to="dots")

    assert _names(database, home) == ["dots"]
    assert _open(database, home, "dots").to_arrow() == POINTS


@on_disk
@with_manifest
@pytest.mark.parametrize("database", [OURS], indirect=True)
def test_lancedb_renames_tables_of_our_namespace(
    catalog: Catalog, place: Place, database: Database, home: list[str]
) -> None:
    create(catalog, *home, "points", data=POINTS)

    database.rename_table("points", "dots", cur_namespace_path=home, new_namespace_path=home)

    assert tables(catalog, *home) == ["dots"]
    assert contents(catalog, place, *home, "dots") == POINTS


@on_disk
@with_manifest
def test_namespaces_of_lancedb_are_ours(catalog: Catalog, database: Database) -> None:
    database.create_namespace(["lake"])
    database.create_namespace(["lake", "deep"])
    assert (namespaces(catalog), namespaces(catalog, "lake")) == (["lake"], ["deep"])

    database.drop_namespace(["lake", "deep"])

    assert namespaces(catalog, "lake") == []
    assert list(database.list_namespaces([]).namespaces) == ["lake"]
