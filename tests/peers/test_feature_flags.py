"""A catalog that says what a client must know to use it: what we do not know we leave alone, and
what we write we stamp."""

from __future__ import annotations

from collections.abc import Callable

import lance
import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    all_tables,
    create,
    declare,
    describe,
    drop,
    exists,
    make_namespace,
    namespace_exists,
    namespaces,
    properties_of,
    refused,
    rename,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_manifest
from tests.behaviours.places import Place

Catalog = api.LanceNamespace

READER_FLAGS = "lance.namespace.manifest.reader_feature_flags"
WRITER_FLAGS = "lance.namespace.manifest.writer_feature_flags"
STAMP = "tiltyard.format"

pytestmark = with_manifest


def _manifest(place: Place) -> lance.LanceDataset:
    return lance.dataset(place.uri("__manifest"), storage_options=place.storage_options or None)


@pytest.fixture
def lake(catalog: Catalog, reopen: Reopen) -> Catalog:
    """A client that has written to the catalog, so that everything it caches is warm."""
    make_namespace(catalog, "lake", properties={"owner": "ada"})
    create(catalog, "lake", "people")
    return catalog


WRITES: dict[str, Callable[[Catalog], object]] = {
    "declare": lambda c: declare(c, "lake", "other"),
    "create": lambda c: create(c, "lake", "other"),
    "drop": lambda c: drop(c, "lake", "people"),
    "rename": lambda c: rename(c, "lake", "people", to="other"),
    "namespace": lambda c: make_namespace(c, "other"),
    "root properties": lambda c: c.create_namespace(
        api.CreateNamespaceRequest(id=[], mode="Overwrite", properties={"a": "b"})
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_catalog_with_unknown_writer_features_is_not_written_to(
    lake: Catalog, place: Place, write: str
) -> None:
    _manifest(place).update_metadata({WRITER_FLAGS: str(1 << 40)})
    before = _manifest(place).version

    with refused(ErrorCode.UNSUPPORTED) as caught:
        WRITES[write](lake)

    assert "upgrade tiltyard" in str(caught.value)
    assert _manifest(place).version == before
    assert all_tables(lake) == ["lake$people"]


def test_a_catalog_with_unknown_writer_features_is_still_read(
    lake: Catalog, place: Place, reopen: Reopen
) -> None:
    _manifest(place).update_metadata({WRITER_FLAGS: str(1 << 40)})

    for client in (lake, reopen()):
        assert namespaces(client) == ["lake"]
        assert properties_of(client, "lake") == {"owner": "ada"}
        assert tables(client, "lake") == ["people"]
        assert exists(client, "lake", "people")


@pytest.mark.parametrize(
    "read",
    [
        lambda c: namespaces(c),
        lambda c: properties_of(c, "lake"),
        lambda c: namespace_exists(c, "lake"),
        lambda c: tables(c, "lake"),
        lambda c: describe(c, "lake", "people"),
        lambda c: exists(c, "lake", "people"),
    ],
    ids=["namespaces", "properties", "namespace_exists", "tables", "describe", "exists"],
)
def test_a_catalog_with_unknown_reader_features_is_not_read(
    lake: Catalog, place: Place, reopen: Reopen, read: object
) -> None:
    assert callable(read)
    _manifest(place).update_metadata({READER_FLAGS: "2"})

    for client in (lake, reopen()):
        with refused(ErrorCode.UNSUPPORTED):
            read(client)


def test_a_catalog_with_unknown_reader_features_is_not_written_to(
    lake: Catalog, place: Place
) -> None:
    _manifest(place).update_metadata({READER_FLAGS: "2"})
    before = _manifest(place).version

    with refused(ErrorCode.UNSUPPORTED):
        declare(lake, "lake", "other")

    assert _manifest(place).version == before


def test_features_that_are_named_and_switched_off_do_no_harm(lake: Catalog, place: Place) -> None:
    _manifest(place).update_metadata({READER_FLAGS: "0", WRITER_FLAGS: "0"})

    declare(lake, "lake", "other")

    assert tables(lake, "lake") == ["other", "people"]
    assert _manifest(place).metadata[WRITER_FLAGS] == "0"


def test_a_catalog_of_a_newer_format_is_read_and_not_written_to(
    lake: Catalog, place: Place, reopen: Reopen
) -> None:
    _manifest(place).update_metadata({STAMP: "2"})

    for client in (lake, reopen()):
        with refused(ErrorCode.UNSUPPORTED) as caught:
            declare(client, "lake", "other")
        assert "upgrade tiltyard first" in str(caught.value)
        assert tables(client, "lake") == ["people"]
    assert _manifest(place).metadata[STAMP] == "2"


def test_a_catalog_that_we_make_is_stamped(catalog: Catalog, place: Place) -> None:
    make_namespace(catalog, "lake")
    declare(catalog, "lake", "people")

    stamped = _manifest(place).schema.metadata or {}
    assert stamped[STAMP.encode()] == b"1", "inside the commit that made it"


def test_a_stamp_that_pylance_forgot_comes_back_with_our_next_write(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    make_namespace(catalog, "lake")
    declare(pylance, "lake", "people")

    declare(catalog, "lake", "plants")

    assert _manifest(place).metadata[STAMP] == "1"


def test_reading_a_catalog_of_pylance_leaves_it_without_a_stamp(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    make_namespace(pylance, "lake")
    create(pylance, "lake", "people")
    before = place.files()

    assert tables(catalog, "lake") == ["people"]
    assert describe(catalog, "lake", "people", load_detailed_metadata=True).version == 1
    assert namespaces(catalog) == ["lake"]
    assert properties_of(catalog) == {}

    assert place.files() == before
    assert STAMP not in _manifest(place).metadata


def test_our_first_write_stamps_a_catalog_of_pylance_which_goes_on_using_it(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    make_namespace(pylance, "lake")

    declare(catalog, "lake", "ours")
    declare(pylance, "lake", "theirs")

    assert _manifest(place).metadata[STAMP] == "1"
    assert sorted(tables(pylance, "lake")) == ["ours", "theirs"]
    assert properties_of(catalog) == {}, "the stamp is not a property of the root"


def test_a_write_that_is_refused_does_not_stamp_a_catalog_of_pylance_twice(
    catalog: Catalog, pylance: Catalog, place: Place
) -> None:
    make_namespace(pylance, "lake")
    declare(catalog, "lake", "ours")
    before = _manifest(place).version

    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        declare(catalog, "lake", "ours")

    assert _manifest(place).version == before
