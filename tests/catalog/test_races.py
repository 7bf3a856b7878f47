"""Many processes take one name at once: one gets it, and nothing of the others stays behind."""

from __future__ import annotations

from collections.abc import Iterator

import lance_namespace as api
import pytest

from tests.behaviours.calls import contents, dataset, describe, tables
from tests.behaviours.modes import Mode
from tests.behaviours.places import Disk, Place
from tests.catalog.racers import WON, Racers, create_own, declare_it, racers, rows_of

# What a catalog keeps at its root beside its tables.
OWN = (".tiltyard", "__manifest")

on_disk = pytest.mark.parametrize("place", ["disk"], indirect=True)
on_s3 = pytest.mark.parametrize("place", ["s3"], indirect=True)


@pytest.fixture(scope="module")
def four() -> Iterator[Racers]:
    with racers(4) as running:
        yield running


@pytest.fixture(scope="module")
def eight() -> Iterator[Racers]:
    with racers(8) as running:
        yield running


@pytest.fixture
def properties(mode: Mode, place: Place) -> dict[str, str]:
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    return {"root": place.root, **mode.properties, **storage}


def _names(number: int) -> list[str]:
    return [f"t{at:02d}" for at in range(number)]


def _one_winner(outcomes: dict[str, list[str]]) -> dict[str, int]:
    """Who won each name; everybody else was told that it exists."""
    for name, results in outcomes.items():
        losses = ["TableAlreadyExistsError"] * (len(results) - 1)
        assert sorted(results) == [*losses, WON], (name, results)
    return {name: results.index(WON) for name, results in outcomes.items()}


def _locations(catalog: api.LanceNamespace, place: Place, names: list[str]) -> list[str]:
    return [place.key(describe(catalog, name).location or "") for name in names]


def _check_creates(
    catalog: api.LanceNamespace, place: Place, outcomes: dict[str, list[str]]
) -> None:
    names = list(outcomes)
    winners = _one_winner(outcomes)

    assert tables(catalog) == names
    for name, winner in winners.items():
        assert contents(catalog, place, name) == rows_of(winner)
        assert dataset(catalog, place, name).version == 1
    files = place.files()
    locations = _locations(catalog, place, names)
    assert _directories(place) == set(locations)
    for name, location in zip(names, locations, strict=True):
        written = {
            f"{location}/data/{file.path}"
            for fragment in dataset(catalog, place, name).get_fragments()
            for file in fragment.data_files()
        }
        assert {key for key in files if key.startswith(f"{location}/data/")} == written


def _check_declares(
    catalog: api.LanceNamespace, place: Place, outcomes: dict[str, list[str]]
) -> None:
    names = list(outcomes)
    _one_winner(outcomes)

    assert tables(catalog) == names
    assert _directories(place) == set(_locations(catalog, place, names))


def _directories(place: Place) -> set[str]:
    """The directories at the root that are not the catalog's own."""
    inside = {key.partition("/")[0] for key in place.files() if "/" in key}
    if isinstance(place, Disk):  # which also shows empty ones
        inside |= {key for key, state in place.files().items() if not state and "/" not in key}
    return inside - set(OWN)


@on_disk
def test_racing_creates_have_one_winner(
    catalog: api.LanceNamespace, place: Place, properties: dict[str, str], four: Racers
) -> None:
    _check_creates(catalog, place, four.race(properties, _names(10), create_own))


@on_disk
def test_racing_declares_have_one_winner(
    catalog: api.LanceNamespace, place: Place, properties: dict[str, str], four: Racers
) -> None:
    _check_declares(catalog, place, four.race(properties, _names(10), declare_it))


@on_s3
def test_racing_creates_in_a_bucket_have_one_winner(
    catalog: api.LanceNamespace, place: Place, properties: dict[str, str], four: Racers
) -> None:
    _check_creates(catalog, place, four.race(properties, _names(4), create_own))


@on_s3
def test_racing_declares_in_a_bucket_have_one_winner(
    catalog: api.LanceNamespace, place: Place, properties: dict[str, str], four: Racers
) -> None:
    _check_declares(catalog, place, four.race(properties, _names(4), declare_it))


@pytest.mark.slow
def test_thirty_names_and_eight_processes_that_create(
    catalog: api.LanceNamespace, place: Place, properties: dict[str, str], eight: Racers
) -> None:
    _check_creates(catalog, place, eight.race(properties, _names(30), create_own))


@pytest.mark.slow
def test_thirty_names_and_eight_processes_that_declare(
    catalog: api.LanceNamespace, place: Place, properties: dict[str, str], eight: Racers
) -> None:
    _check_declares(catalog, place, eight.race(properties, _names(30), declare_it))
