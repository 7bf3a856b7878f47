"""pylance's own client beside our trash: it sees what we see, and keeps what it does not know."""

from __future__ import annotations

import lance_namespace as api
import pytest
from lance_namespace import errors as lance_errors
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    all_tables,
    contents,
    create,
    declare,
    describe,
    drop,
    drop_namespace,
    exists,
    make_namespace,
    namespaces,
    refused,
    tables,
)
from tests.behaviours.modes import (
    COMPATIBILITY,
    V1,
    Mode,
    with_directory_listing,
    with_manifest,
    with_manifest_only,
)
from tests.behaviours.places import Place
from tests.behaviours.trash import bytes_below, status, trash
from tests.peers.clients import open_pylance, properties
from tests.peers.manifest import open_manifest
from tiltyard import DirectoryNamespace

Peer = api.LanceNamespace

in_compatibility_mode = pytest.mark.parametrize("mode", [COMPATIBILITY], indirect=True, ids=str)


@pytest.fixture
def in_directory_mode(place: Place) -> Peer:
    """pylance's client that knows no manifest."""
    return open_pylance(properties(V1, place))


# -- it sees what we see


def test_a_table_that_we_drop_is_gone_for_pylance_until_we_bring_it_back(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    create(catalog, "people")
    create(catalog, "plants", data=PLANTS)
    assert sorted(tables(pylance)) == ["people", "plants"]

    drop(catalog, "people")
    assert tables(pylance) == ["plants"]
    assert not exists(pylance, "people")
    with pytest.raises(lance_errors.TableNotFoundError):
        describe(pylance, "people")

    catalog.undrop_table(["people"])
    assert sorted(tables(pylance)) == ["people", "plants"]
    assert contents(pylance, place, "people") == PEOPLE


@with_directory_listing
def test_a_client_that_knows_no_manifest_sees_it_too(
    catalog: DirectoryNamespace, in_directory_mode: Peer, place: Place
) -> None:
    create(catalog, "people")

    drop(catalog, "people")
    assert tables(in_directory_mode) == []
    assert not exists(in_directory_mode, "people")
    create(catalog, "people", data=PLANTS)

    assert tables(in_directory_mode) == ["people"]
    assert contents(in_directory_mode, place, "people") == PLANTS


def test_a_table_that_we_purge_and_create_again_is_whole_for_pylance(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.purge_table(["people"])
    assert tables(pylance) == []

    create(catalog, "people", data=PLANTS)

    assert tables(pylance) == ["people"]
    assert contents(pylance, place, "people") == PLANTS


@with_manifest_only
def test_a_table_under_another_name_is_there_for_pylance(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    catalog.undrop_table(["people"], as_id=["staff"])

    assert tables(pylance) == ["staff"]
    assert contents(pylance, place, "staff") == PEOPLE


# -- it keeps what it does not know


@with_manifest
def test_pylance_shows_our_trash_nowhere_and_keeps_it_through_its_own_changes(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "prod", "people", properties={"owner": "ada"})
    drop(catalog, "prod", "people", ttl="3d", reason="why not")
    catalog.hold_table(["prod", "people"])
    before = catalog.list_trash()

    make_namespace(pylance, "dev")
    declare(pylance, "dev", "a")
    create(pylance, "prod", "b")
    drop(pylance, "dev", "a")
    drop_namespace(pylance, "dev")
    open_manifest(place).optimize.compact_files()

    assert catalog.list_trash() == before
    assert namespaces(pylance) == ["prod"]
    assert namespaces(pylance, "prod") == []
    assert tables(pylance) == []
    assert tables(pylance, "prod") == ["b"]
    catalog.undrop_table(["prod", "people"])
    assert sorted(tables(pylance, "prod")) == ["b", "people"]
    assert describe(catalog, "prod", "people").properties == {"owner": "ada"}


@with_manifest_only
def test_a_name_that_pylance_took_meanwhile_is_taken_and_the_old_table_comes_back_beside_it(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    create(pylance, "people", data=PLANTS)

    assert contents(catalog, place, "people") == PLANTS
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        catalog.undrop_table(["people"])
    catalog.undrop_table(["people"], as_id=["older"])
    assert contents(pylance, place, "older") == PEOPLE


# -- it does what it likes


@with_directory_listing
def test_a_client_that_knows_no_manifest_can_not_have_the_name_of_a_dropped_table(
    catalog: DirectoryNamespace, in_directory_mode: Peer, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    for mode in ("Create", "Overwrite"):
        with pytest.raises(lance_errors.TableAlreadyExistsError):
            create(in_directory_mode, "people", data=PLANTS, mode=mode)

    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PEOPLE


@with_directory_listing
def test_a_dropped_table_that_pylance_deletes_for_good_can_not_be_brought_back(
    catalog: DirectoryNamespace, in_directory_mode: Peer, mode: Mode, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    drop(in_directory_mode, "people")

    assert bytes_below(place, "people.lance") == {}
    with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
        catalog.undrop_table(["people"])
    assert "deleted its files" in str(caught.value)
    if mode.has_manifest:
        create(catalog, "people", data=PLANTS)
        assert contents(catalog, place, "people") == PLANTS
    catalog.purge_tables([["people"]])
    assert trash(catalog) == []
    assert exists(catalog, "people") == mode.has_manifest


@in_compatibility_mode
def test_what_pylance_writes_into_a_dropped_tables_directory_is_told(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    create(pylance, "people", data=PLANTS, mode="Overwrite")

    assert status(catalog, "people") == "soft_deleted"
    with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
        catalog.undrop_table(["people"])
    assert "keep_newer" in (caught.value.hint or "")
    catalog.undrop_table(["people"], keep_newer=True)
    assert contents(catalog, place, "people") == PLANTS


def test_a_live_table_that_pylance_deletes_for_good_is_gone_and_not_in_the_trash(
    catalog: DirectoryNamespace, pylance: Peer, place: Place
) -> None:
    location = place.key(create(catalog, "people").location or "")

    drop(pylance, "people")

    assert bytes_below(place, location) == {}
    assert status(catalog, "people") == "not_found"
    assert trash(catalog) == all_tables(catalog) == []
    create(catalog, "people", data=PLANTS)
    assert contents(pylance, place, "people") == PLANTS


def test_a_table_that_was_dropped_once_and_is_deleted_by_pylance_is_gone(
    catalog: DirectoryNamespace, pylance: Peer, mode: Mode, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.undrop_table(["people"])

    drop(pylance, "people")

    assert status(catalog, "people") == "not_found"
    assert tables(catalog) == trash(catalog) == []
    created = create(catalog, "people", data=PLANTS)
    assert created.version == 1
    assert contents(catalog, place, "people") == PLANTS
    assert tables(pylance) == ["people"]
