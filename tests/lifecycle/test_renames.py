"""A root table that is renamed away from its directory and back, with crashes in between."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import (
    PEOPLE,
    PLANTS,
    contents,
    create,
    deregister,
    drop,
    refused,
    register,
    rename,
    tables,
)
from tests.behaviours.modes import COMPATIBILITY, V1
from tests.behaviours.places import Place
from tests.behaviours.trash import bytes_below, on_disk, trash
from tests.kit.stores import Crash, Fault, FaultyStore
from tiltyard import DirectoryNamespace
from tiltyard.catalog.manifest.edits import AddTable, AllOf, RemoveIndex
from tiltyard.catalog.manifest.rows import MOVED, TABLE, Row

LOCATION = "people.lance"
MARKER = "people.deleted"

pytestmark = [on_disk, pytest.mark.parametrize("mode", [COMPATIBILITY], ids=str, indirect=True)]


@dataclass
class CrashingClient:
    """A client that dies on purpose."""

    client: DirectoryNamespace
    store: FaultyStore

    def rename(self, old: str, new: str, *, dies: Fault, at: str) -> None:
        self.store.plan(dies, verb=at, key=MARKER)
        with pytest.raises(Crash):
            rename(self.client, old, to=new)


@pytest.fixture
def crashing(
    catalog: DirectoryNamespace, faulty: tuple[DirectoryNamespace, FaultyStore]
) -> CrashingClient:
    create(catalog, "people")
    return CrashingClient(*faulty)


def _marker(place: Place) -> dict[str, object]:
    body: dict[str, object] = json.loads(place.read(MARKER))
    return body


def test_a_rename_without_its_row_is_undone_by_a_register(
    catalog: DirectoryNamespace, crashing: CrashingClient, place: Place
) -> None:
    crashing.rename("people", "staff", dies=Fault.CRASH_AFTER, at="put_new")
    assert tables(catalog) == []

    register(catalog, "people", at=LOCATION)

    assert tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PEOPLE


def test_a_rename_with_its_row_is_finished_by_whoever_changes_the_table(
    catalog: DirectoryNamespace, crashing: CrashingClient, place: Place
) -> None:
    crashing.rename("people", "staff", dies=Fault.CRASH_BEFORE, at="replace")
    assert tables(catalog) == ["staff"]
    assert "arrived" not in _marker(place)
    with refused(ErrorCode.INVALID_INPUT):
        register(catalog, "people", at=LOCATION)

    drop(catalog, "staff")

    assert _marker(place)["arrived"] is True
    catalog.undrop_table(["staff"])
    assert contents(catalog, place, "staff") == PEOPLE


def test_a_table_on_its_way_home_is_there_and_can_be_dropped(
    catalog: DirectoryNamespace, crashing: CrashingClient, place: Place
) -> None:
    rename(catalog, "people", to="staff")
    crashing.rename("staff", "people", dies=Fault.CRASH_BEFORE, at="replace")
    assert contents(catalog, place, "people") == PEOPLE

    drop(catalog, "people")

    assert tables(catalog) == []
    assert trash(catalog) == [("people",)]
    catalog.undrop_table(["people"])
    assert tables(catalog) == ["people"]
    assert contents(catalog, place, "people") == PEOPLE


def test_a_table_that_was_renamed_and_deregistered_is_registered_where_it_lies(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    rename(catalog, "people", to="staff")
    deregister(catalog, "staff")
    assert tables(catalog) == []

    register(catalog, "people", at=LOCATION)

    assert contents(catalog, place, "people") == PEOPLE


def test_directory_mode_does_not_take_a_renamed_table_back(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    rename(catalog, "people", to="staff")
    plain = tiltyard.connect(place.root, **V1.properties)

    with refused(ErrorCode.UNSUPPORTED) as caught:
        register(plain, "people", at=LOCATION)

    assert "manifest_enabled" in (caught.value.hint or "")
    assert contents(catalog, place, "staff") == PEOPLE


def test_the_directory_of_a_renamed_table_that_is_purged_is_never_used_again(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    rename(catalog, "people", to="staff")
    drop(catalog, "staff")
    catalog.purge_table(["staff"])

    assert bytes_below(place, LOCATION) == {}
    assert "buried" in _marker(place)
    created = create(catalog, "people", data=PLANTS)
    assert place.key(created.location or "") != LOCATION
    assert contents(catalog, place, "people") == PLANTS


def test_a_purge_that_finds_its_directory_taken_back_deletes_nothing(
    catalog: DirectoryNamespace, place: Place
) -> None:
    """A row of an undone rename can't come into the trash any more; one of an older catalog may."""
    create(catalog, "people")
    rename(catalog, "people", to="staff")
    drop(catalog, "staff")
    body = {"format": 1, "state": "live", "nonce": "0123456789ab"}
    place.write(MARKER, json.dumps(body, separators=(",", ":")).encode().ljust(64))

    receipt = catalog.purge_table(["staff"])

    assert receipt.objects == 0
    assert contents(catalog, place, "people") == PEOPLE
    assert trash(catalog) == []


def _leave_row_over(catalog: DirectoryNamespace) -> None:
    """What a commit leaves that arrives after its rename was undone."""
    row = Row("staff", TABLE, LOCATION, {MOVED: "0123456789ab"})
    edit = AllOf((RemoveIndex(("people",), LOCATION), AddTable(row)))
    catalog.context.manifest.submit(edit)


def test_the_row_of_a_rename_that_was_undone_keeps_nobody_from_anything(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")

    _leave_row_over(catalog)
    deregister(catalog, "people")
    register(catalog, "people", at=LOCATION)
    assert tables(catalog) == ["people"]

    _leave_row_over(catalog)
    drop(catalog, "people")
    catalog.undrop_table(["people"])
    assert tables(catalog) == ["people"]

    _leave_row_over(catalog)
    drop(catalog, "people")
    create(catalog, "people", data=PLANTS)
    assert tables(catalog) == ["people"]

    _leave_row_over(catalog)
    rename(catalog, "people", to="staff")
    assert tables(catalog) == ["staff"]
    assert contents(catalog, place, "staff") == PLANTS
