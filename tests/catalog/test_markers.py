"""The markers of directory mode: their sizes tell what they say, and none is overwritten unread."""

from __future__ import annotations

import json

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import (
    TABLE_CALLS,
    create,
    deregister,
    describe,
    exists,
    refused,
    register,
    tables,
)
from tests.behaviours.modes import Mode, with_directory_listing
from tests.behaviours.places import Place

MARKER = "people.deleted"

pytestmark = with_directory_listing


def test_a_live_marker_is_exactly_64_bytes_and_a_hidden_one_at_least_256(
    catalog: api.LanceNamespace, place: Place
) -> None:
    create(catalog, "people")
    assert MARKER not in place.files(), "a table that was never hidden has none"

    location = deregister(catalog, "people").location
    hidden = len(place.read(MARKER))
    register(catalog, "people", at=location or "")

    assert hidden >= 256
    assert len(place.read(MARKER)) == 64


def test_no_two_bodies_of_a_marker_are_equal(catalog: api.LanceNamespace, place: Place) -> None:
    location = create(catalog, "people").location or ""
    bodies = []
    for _ in range(3):
        deregister(catalog, "people")
        bodies.append(place.read(MARKER))
        register(catalog, "people", at=location)
        bodies.append(place.read(MARKER))

    assert len(set(bodies)) == len(bodies)


@pytest.mark.parametrize(
    "body",
    [
        {"format": 2, "state": "deregistered"},
        {"format": 1, "state": "enchanted"},
        {"format": "1", "state": "deregistered"},
        {"state": "deregistered"},
        ["format", 1],
    ],
    ids=["newer format", "unknown state", "format as text", "no format", "no object"],
)
def test_a_marker_that_is_not_understood_is_refused_and_left_alone(
    catalog: api.LanceNamespace, mode: Mode, place: Place, body: object
) -> None:
    create(catalog, "people")
    place.write(MARKER, json.dumps(body).encode().ljust(256))
    before = place.files()

    assert tables(catalog) == [], "its size says that it hides the table"
    for name, call in TABLE_CALLS.items():
        if name == "rename_table" and not mode.has_manifest:
            continue
        with refused(ErrorCode.INVALID_TABLE_STATE) as caught:
            call(catalog, ["people"])
        assert MARKER in str(caught.value)

    assert place.files() == before


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"{", b"reserved"])
def test_a_marker_of_other_bytes_is_refused_and_left_alone(
    catalog: api.LanceNamespace, place: Place, body: bytes
) -> None:
    create(catalog, "people")
    place.write(MARKER, body)

    with refused(ErrorCode.INVALID_TABLE_STATE):
        describe(catalog, "people")

    assert place.read(MARKER) == body


def test_a_marker_hides_no_other_table(catalog: api.LanceNamespace) -> None:
    for name in ("people", "people.deleted", "people2"):
        create(catalog, name)

    deregister(catalog, "people")

    assert tables(catalog) == ["people.deleted", "people2"]
    assert exists(catalog, "people.deleted")


@pytest.mark.parametrize("size", [0, 8, 63, 65, 255, 256, 1_000])
def test_only_a_size_of_64_bytes_shows_a_table(
    catalog: api.LanceNamespace, place: Place, size: int
) -> None:
    create(catalog, "people")
    place.write(MARKER, b"x" * size)
    assert tables(catalog) == []

    place.write(MARKER, b"x" * 64)
    assert tables(catalog) == ["people"]
