"""Describing a table: where it lies, and on request what it holds, at any version."""

from __future__ import annotations

import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    create,
    dataset,
    declare,
    describe,
    exists,
    make_namespace,
    refused,
)
from tests.behaviours.modes import in_directory_mode, with_directory_listing, with_manifest
from tests.behaviours.places import Disk, Place


def _columns(described: api.DescribeTableResponse) -> list[tuple[str, str]]:
    assert described.var_schema is not None
    return [(field.name, field.type.type) for field in described.var_schema.fields]


def test_a_plain_description_tells_where_the_table_is(catalog: api.LanceNamespace) -> None:
    location = create(catalog, "people").location

    described = describe(catalog, "people")

    assert (described.namespace, described.table) == ([], "people")
    assert described.location == location
    assert (described.version, described.var_schema, described.stats) == (None, None, None)
    assert (described.table_uri, described.is_only_declared) == (None, None)


def test_a_detailed_description_has_version_schema_and_counts(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    dataset(catalog, place, "people").delete("id = 2")

    described = describe(catalog, "people", load_detailed_metadata=True)

    assert described.version == 2
    assert _columns(described) == [("id", "int64"), ("name", "utf8")]
    assert described.stats is not None
    assert (described.stats.num_deleted_rows, described.stats.num_fragments) == (1, 1)
    assert described.metadata == {"total_rows": "2"}


def test_an_old_version_is_described_as_it_was(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")
    create(catalog, "people", data=PLANTS, mode="overwrite")

    old = describe(catalog, "people", version=1)

    assert (old.version, _columns(old)[0]) == (1, ("id", "int64"))
    assert _columns(describe(catalog, "people", version=2)) == [("plant", "utf8")]


def test_a_tag_names_a_version(catalog: api.LanceNamespace, place: Place) -> None:
    create(catalog, "people")
    create(catalog, "people", data=PLANTS, mode="overwrite")
    dataset(catalog, place, "people").tags.create("before", 1)

    assert describe(catalog, "people", tag="before").version == 1


def test_a_branch_is_described_by_its_latest_version(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    dataset(catalog, place, "people").create_branch("trial")
    create(catalog, "people", data=PLANTS, mode="overwrite")

    described = describe(catalog, "people", branch="trial")

    assert _columns(described)[0] == ("id", "int64")


def test_field_metadata_and_nullability_are_described(catalog: api.LanceNamespace) -> None:
    field = pa.field("id", pa.int64(), nullable=False, metadata={"unit": "pieces"})
    create(catalog, "people", data=pa.table([[1]], schema=pa.schema([field])))

    described = describe(catalog, "people", load_detailed_metadata=True)

    assert described.var_schema is not None
    (shown,) = described.var_schema.fields
    assert (shown.nullable, shown.metadata) == (False, {"unit": "pieces"})


def test_a_table_uri_has_a_scheme(catalog: api.LanceNamespace, place: Place) -> None:
    location = create(catalog, "people").location

    uri = describe(catalog, "people", with_table_uri=True).table_uri

    assert uri == (f"file://{location}" if isinstance(place, Disk) else location)


def test_a_table_that_holds_data_is_not_only_declared(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")

    assert describe(catalog, "people", check_declared=True).is_only_declared is False


@pytest.mark.parametrize(
    ("at", "code"),
    [
        ({"version": 2}, ErrorCode.TABLE_VERSION_NOT_FOUND),
        ({"version": 0}, ErrorCode.TABLE_VERSION_NOT_FOUND),
        ({"tag": "gone"}, ErrorCode.TABLE_TAG_NOT_FOUND),
        ({"branch": "gone"}, ErrorCode.TABLE_BRANCH_NOT_FOUND),
        ({"tag": "gone", "version": 1}, ErrorCode.INVALID_INPUT),
    ],
    ids=["version", "version zero", "tag", "branch", "tag and version"],
)
def test_what_a_table_does_not_have_is_told_by_its_kind(
    catalog: api.LanceNamespace, at: dict[str, object], code: ErrorCode
) -> None:
    create(catalog, "people")

    with refused(code):
        describe(catalog, "people", **at)


def test_a_missing_table_is_told_as_such(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")

    assert not exists(catalog, "plants")
    for detail in ({}, {"load_detailed_metadata": True}, {"version": 1}, {"tag": "x"}):
        with refused(ErrorCode.TABLE_NOT_FOUND):
            describe(catalog, "plants", **detail)


def test_existence_may_be_asked_of_a_version(catalog: api.LanceNamespace) -> None:
    create(catalog, "people")
    declare(catalog, "plants")

    assert exists(catalog, "people", version=1)
    for table in ("people", "plants"):
        with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
            exists(catalog, table, version=2)


@with_manifest
def test_a_table_of_a_missing_namespace_is_told_by_the_namespace(
    catalog: api.LanceNamespace,
) -> None:
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        describe(catalog, "prod", "people")
    with refused(ErrorCode.NAMESPACE_NOT_FOUND):
        exists(catalog, "prod", "people")


@with_manifest
def test_a_namespace_is_no_table(catalog: api.LanceNamespace) -> None:
    make_namespace(catalog, "prod")

    assert not exists(catalog, "prod")


@in_directory_mode
def test_directory_mode_knows_no_longer_ids(catalog: api.LanceNamespace) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        describe(catalog, "prod", "people")


@with_directory_listing
def test_a_directory_without_a_version_that_lance_can_open_is_no_table(
    catalog: api.LanceNamespace, place: Place
) -> None:
    place.write("people.lance/_versions/readme", b"this is no manifest")

    with refused(ErrorCode.TABLE_NOT_FOUND):
        describe(catalog, "people", load_detailed_metadata=True)


def test_data_read_through_the_location_is_the_data_written(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")

    assert dataset(catalog, place, "people").to_table() == PEOPLE
