"""The same in a bucket, where names are written otherwise in addresses than in keys."""

from __future__ import annotations

import pytest

import tiltyard
from tests.behaviours.calls import create
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import MANAGED, MANIFEST, Kind, ManualClock, ids, rows
from tiltyard.maintenance.policy import CleanupPolicy

LATEST = CleanupPolicy(keep_versions=1, allow_below_recovery_floor=True)


@pytest.mark.parametrize("kind", [MANIFEST, MANAGED], ids=str)
@pytest.mark.parametrize("name", ["people", "ärger & 100% über+all"])
def test_a_table_in_a_bucket_is_maintained(
    ministack: S3Server, kind: Kind, name: str, clock: ManualClock
) -> None:
    place = Bucket(ministack, ministack.new_root())
    options = {f"storage.{key}": value for key, value in place.storage_options.items()}
    catalog = tiltyard.connect(place.root, **options, **kind.properties)
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
    gone = {each for each in held - set(place.files()) if "_versions" not in each}
    assert len(gone) == row.files_removed >= 4
    assert any("/data/" in each for each in gone)
    after = catalog.open_table([name])
    assert ids(after) == before
    assert after.count_rows("id = 103") == 1
    assert catalog.maintenance.cleanup_table([name], LATEST).is_nothing
    done = catalog.maintenance.optimize_catalog()
    assert done.fragments_after == 1
