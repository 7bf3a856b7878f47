"""The same in a bucket, whose times have whole seconds and whose requests are counted."""

from __future__ import annotations

from typing import Any

import lance
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create, drop
from tests.behaviours.places import Bucket
from tests.kit.catalogs import open_over
from tests.kit.stores import Crash, Fault, FaultyStore
from tiltyard import DirectoryNamespace
from tiltyard.catalog.pylance import Lance
from tiltyard.maintenance.orphan_candidates import OrphanKind
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.maintenance.sidecars import OperationKind
from tiltyard.versions.base import NewVersion
from tiltyard.versions.drift import Mending
from tiltyard.versions.lance_format import transaction_of

pytestmark = pytest.mark.servers

MORE = PEOPLE.slice(0, 1)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Bucket:
    server = request.getfixturevalue("ministack")
    return Bucket(server, server.new_root())


def connect(place: Bucket, **properties: Any) -> DirectoryNamespace:
    return tiltyard.connect(place.root, **properties, **_storage(place))


def _storage(place: Bucket) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in place.storage_options.items()}


def _stage(catalog: DirectoryNamespace, name: str) -> NewVersion:
    """A version that was committed, taken back, and staged again under another name."""
    table = catalog.context.catalog.find((name,))
    past = lance.dataset(
        catalog.context.lance.uri(table.location), storage_options=_options(catalog)
    )
    version = past.insert(MORE) or past.version
    found = catalog.services.versions.describe((name,), version)
    body = catalog.context.store.get(found.key).body
    staged = f"{found.key}-00000000-0000-4000-8000-000000000000"
    catalog.context.store.put(staged, body)
    catalog.context.store.delete(found.key)
    assert transaction_of(body, staged)
    return NewVersion((name,), version, staged)


def _options(catalog: DirectoryNamespace) -> dict[str, str]:
    return dict(catalog.context.settings.storage)


@pytest.mark.parametrize("landed", [0, 1, 2])
def test_a_batch_that_was_cut_off_goes_forward(place: Bucket, landed: int) -> None:
    catalog = connect(place, manifest_enabled=False)
    for name in "ab":
        create(catalog, name)
    wanted = [_stage(catalog, name) for name in "ab"]
    owner, store = open_over(
        FaultyStore, root=place.root, manifest_enabled=False, **_storage(place)
    )
    if landed < 2:
        store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=landed)
    else:
        store.plan(Fault.CRASH_BEFORE, verb="delete", key="__recovery/*")
    with pytest.raises(Crash):
        owner.services.batches.create_all(wanted)
    (only,) = connect(place, manifest_enabled=False).health.recover(older_than=0)
    assert (only.kind, only.outcome) == (OperationKind.BATCH.value, Resolution.FORWARD)
    visitor = connect(place, manifest_enabled=False)
    assert [visitor.open_table([name]).count_rows() for name in "ab"] == [4, 4]
    assert visitor.health.recover(older_than=0) == []
    assert visitor.health.doctor() == []


def test_drift_is_taken_in_or_discarded(place: Bucket) -> None:
    catalog = connect(place, dir_listing_enabled=False)
    catalog.versions.manage()
    create(catalog, "people")
    table = catalog.context.catalog.find(("people",))
    with catalog.services.access.change(table) as dataset:
        dataset.insert(MORE)

    def past() -> lance.LanceDataset:
        return Lance(catalog.context.settings).open(table.location)

    past().optimize.compact_files()
    assert catalog.health.repair_table(["people"]).action is Mending.ADOPTED
    past().insert(MORE)
    assert [each.what for each in catalog.health.doctor()] == ["drift"]
    assert catalog.health.repair_table(["people"], discard=True).action is Mending.DISCARDED
    assert catalog.open_table(["people"]).count_rows() == 4
    assert catalog.health.doctor() == []


def test_orphans_are_found_and_removed(place: Bucket) -> None:
    catalog = connect(place)
    create(catalog, "people")
    create(catalog, "dropped")
    drop(catalog, "dropped")
    catalog.context.store.put("people.lance/data/stray.lance", b"x")
    (only,) = catalog.health.find_orphans(older_than=0)
    assert (only.path, only.kind) == ("people.lance/data/stray.lance", OrphanKind.FILE)
    catalog.health.remove_orphans([only], older_than=0, even_if_young=True)
    assert list(catalog.health.find_orphans(older_than=0)) == []
    assert catalog.open_table(["people"]).to_table() == PEOPLE


def test_the_doctor_asks_for_a_handful_of_requests_a_table(place: Bucket) -> None:
    catalog = connect(place, dir_listing_enabled=False)
    for number in range(10):
        create(catalog, f"t{number}")
    watched, store = open_over(
        FaultyStore, root=place.root, dir_listing_enabled=False, **_storage(place)
    )
    assert watched.health.doctor() == []
    assert store.count() <= 10 * 5 + 20
