"""Purging: dropped tables are deleted for good, live ones never are, and receipts tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
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
    make_namespace,
    refused,
    tables,
)
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import in_directory_mode, with_manifest
from tests.behaviours.places import Place
from tests.behaviours.trash import DAY, bytes_below, clocks_ahead, on_disk, status, trash
from tiltyard import DirectoryNamespace
from tiltyard.lifecycle.purge import Receipt


@pytest.fixture
def later(catalog: DirectoryNamespace, reopen: Reopen) -> DirectoryNamespace:
    """The same catalog, eight days on: what was dropped now has run out there."""
    with clocks_ahead(8 * DAY):
        return reopen()


def _ids(tables: list[Receipt]) -> dict[tuple[str, ...], str]:
    return {receipt.id: receipt.outcome.value for receipt in tables}


# -- what may be purged


def test_what_has_run_out_and_is_not_held_can_be_purged(
    catalog: DirectoryNamespace, later: DirectoryNamespace
) -> None:
    for name, ttl in {"gone": "7d", "stays": "9d", "forever": "never", "held": "7d"}.items():
        create(catalog, name)
        drop(catalog, name, ttl=ttl)
    create(catalog, "live")
    catalog.hold_table(["held"])

    assert catalog.list_purgable_tables() == []
    assert [dropped.id for dropped in later.list_purgable_tables()] == [("gone",)]


@on_disk
def test_a_cutoff_counts_instead_of_the_time_of_a_table(
    catalog: DirectoryNamespace, later: DirectoryNamespace
) -> None:
    for name, ttl in {"early": "never", "held": "0"}.items():
        create(catalog, name)
        drop(catalog, name, ttl=ttl)
    catalog.hold_table(["held"])
    create(catalog, "late")
    drop(later, "late", ttl=0)
    cutoff = datetime.now(UTC) + DAY

    assert [dropped.id for dropped in catalog.list_purgable_tables(cutoff)] == [("early",)]
    assert catalog.list_purgable_tables(datetime.now(UTC) - DAY) == []
    naive = cutoff.astimezone().replace(tzinfo=None)
    assert catalog.list_purgable_tables(naive) == catalog.list_purgable_tables(cutoff)
    plan = catalog.plan_purge(deleted_before=cutoff)
    assert [dropped.id for dropped in plan.tables] == [("early",)]


# -- purging


def test_a_purge_deletes_what_has_run_out_and_nothing_else(
    catalog: DirectoryNamespace, later: DirectoryNamespace, place: Place
) -> None:
    locations = {name: place.key(create(catalog, name).location or "") for name in "abcd"}
    for name, ttl in {"a": "1d", "b": "2d", "c": "never"}.items():
        drop(catalog, name, ttl=ttl)
    kept = {name: bytes_below(place, locations[name]) for name in "cd"}

    receipts = later.purge_tables()

    assert _ids(receipts) == {("a",): "purged", ("b",): "purged"}
    assert bytes_below(place, locations["a"]) == bytes_below(place, locations["b"]) == {}
    assert {name: bytes_below(place, locations[name]) for name in "cd"} == kept
    assert tables(catalog) == ["d"]
    assert trash(catalog) == [("c",)]
    assert later.purge_tables() == []


@on_disk
def test_given_tables_are_purged_whether_or_not_their_time_has_come(
    catalog: DirectoryNamespace,
) -> None:
    for name in ("a", "b", "c"):
        create(catalog, name)
        drop(catalog, name)
    told: list[tuple[str, int, int]] = []

    receipts = catalog.purge_tables(
        [["a"], ["c"]], progress=lambda receipt, done, all_: told.append((*receipt.id, done, all_))
    )

    assert _ids(receipts) == {("a",): "purged", ("c",): "purged"}
    assert sorted(told) == [("a", 1, 2), ("c", 2, 2)]
    assert trash(catalog) == [("b",)]


def test_a_receipt_tells_what_was_deleted(catalog: DirectoryNamespace, place: Place) -> None:
    location = place.key(create(catalog, "people").location or "")
    files = bytes_below(place, location)
    drop(catalog, "people")
    (dropped,) = catalog.list_trash(with_bytes=True)
    before = datetime.now(UTC) - timedelta(milliseconds=1)

    receipt = catalog.purge_table(["people"])

    assert (receipt.id, receipt.generation) == (("people",), dropped.generation)
    assert (receipt.location, receipt.bytes) == (location, dropped.bytes)
    assert len(files) <= receipt.objects <= len(files) + 1
    assert before <= receipt.at <= datetime.now(UTC)
    assert receipt.by
    assert receipt.error is None


@on_disk
def test_a_live_table_is_never_purged(catalog: DirectoryNamespace, place: Place) -> None:
    create(catalog, "people")
    create(catalog, "plants")
    drop(catalog, "plants")
    before = place.files()

    for name in ("people", "missing"):
        with refused(ErrorCode.TABLE_NOT_FOUND):
            catalog.purge_table([name])
        with refused(ErrorCode.TABLE_NOT_FOUND):
            catalog.purge_tables([["plants"], [name]])

    assert place.files() == before, "nor is any of the others, if one can't be"


def test_a_dry_run_tells_what_would_go_and_deletes_nothing(
    catalog: DirectoryNamespace, later: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    size = catalog.list_trash(with_bytes=True)[0].bytes
    before = place.files()

    (receipt,) = later.purge_tables(dry_run=True)

    assert (receipt.outcome.value, receipt.bytes) == ("planned", size)
    assert place.files() == before


def test_a_plan_is_bound_to_the_drops_it_was_made_for(
    catalog: DirectoryNamespace, place: Place
) -> None:
    names = ("undropped", "held", "again", "anew", "same")
    for name in names:
        create(catalog, name)
        drop(catalog, name, ttl=0)
    plan = catalog.plan_purge()
    assert {dropped.id for dropped in plan.tables} == {(name,) for name in names}
    assert plan.bytes == sum(dropped.bytes or 0 for dropped in catalog.list_trash(with_bytes=True))

    catalog.undrop_table(["undropped"])
    catalog.hold_table(["held"])
    catalog.undrop_table(["again"])
    drop(catalog, "again", ttl=0)
    create(catalog, "anew", data=PLANTS)
    receipts = catalog.apply_purge(plan)

    purged = {name for (name,), outcome in _ids(receipts).items() if outcome == "purged"}
    assert purged <= {"same", "anew"}, "an old generation of a name may lie apart from the new"
    assert "same" in purged
    assert all(receipt.error for receipt in receipts if receipt.outcome.value == "skipped")
    assert tables(catalog) == ["anew", "undropped"]
    assert contents(catalog, place, "anew") == PLANTS
    assert contents(catalog, place, "undropped") == PEOPLE
    assert set(trash(catalog)) == {("held",), ("again",)}


def test_a_purged_table_is_like_one_that_never_was(
    catalog: DirectoryNamespace, reopen: Reopen
) -> None:
    create(catalog, "people")
    drop(catalog, "people")

    catalog.purge_table(["people"])

    for client in (catalog, reopen()):
        assert tables(client) == trash(client) == []
        assert status(client, "people") == "not_found"
        with refused(ErrorCode.TABLE_NOT_FOUND) as caught:
            describe(client, "people")
        assert caught.value.hint is None
        with refused(ErrorCode.TABLE_NOT_FOUND):
            client.purge_table(["people"])


def test_a_declared_table_can_be_purged(catalog: DirectoryNamespace, place: Place) -> None:
    location = place.key(declare(catalog, "people").location or "")
    drop(catalog, "people")

    assert catalog.purge_table(["people"]).objects >= 1

    assert bytes_below(place, location) == {}
    assert create(catalog, "people").version == 1


@on_disk
@with_manifest
def test_a_table_of_a_namespace_is_purged_like_one_at_the_root(
    catalog: DirectoryNamespace, later: DirectoryNamespace, place: Place
) -> None:
    make_namespace(catalog, "prod")
    location = place.key(create(catalog, "prod", "people").location or "")
    create(catalog, "people")
    drop(catalog, "prod", "people")

    assert _ids(later.purge_tables()) == {("prod", "people"): "purged"}

    assert bytes_below(place, location) == {}
    assert all_tables(catalog) == ["people"]


# -- declaring the name of a purged table


@on_disk
@in_directory_mode
def test_in_directory_mode_a_purged_name_can_be_declared_a_day_later(
    catalog: DirectoryNamespace, later: DirectoryNamespace
) -> None:
    create(catalog, "people")
    drop(catalog, "people")
    catalog.purge_table(["people"])

    with refused(ErrorCode.TABLE_ALREADY_EXISTS) as caught:
        declare(catalog, "people")
    assert "create it instead" in (caught.value.hint or "")
    assert tables(catalog) == []
    declare(later, "people")

    assert describe(catalog, "people", check_declared=True).is_only_declared


@on_disk
@with_manifest
def test_with_a_manifest_a_purged_name_is_declared_at_a_place_of_its_own(
    catalog: DirectoryNamespace, place: Place
) -> None:
    first = create(catalog, "people").location
    drop(catalog, "people")
    catalog.purge_table(["people"])

    declared = declare(catalog, "people")

    assert declared.location != first
    create(catalog, "people", data=PLANTS)
    assert contents(catalog, place, "people") == PLANTS
    drop(catalog, "people")
    catalog.undrop_table(["people"])
    assert contents(catalog, place, "people") == PLANTS
