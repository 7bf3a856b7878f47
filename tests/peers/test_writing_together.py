"""Four processes of ours and four of pylance change one catalog at once: what was acknowledged is
there. pylance gives up after twenty lost races; ours has to get through.

The catalog is made before: pylance's clients that find none write an empty one each, whatever has
come since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import lance
import lance_namespace as api
import pytest

from tests.behaviours.calls import make_namespace, namespaces, tables
from tests.behaviours.conftest import Reopen
from tests.behaviours.modes import Mode, with_manifest
from tests.behaviours.places import Place
from tests.peers.clients import properties
from tests.peers.crowd import Crowd, Outcome, crowd, failures

on_disk = pytest.mark.parametrize("place", ["disk"], indirect=True)
on_s3 = pytest.mark.parametrize("place", ["s3"], indirect=True)


@pytest.fixture(scope="module")
def eight() -> Iterator[Crowd]:
    with crowd(4) as running:
        yield running


@pytest.fixture(autouse=True)
def _made(reopen: Reopen) -> None:
    make_namespace(reopen(), "first")


def _object_ids(place: Place) -> list[str]:
    manifest = lance.dataset(place.uri("__manifest"), storage_options=place.storage_options or None)
    ids: list[str] = manifest.to_table(columns=["object_id"])["object_id"].to_pylist()
    return ids


def _check(outcome: Outcome, place: Place, *clients: api.LanceNamespace) -> None:
    assert failures(outcome.ours) == {}
    for client in clients:
        found = set(tables(client))
        assert outcome.tables <= found
        assert not outcome.dropped & found
        assert found <= outcome.tables | outcome.in_doubt
        assert outcome.namespaces <= set(namespaces(client))
    repeated = {name for name, times in Counter(_object_ids(place)).items() if times > 1}
    assert repeated == set()


@on_disk
@with_manifest
def test_nothing_that_was_acknowledged_is_lost(
    mode: Mode, place: Place, reopen: Reopen, pylance: api.LanceNamespace, eight: Crowd
) -> None:
    outcome = eight.work(properties(mode, place), rounds=6)

    assert outcome.tables
    assert outcome.dropped
    _check(outcome, place, reopen(), pylance)


@on_s3
@with_manifest
def test_nothing_that_was_acknowledged_in_a_bucket_is_lost(
    mode: Mode, place: Place, reopen: Reopen, pylance: api.LanceNamespace, eight: Crowd
) -> None:
    outcome = eight.work(properties(mode, place), rounds=2)

    assert outcome.tables
    _check(outcome, place, reopen(), pylance)


@pytest.mark.slow
@with_manifest
def test_forty_rounds_of_changes_lose_nothing(
    mode: Mode, place: Place, reopen: Reopen, pylance: api.LanceNamespace, eight: Crowd
) -> None:
    outcome = eight.work(properties(mode, place), rounds=40)

    _check(outcome, place, reopen(), pylance)
