"""pylance's DirectoryNamespace and ours on one root, in the same mode: each uses the other's."""

from __future__ import annotations

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace import errors as lance_errors
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
    refused,
    tables,
)
from tests.behaviours.places import Place
from tiltyard import DirectoryNamespace

Catalog = api.LanceNamespace


def _append(client: Catalog, place: Place, *table: str) -> None:
    """As any program does that asks a namespace where a table lies."""
    lance.write_dataset(
        PEOPLE,
        namespace_client=client,
        table_id=list(table),
        mode="append",
        storage_options=place.storage_options or None,
    )


# -- what we make


def test_a_table_of_ours_is_listed_described_and_read_by_pylance(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(catalog, "people", data=PEOPLE)

    assert tables(pylance) == ["people"]
    assert exists(pylance, "people")
    assert describe(pylance, "people", load_detailed_metadata=True).version == 1
    assert contents(pylance, place, "people") == PEOPLE


def test_a_live_pylance_client_sees_each_table_as_we_make_it(
    catalog: Catalog, pylance: Catalog
) -> None:
    for number in range(5):
        declare(catalog, f"t{number}")
        assert tables(pylance) == [f"t{each}" for each in range(number + 1)]


def test_rows_that_pylance_appends_to_our_table_are_there(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(catalog, "people", data=PEOPLE)

    _append(pylance, place, "people")

    assert contents(catalog, place, "people") == pa.concat_tables([PEOPLE, PEOPLE])


def test_a_table_that_we_declared_is_only_declared_for_pylance_which_can_create_it(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    declare(catalog, "people")
    assert describe(pylance, "people", check_declared=True).is_only_declared

    create(pylance, "people", data=PEOPLE)

    assert contents(catalog, place, "people") == PEOPLE
    assert not describe(catalog, "people", check_declared=True).is_only_declared


def test_a_name_of_ours_is_taken_for_pylance(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(catalog, "people", data=PEOPLE)

    with pytest.raises(lance_errors.TableAlreadyExistsError):
        create(pylance, "people", data=PLANTS)

    assert contents(catalog, place, "people") == PEOPLE


def test_a_table_of_ours_that_pylance_drops_is_gone_and_its_name_is_free(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(catalog, "people", data=PEOPLE)
    location = place.key(describe(catalog, "people").location or "")

    drop(pylance, "people")

    assert not exists(catalog, "people")
    assert not any(key.startswith(f"{location}/data/") for key in place.files())
    create(catalog, "people", data=PLANTS)
    assert contents(pylance, place, "people") == PLANTS


# -- what they make


def test_a_table_of_pylance_is_listed_described_and_read_by_us(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    assert tables(catalog) == ["people"]
    assert describe(catalog, "people", load_detailed_metadata=True).version == 1
    assert contents(catalog, place, "people") == PEOPLE


def test_rows_appended_through_us_to_a_table_of_pylance_are_there(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    _append(catalog, place, "people")

    assert contents(pylance, place, "people") == pa.concat_tables([PEOPLE, PEOPLE])


def test_a_table_that_pylance_declared_is_ours_to_create(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    declare(pylance, "people")
    assert describe(catalog, "people", check_declared=True).is_only_declared

    create(catalog, "people", data=PEOPLE)

    assert contents(pylance, place, "people") == PEOPLE


def test_a_name_of_pylance_is_taken_for_us(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        create(catalog, "people", data=PLANTS)

    assert contents(pylance, place, "people") == PEOPLE


def test_a_table_of_pylance_that_we_drop_is_gone_for_both_until_we_bring_it_back(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    create(pylance, "people", data=PEOPLE)

    drop(catalog, "people")

    assert tables(pylance) == tables(catalog) == []
    assert isinstance(catalog, DirectoryNamespace)
    catalog.undrop_table(["people"])
    assert tables(pylance) == tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PEOPLE
