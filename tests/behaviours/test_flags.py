"""A dropped table that is held can't be purged; a table that is protected can't be dropped."""

from __future__ import annotations

from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    declare,
    drop,
    make_namespace,
    refused,
    rename,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_manifest
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk, trash
from tiltyard import DirectoryNamespace

# -- hold


def test_a_held_table_is_not_purged_until_it_is_released(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people", ttl=0)

    assert catalog.hold_table(["people"]).held is True
    assert [dropped.held for dropped in catalog.list_trash()] == [True]
    assert catalog.list_purgable_tables() == []
    assert catalog.purge_tables() == []
    with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
        catalog.purge_table(["people"])
    assert "release" in (caught.value.hint or "")
    (receipt,) = catalog.purge_tables([["people"]])
    assert (receipt.outcome.value, receipt.error) == ("skipped", "it is held")

    assert catalog.release_table(["people"]).held is False
    assert [dropped.id for dropped in catalog.list_purgable_tables()] == [("people",)]
    catalog.purge_tables()
    assert trash(catalog) == []


@on_disk
def test_a_held_table_can_be_brought_back_and_is_not_held_when_dropped_again(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.hold_table(["people"])
    catalog.hold_table(["people"])

    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PEOPLE
    drop(catalog, "people")

    assert [dropped.held for dropped in catalog.list_trash()] == [False]


@on_disk
def test_only_a_dropped_table_can_be_held(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")

    for name in ("people", "missing"):
        with refused(ErrorCode.TABLE_NOT_FOUND):
            catalog.hold_table([name])
        with refused(ErrorCode.TABLE_NOT_FOUND):
            catalog.release_table([name])
    drop(catalog, "people")
    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.hold_table(["people"], generation="0" * 16)


# -- protect


def test_a_protected_table_is_not_dropped_until_it_is_unprotected(
    catalog: DirectoryNamespace, reopen: Reopen
) -> None:
    create(catalog, "people")

    catalog.protect_table(["people"])
    catalog.protect_table(["people"])

    for client in (catalog, reopen()):
        with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
            drop(client, "people")
        assert "unprotect" in (caught.value.hint or "")
        assert tables(client) == ["people"]
    catalog.unprotect_table(["people"])
    drop(catalog, "people")
    assert trash(catalog) == [("people",)]


@on_disk
def test_a_protected_table_stays_protected_when_it_is_written(
    catalog: DirectoryNamespace, place: Place
) -> None:
    declare(catalog, "people")
    catalog.protect_table(["people"])

    create(catalog, "people")
    create(catalog, "people", data=PLANTS, mode="overwrite")

    with refused(ErrorCode.INVALID_TABLE_STATE):
        drop(catalog, "people")
    assert contents(catalog, place, "people") == PLANTS


@on_disk
def test_only_a_table_that_is_there_can_be_protected(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    for name in ("people", "missing"):
        for call in (catalog.protect_table, catalog.unprotect_table):
            with refused(ErrorCode.TABLE_NOT_FOUND):
                call([name])


@on_disk
def test_the_next_table_of_a_name_is_not_protected(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    catalog.protect_table(["people"])
    catalog.unprotect_table(["people"])
    drop(catalog, "people")
    create(catalog, "people")

    drop(catalog, "people")

    assert tables(catalog) == []


@with_manifest
def test_a_protected_table_stays_protected_under_another_name(catalog: DirectoryNamespace) -> None:
    make_namespace(catalog, "prod")
    create(catalog, "people")
    catalog.protect_table(["people"])

    rename(catalog, "people", to="staff", into=["prod"])

    with refused(ErrorCode.INVALID_TABLE_STATE):
        drop(catalog, "prod", "staff")
    catalog.unprotect_table(["prod", "staff"])
    rename(catalog, "prod", "staff", to="people", into=[])
    drop(catalog, "people")
    assert trash(catalog) == [("people",)]
