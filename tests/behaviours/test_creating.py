"""Creating a table from Arrow data, and again over one that exists."""

from __future__ import annotations

import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    dataset,
    deregister,
    describe,
    exists,
    ipc,
    ipc_file,
    make_namespace,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import in_directory_mode, with_directory_listing, with_manifest
from tests.behaviours.places import Place


def test_a_created_table_holds_the_data(
    catalog: api.LanceNamespace, reopen: Reopen, place: Place
) -> None:
    answer = create(catalog, "people")

    assert answer.version == 1
    assert tables(catalog) == ["people"]
    assert contents(reopen(), place, "people") == PEOPLE
    assert describe(catalog, "people").location == answer.location


@with_directory_listing
def test_a_root_table_lies_where_its_name_says(catalog: api.LanceNamespace, place: Place) -> None:
    assert create(catalog, "people").location == place.uri("people.lance")


def test_an_ipc_file_will_do_as_well_as_a_stream(catalog: api.LanceNamespace, place: Place) -> None:
    catalog.create_table(api.CreateTableRequest(id=["people"]), ipc_file(PEOPLE))

    assert contents(catalog, place, "people") == PEOPLE


def test_a_schema_without_rows_makes_an_empty_table(
    catalog: api.LanceNamespace, place: Place
) -> None:
    created = create(catalog, "people", data=PEOPLE.slice(0, 0))

    assert created.version == 1
    assert contents(catalog, place, "people") == PEOPLE.slice(0, 0)
    described = describe(catalog, "people", check_declared=True)
    assert described.is_only_declared is False


def test_data_in_many_batches_is_all_there(catalog: api.LanceNamespace, place: Place) -> None:
    batches = pa.Table.from_batches([batch for _ in range(50) for batch in PEOPLE.to_batches()])

    create(catalog, "people", data=batches)

    assert contents(catalog, place, "people") == batches.combine_chunks()


@pytest.mark.parametrize(
    "wrong",
    [b"", b"not arrow", b"ARROW1 but not a file", ipc(PEOPLE)[:-40], ipc(PEOPLE)[40:]],
    ids=["nothing", "text", "false magic", "no end", "no beginning"],
)
def test_bytes_that_are_not_arrow_are_refused(
    catalog: api.LanceNamespace, place: Place, wrong: bytes
) -> None:
    with refused(ErrorCode.INVALID_INPUT):
        catalog.create_table(api.CreateTableRequest(id=["people"]), wrong)

    assert place.files() == {}


@pytest.mark.parametrize(
    "schema",
    [pa.schema([]), pa.schema([("", pa.int64())]), pa.schema([("a", pa.int64())] * 2)],
    ids=["no column", "no name", "one name twice"],
)
def test_a_table_needs_columns_that_can_be_told_apart(
    catalog: api.LanceNamespace, place: Place, schema: pa.Schema
) -> None:
    with refused(ErrorCode.INVALID_INPUT):
        create(catalog, "people", data=schema.empty_table())

    assert place.files() == {}


def test_a_table_is_created_once(catalog: api.LanceNamespace, place: Place) -> None:
    create(catalog, "people")
    before = place.files()

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        create(catalog, "people", data=PLANTS)

    assert contents(catalog, place, "people") == PEOPLE
    assert place.files() == before


@pytest.mark.parametrize("spelling", ["exist_ok", "ExistOk", "existok"])
def test_exist_ok_keeps_the_data(catalog: api.LanceNamespace, place: Place, spelling: str) -> None:
    create(catalog, "people")
    before = place.files()

    answer = create(catalog, "people", data=PLANTS, mode=spelling)

    assert answer.version == 1
    assert contents(catalog, place, "people") == PEOPLE
    assert place.files() == before


def test_overwrite_replaces_data_and_schema_and_keeps_the_lineage(
    catalog: api.LanceNamespace, place: Place
) -> None:
    first = create(catalog, "people")

    second = create(catalog, "people", data=PLANTS, mode="overwrite")

    assert (second.location, second.version) == (first.location, 2)
    assert contents(catalog, place, "people") == PLANTS
    assert dataset(catalog, place, "people", version=1).to_table() == PEOPLE


@pytest.mark.parametrize("how", ["exist_ok", "overwrite"])
def test_any_mode_creates_a_table_that_is_missing(
    catalog: api.LanceNamespace, place: Place, how: str
) -> None:
    assert create(catalog, "people", mode=how).version == 1
    assert contents(catalog, place, "people") == PEOPLE


def test_an_unknown_mode_is_refused(catalog: api.LanceNamespace, place: Place) -> None:
    with refused(ErrorCode.INVALID_INPUT) as caught:
        create(catalog, "people", mode="perhaps")

    assert "overwrite" in str(caught.value), "the hint names the modes there are"
    assert place.files() == {}


@in_directory_mode
@pytest.mark.parametrize("how", ["create", "exist_ok", "overwrite"])
def test_a_hidden_table_is_not_written_over(
    catalog: api.LanceNamespace, place: Place, how: str
) -> None:
    create(catalog, "people")
    deregister(catalog, "people")
    before = place.files()

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        create(catalog, "people", data=PLANTS, mode=how)

    assert place.files() == before


@in_directory_mode
def test_directory_mode_has_no_place_for_properties(
    catalog: api.LanceNamespace, place: Place
) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        create(catalog, "people", properties={"owner": "ada"})

    assert place.files() == {}


@with_manifest
def test_a_created_table_keeps_its_properties(catalog: api.LanceNamespace, reopen: Reopen) -> None:
    created = create(catalog, "people", properties={"owner": "ada"})

    assert created.properties == {"owner": "ada"}
    assert describe(reopen(), "people").properties == {"owner": "ada"}


@with_manifest
def test_a_table_is_created_in_a_namespace(catalog: api.LanceNamespace, place: Place) -> None:
    make_namespace(catalog, "prod")

    create(catalog, "prod", "people")

    assert tables(catalog, "prod") == ["people"]
    assert not exists(catalog, "people")
    assert contents(catalog, place, "prod", "people") == PEOPLE


@with_manifest
def test_tables_of_one_name_in_two_namespaces_are_two_tables(
    catalog: api.LanceNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")

    create(catalog, "people")
    create(catalog, "prod", "people", data=PLANTS)

    assert contents(catalog, place, "people") == PEOPLE
    assert contents(catalog, place, "prod", "people") == PLANTS


@with_manifest
def test_a_table_is_not_created_in_a_namespace_that_is_missing(
    catalog: api.LanceNamespace, place: Place
) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        create(catalog, "prod", "people")

    assert not any("people" in key for key in place.files())
