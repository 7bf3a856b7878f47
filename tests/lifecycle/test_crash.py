"""What a client finds that another left half done when it crashed: nothing is out of reach."""

from __future__ import annotations

from datetime import timedelta

import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import PEOPLE, PLANTS, contents, create, drop, refused, tables
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import with_directory_listing
from tests.behaviours.places import Place
from tests.behaviours.trash import bytes_below, clocks_ahead, on_disk, status, trash
from tests.kit.stores import Crash, Fault, FaultyStore
from tiltyard import DirectoryNamespace

LATER = timedelta(minutes=10)

pytestmark = on_disk


@pytest.fixture
def later(catalog: DirectoryNamespace, reopen: Reopen) -> DirectoryNamespace:
    """Comes when whoever crashed has been given up."""
    with clocks_ahead(LATER):
        opened = reopen()
    assert isinstance(opened, DirectoryNamespace)
    return opened


@pytest.fixture
def cut_off(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore]
) -> DirectoryNamespace:
    """A catalog with a dropped table, whose next create died as soon as it had announced itself."""
    create(catalog, "people")
    drop(catalog, "people", ttl=0)
    client, store = faulty
    store.plan(Fault.CRASH_AFTER, verb="replace", key="people.deleted")
    with pytest.raises(Crash):
        create(client, "people", data=PLANTS)
    return catalog


@with_directory_listing
def test_a_table_is_in_the_trash_until_the_create_over_it_is_done(
    cut_off: DirectoryNamespace,
) -> None:
    assert tables(cut_off) == []
    assert status(cut_off, "people") == "soft_deleted"
    assert trash(cut_off) == [("people",)]
    with refused(ErrorCode.CONCURRENT_MODIFICATION) as caught:
        cut_off.undrop_table(["people"])
    assert "try again" in (caught.value.hint or "")


@with_directory_listing
def test_a_table_is_brought_back_though_a_create_over_it_was_cut_off(
    cut_off: DirectoryNamespace, later: DirectoryNamespace, place: Place
) -> None:
    later.undrop_table(["people"])

    assert contents(cut_off, place, "people") == PEOPLE


@with_directory_listing
def test_a_table_is_purged_though_a_create_over_it_was_cut_off(
    cut_off: DirectoryNamespace, later: DirectoryNamespace, place: Place
) -> None:
    assert [receipt.outcome.value for receipt in cut_off.purge_tables()] == ["failed"], (
        "it may go on"
    )

    assert [receipt.outcome.value for receipt in later.purge_tables()] == ["purged"]

    assert bytes_below(place, "people.lance") == {}
    assert create(cut_off, "people", data=PLANTS).version == 3, "one number was a fence"


@with_directory_listing
def test_a_table_is_created_though_a_create_before_was_cut_off(
    cut_off: DirectoryNamespace, later: DirectoryNamespace, place: Place
) -> None:
    create(later, "people", data=PLANTS)

    assert contents(cut_off, place, "people") == PLANTS
    assert trash(cut_off) == []


@pytest.mark.parametrize("deleted", [0, 2])
def test_a_purge_that_was_cut_off_is_finished_by_the_next(
    catalog: DirectoryNamespace,
    faulty: tuple[DirectoryNamespace, FaultyStore],
    place: Place,
    deleted: int,
) -> None:
    location = place.key(create(catalog, "people").location or "")
    drop(catalog, "people", ttl="never")
    client, store = faulty
    store.plan(Fault.CRASH_BEFORE, verb="delete_many", after=deleted)
    with pytest.raises(Crash):
        client.purge_table(["people"])

    (left,) = catalog.list_trash()
    assert (left.state, left.restorable) == ("purging", False)
    with refused(ErrorCode.TABLE_NOT_FOUND):
        catalog.undrop_table(["people"])
    assert [dropped.id for dropped in catalog.list_purgable_tables()] == [("people",)]
    assert [receipt.outcome.value for receipt in catalog.purge_tables()] == ["purged"]

    assert bytes_below(place, location) == {}
    assert trash(catalog) == []
    create(catalog, "people", data=PLANTS)
    assert contents(catalog, place, "people") == PLANTS
