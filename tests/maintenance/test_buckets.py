"""The same in a bucket, where names are written otherwise in addresses than in keys, times have
whole seconds, and requests are counted."""

from __future__ import annotations

from typing import Any

import lance
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create, drop
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server
from tests.kit.catalogs import open_over, to_change
from tests.kit.stores import Crash, Fault, FaultyStore
from tests.maintenance.catalogs import MANAGED, MANIFEST, Kind, ManualClock, ids, location, rows
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.orphan_candidates import OrphanKind
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.versions.base import NewVersion
from tiltyard.versions.drift import Mending

pytestmark = pytest.mark.servers

LATEST = CleanupPolicy(keep_versions=1, allow_below_recovery_floor=True)
MORE = PEOPLE.slice(0, 1)


@pytest.fixture
def place(ministack: S3Server) -> Bucket:
    return Bucket(ministack, ministack.new_root())


def connect(place: Bucket, **properties: Any) -> DirectoryNamespace:
    return tiltyard.connect(place.root, **properties, **_storage(place))


def watched(place: Bucket, **properties: Any) -> tuple[DirectoryNamespace, FaultyStore]:
    return open_over(FaultyStore, root=place.root, **properties, **_storage(place))


def _storage(place: Bucket) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in place.storage_options.items()}


def _past(catalog: DirectoryNamespace, name: str) -> lance.LanceDataset:
    """A table as a client has it that goes past the catalog."""
    uri = catalog.context.lance.uri(location(catalog, name))
    return lance.dataset(uri, storage_options=dict(catalog.context.settings.storage))


@pytest.mark.parametrize("kind", [MANIFEST, MANAGED], ids=str)
@pytest.mark.parametrize("name", ["people", "ärger & 100% über+all"])
def test_a_table_in_a_bucket_is_maintained(
    place: Bucket, kind: Kind, name: str, clock: ManualClock
) -> None:
    catalog = connect(place, **kind.properties)
    if kind.managed:
        catalog.versions.manage()
    create(catalog, name, data=rows(*range(10)))
    dataset = to_change(catalog, name)
    dataset.create_scalar_index("id", "BTREE")
    for number in range(100, 104):
        dataset.insert(rows(number))
        dataset.delete(f"id = {number - 100}")
    before = ids(catalog.open_table([name]))
    assert catalog.maintenance.optimize_table([name]).fragments_removed > 1
    clock.pass_days(1)
    held = set(place.files())
    row = catalog.maintenance.cleanup_table([name], LATEST)
    assert row.error is None
    gone = {file for file in held - set(place.files()) if "_versions" not in file}
    assert len(gone) == row.files_removed >= 4
    assert any("/data/" in file for file in gone)
    after = catalog.open_table([name])
    assert ids(after) == before
    assert after.count_rows("id = 103") == 1
    assert catalog.maintenance.cleanup_table([name], LATEST).is_nothing
    assert catalog.maintenance.optimize_catalog().fragments_after == 1


def _stage(catalog: DirectoryNamespace, name: str) -> NewVersion:
    """A version that was committed, taken back, and staged again under another name."""
    past, store = _past(catalog, name), catalog.context.store
    past.insert(MORE)
    file = catalog.services.versions.describe((name,), past.version)
    staged = f"{file.key}-00000000-0000-4000-8000-000000000000"
    store.put(staged, store.get(file.key).body)
    store.delete(file.key)
    return NewVersion((name,), past.version, staged)


@pytest.mark.parametrize("landed", [0, 1, 2])
def test_a_batch_that_was_cut_off_goes_forward(place: Bucket, landed: int) -> None:
    catalog = connect(place, manifest_enabled=False)
    for name in "ab":
        create(catalog, name)
    wanted = [_stage(catalog, name) for name in "ab"]
    owner, store = watched(place, manifest_enabled=False)
    if landed < 2:
        store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=landed)
    else:
        store.plan(Fault.CRASH_BEFORE, verb="delete", key="__recovery/*")
    with pytest.raises(Crash):
        owner.services.batches.create_all(wanted)
    (only,) = connect(place, manifest_enabled=False).health.recover(older_than=0)
    assert (only.kind, only.outcome) == ("batch", Resolution.FORWARD)
    after = connect(place, manifest_enabled=False)
    assert [after.open_table([name]).count_rows() for name in "ab"] == [4, 4]
    assert after.health.recover(older_than=0) == []
    assert after.health.doctor() == []


def test_drift_is_taken_in_or_discarded(place: Bucket) -> None:
    catalog = connect(place, dir_listing_enabled=False)
    catalog.versions.manage()
    create(catalog, "people")
    to_change(catalog, "people").insert(MORE)
    _past(catalog, "people").optimize.compact_files()
    assert catalog.health.repair_table(["people"]).action is Mending.ADOPTED
    _past(catalog, "people").insert(MORE)
    assert [finding.what for finding in catalog.health.doctor()] == ["drift"]
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
    counted, store = watched(place, dir_listing_enabled=False)
    assert counted.health.doctor() == []
    assert store.count() <= 10 * 5 + 20
