"""How long a dropped table can be brought back: the drop says, else the namespace, else the
catalog."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode

import tiltyard
from tests.behaviours.calls import (
    create,
    drop,
    drop_namespace,
    exists,
    make_namespace,
    refused,
)
from tests.behaviours.modes import Mode, with_manifest
from tests.behaviours.places import Place
from tests.behaviours.trash import DAY, on_disk, trash
from tiltyard import DirectoryNamespace

# Times are the same wherever a catalog lies.
pytestmark = on_disk


def _open(mode: Mode, place: Place, **properties: Any) -> DirectoryNamespace:
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    return tiltyard.connect(place.root, **mode.properties, **storage, **properties)


def _times(catalog: DirectoryNamespace) -> dict[tuple[str, ...], timedelta | None]:
    """How long each table stays in the trash."""
    return {
        dropped.id: dropped.expires_at - dropped.dropped_at if dropped.expires_at else None
        for dropped in catalog.list_trash()
    }


TIMES: list[tuple[Any, timedelta | None]] = [
    (None, 7 * DAY),
    ("90m", timedelta(minutes=90)),
    (1.5, timedelta(milliseconds=1500)),
    (timedelta(days=400), 400 * DAY),
    (0, timedelta(0)),
    ("never", None),
]
NO_TIMES: list[Any] = ["soon", "-1", -1, timedelta(-1), "1w", True, ["7d"], "99999999d"]


def test_a_drop_says_how_long(catalog: DirectoryNamespace) -> None:
    for number, (ttl, _) in enumerate(TIMES):
        create(catalog, f"t{number}")
        drop(catalog, f"t{number}", ttl=ttl)

    assert _times(catalog) == {(f"t{number}",): time for number, (_, time) in enumerate(TIMES)}


def test_a_time_that_is_none_is_refused_and_nothing_changes(
    catalog: DirectoryNamespace, place: Place
) -> None:
    create(catalog, "people")
    before = place.files()

    for ttl in NO_TIMES:
        with refused(ErrorCode.INVALID_INPUT):
            drop(catalog, "people", ttl=ttl)

    assert place.files() == before
    assert exists(catalog, "people")


@pytest.mark.parametrize(("setting", "time"), [("2h", timedelta(hours=2)), ("never", None)])
def test_the_catalogs_own_time_counts_where_nobody_says(
    mode: Mode, place: Place, setting: str, time: timedelta | None
) -> None:
    catalog = _open(mode, place, default_ttl=setting)
    create(catalog, "people")
    create(catalog, "plants")

    drop(catalog, "people")
    drop(catalog, "plants", ttl="1d")

    assert _times(catalog) == {("people",): time, ("plants",): DAY}


@with_manifest
def test_the_nearest_namespace_that_has_a_time_decides(mode: Mode, place: Place) -> None:
    catalog = _open(mode, place, default_ttl="5d")
    make_namespace(catalog, "prod", properties={"default_ttl": "2d"})
    make_namespace(catalog, "prod", "eu")
    make_namespace(catalog, "prod", "us", properties={"default_ttl": "never"})
    make_namespace(catalog, "dev")
    at = [("prod",), ("prod", "eu"), ("prod", "us"), ("dev",), ()]
    for namespace in at:
        create(catalog, *namespace, "people")

    for namespace in at:
        drop(catalog, *namespace, "people")

    assert _times(catalog) == {
        ("prod", "people"): 2 * DAY,
        ("prod", "eu", "people"): 2 * DAY,
        ("prod", "us", "people"): None,
        ("dev", "people"): 5 * DAY,
        ("people",): 5 * DAY,
    }


@with_manifest
def test_a_namespace_whose_time_is_none_lets_nothing_be_dropped_without_one(
    catalog: DirectoryNamespace,
) -> None:
    make_namespace(catalog, "prod", properties={"default_ttl": "soon"})
    create(catalog, "prod", "people")

    with refused(ErrorCode.INVALID_INPUT) as caught:
        drop(catalog, "prod", "people")

    assert "default_ttl" in str(caught.value)
    assert trash(catalog) == []
    drop(catalog, "prod", "people", ttl="1d")
    assert trash(catalog) == [("prod", "people")]


@with_manifest
def test_of_tables_that_are_dropped_together_each_has_the_time_of_its_namespace(
    catalog: DirectoryNamespace,
) -> None:
    make_namespace(catalog, "prod", properties={"default_ttl": "2d"})
    make_namespace(catalog, "prod", "eu", properties={"default_ttl": "3d"})
    for table in (("people",), ("prod", "a"), ("prod", "b"), ("prod", "eu", "b")):
        create(catalog, *table)

    catalog.drop_tables(
        [api.DropTableRequest(id=["people"]), api.DropTableRequest(id=["prod", "a"])]
    )
    drop_namespace(catalog, "prod", behavior="Cascade")

    assert _times(catalog) == {
        ("people",): 7 * DAY,
        ("prod", "a"): 2 * DAY,
        ("prod", "b"): 2 * DAY,
        ("prod", "eu", "b"): 3 * DAY,
    }


@with_manifest
def test_the_root_is_a_namespace_too(catalog: DirectoryNamespace) -> None:
    make_namespace(catalog, mode="Overwrite", properties={"default_ttl": "1d"})
    make_namespace(catalog, "prod")
    create(catalog, "people")
    create(catalog, "prod", "people")

    drop(catalog, "people")
    drop(catalog, "prod", "people")

    assert _times(catalog) == {("people",): DAY, ("prod", "people"): DAY}
