"""Lance itself with our namespace: it asks where a table lies and declares what it writes first."""

from __future__ import annotations

from typing import Any

import lance
import lance_namespace as api
import pyarrow as pa
import pytest

from tests.behaviours.calls import PEOPLE, PLANTS, contents, create, declare, exists, make_namespace
from tests.behaviours.modes import Mode
from tests.behaviours.places import Place

Catalog = api.LanceNamespace


@pytest.fixture
def table(catalog: Catalog, mode: Mode) -> list[str]:
    """Where the mode has namespaces, a table in one of them."""
    if not mode.has_manifest:
        return ["people"]
    make_namespace(catalog, "lake")
    return ["lake", "people"]


def _write(
    catalog: Catalog, place: Place, table: list[str], data: pa.Table, **rest: Any
) -> lance.LanceDataset:
    return lance.write_dataset(
        data,
        namespace_client=catalog,
        table_id=table,
        storage_options=place.storage_options or None,
        **rest,
    )


def _open(catalog: Catalog, place: Place, table: list[str], **rest: Any) -> lance.LanceDataset:
    return lance.dataset(
        namespace_client=catalog,
        table_id=table,
        storage_options=place.storage_options or None,
        **rest,
    )


def test_lance_opens_a_table_by_its_id(catalog: Catalog, place: Place, table: list[str]) -> None:
    create(catalog, *table, data=PEOPLE)

    assert _open(catalog, place, table).to_table() == PEOPLE


def test_lance_creates_a_table_by_its_id(catalog: Catalog, place: Place, table: list[str]) -> None:
    _write(catalog, place, table, PEOPLE, mode="create")

    assert contents(catalog, place, *table) == PEOPLE


def test_lance_writes_the_first_rows_of_a_declared_table(
    catalog: Catalog, place: Place, table: list[str]
) -> None:
    declare(catalog, *table)

    _write(catalog, place, table, PEOPLE, mode="append")

    assert contents(catalog, place, *table) == PEOPLE


def test_lance_does_not_create_a_table_twice(
    catalog: Catalog, place: Place, table: list[str]
) -> None:
    create(catalog, *table, data=PEOPLE)

    with pytest.raises(api.TableAlreadyExistsError):
        _write(catalog, place, table, PLANTS, mode="create")

    assert contents(catalog, place, *table) == PEOPLE


def test_lance_appends_by_id(catalog: Catalog, place: Place, table: list[str]) -> None:
    create(catalog, *table, data=PEOPLE)

    _write(catalog, place, table, PEOPLE, mode="append")

    assert contents(catalog, place, *table) == pa.concat_tables([PEOPLE, PEOPLE])


def test_lance_overwrites_by_id_and_keeps_the_old_version(
    catalog: Catalog, place: Place, table: list[str]
) -> None:
    create(catalog, *table, data=PEOPLE)

    _write(catalog, place, table, PLANTS, mode="overwrite")

    assert contents(catalog, place, *table) == PLANTS
    assert _open(catalog, place, table, version=1).to_table() == PEOPLE


def test_lance_does_not_open_what_does_not_exist(
    catalog: Catalog, place: Place, table: list[str]
) -> None:
    with pytest.raises(api.TableNotFoundError):
        _open(catalog, place, table)

    assert not exists(catalog, *table)


def test_a_dataset_that_is_open_can_be_changed_in_every_way(
    catalog: Catalog, place: Place, table: list[str]
) -> None:
    create(catalog, *table, data=PEOPLE)
    opened = _open(catalog, place, table)

    opened.delete("id = 1")
    opened.update({"name": "'dee'"}, where="id = 2")
    opened.add_columns({"twice": "id * 2"})
    opened.create_scalar_index("id", "BTREE")
    opened.optimize.compact_files()

    found = contents(catalog, place, *table).sort_by("id").to_pydict()
    assert found == {"id": [2, 3], "name": ["dee", "cy"], "twice": [4, 6]}
