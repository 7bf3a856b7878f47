"""The catalog's own table: few fragments, no old versions, and nobody who uses it is lost."""

from __future__ import annotations

import os
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as LancesOwn

import tiltyard
from tests.behaviours.calls import create, drop, tables
from tests.behaviours.processes import context
from tests.kit.catalogs import open_over
from tests.kit.stores import Crash, Fault, FaultyStore
from tests.maintenance.catalogs import LAKE, MANIFEST, files
from tiltyard import DirectoryNamespace
from tiltyard.catalog import version_files
from tiltyard.catalog.manifest import table as manifest_table
from tiltyard.errors import InvalidInputError

DAY = 86_400
SECONDS_TO_ANSWER = 120


@pytest.fixture
def lake(tmp_path: Path) -> DirectoryNamespace:
    """A catalog of twelve tables, each declared by a commit of its own."""
    catalog = tiltyard.connect(tmp_path / LAKE, **MANIFEST.properties)
    for number in range(12):
        catalog.declare_table(api.DeclareTableRequest(id=[f"t{number:02}"]))
    return catalog


def versions(catalog: DirectoryNamespace) -> list[int]:
    return [file.version for file in version_files.every(catalog.context.store, "__manifest")]


def grow_old(catalog: DirectoryNamespace, root: Path, days: float, *, but: int = 0) -> None:
    """All versions are so many days old, but the last few."""
    every = version_files.every(catalog.context.store, "__manifest")
    then = time.time() - days * DAY
    for file in every[: len(every) - but]:
        os.utime(root / file.key, (then, then))


def scatter(root: Path) -> None:
    """What other clients may leave: appended fragments, rows that are only marked as deleted."""
    dataset = lance.dataset(root / "__manifest")
    for number in range(5):
        row = {"object_id": f"x{number}", "object_type": "namespace"}
        dataset.insert(pa.Table.from_pylist([row], schema=dataset.schema))
    dataset.delete("object_id = 'x0'")


def test_fragments_are_folded(lake: DirectoryNamespace, tmp_path: Path) -> None:
    scatter(tmp_path / LAKE)
    before = tables(lake)
    done = lake.maintenance.optimize_catalog()
    assert done.committed
    assert done.fragments_before > done.fragments_after == 1
    assert tables(lake) == before == tables(tiltyard.connect(tmp_path / LAKE))
    again = lake.maintenance.optimize_catalog()
    assert not again.committed
    assert again.version == done.version


def test_old_versions_and_their_files_go(lake: DirectoryNamespace, tmp_path: Path) -> None:
    before = tables(lake)
    every = versions(lake)
    grow_old(lake, tmp_path / LAKE, 8, but=3)
    done = lake.maintenance.optimize_catalog()
    assert done.versions_removed == len(every) - 4
    assert done.files_removed > 0
    assert versions(lake)[:4] == every[-4:]
    other = tiltyard.connect(tmp_path / LAKE, **MANIFEST.properties)
    assert tables(lake) == tables(other) == before
    create(other, "more")
    assert "more" in tables(lake)
    assert lake.maintenance.optimize_catalog().versions_removed == 0


def test_what_was_the_newest_until_lately_stays_however_old_it_is(
    lake: DirectoryNamespace, tmp_path: Path
) -> None:
    grow_old(lake, tmp_path / LAKE, 100)
    lake.maintenance.optimize_catalog()
    last = versions(lake)[-1]
    grow_old(lake, tmp_path / LAKE, 100)
    lake.declare_table(api.DeclareTableRequest(id=["late"]))
    lake.maintenance.optimize_catalog()
    assert versions(lake)[0] == last


def test_a_day_is_the_least(lake: DirectoryNamespace) -> None:
    for age in ("1h", 0, "never"):
        with pytest.raises(InvalidInputError, match="a day"):
            lake.maintenance.optimize_catalog(min_age=age)


def test_a_catalog_without_a_manifest_has_nothing_to_do(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE, manifest_enabled=False)
    assert not catalog.maintenance.optimize_catalog().committed
    assert not tiltyard.connect(tmp_path / LAKE).maintenance.optimize_catalog().committed
    assert files(tmp_path) == set()


def test_a_writer_that_slept_for_days_is_told(
    lake: DirectoryNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the manifest and writes to it only when its number was taken and removed."""
    asleep = tiltyard.connect(tmp_path / LAKE, **MANIFEST.properties)
    assert "t00" in tables(asleep)
    read = asleep.context.manifest.table.read_for_writing

    def dozing() -> object:
        snapshot = read()
        if not monkeypatch_done:
            monkeypatch_done.append(True)
            for number in range(6):
                lake.declare_table(api.DeclareTableRequest(id=[f"later{number}"]))
            grow_old(lake, tmp_path / LAKE, 8, but=2)
            assert lake.maintenance.optimize_catalog().versions_removed
            monkeypatch.setattr(manifest_table, "LONGEST_COMMIT_SECONDS", 0.0)
        return snapshot

    monkeypatch_done: list[bool] = []
    monkeypatch.setattr(asleep.context.manifest.table, "read_for_writing", dozing)
    asleep.declare_table(api.DeclareTableRequest(id=["dreamt"]))
    listed = tables(tiltyard.connect(tmp_path / LAKE, **MANIFEST.properties))
    assert "dreamt" in listed, "it was done again, on what is there now"
    assert "later5" in listed


def test_a_run_that_dies_anywhere_is_finished_by_the_next(
    lake: DirectoryNamespace, tmp_path: Path
) -> None:
    before = tables(lake)
    grow_old(lake, tmp_path / LAKE, 8, but=3)
    shutil.copytree(tmp_path / LAKE, tmp_path / "template")

    def run(at: int | None) -> int:
        shutil.rmtree(tmp_path / LAKE)
        shutil.copytree(tmp_path / "template", tmp_path / LAKE)
        catalog, store = open_over(
            lambda disk: FaultyStore(disk, bulk=2), root=tmp_path / LAKE, **MANIFEST.properties
        )
        if at is None:
            catalog.maintenance.optimize_catalog()
            return len(store.requests)
        store.plan(Fault.CRASH_BEFORE, after=at, times=1_000_000)
        with pytest.raises(Crash):
            catalog.maintenance.optimize_catalog()
        return 0

    requests = run(None)
    expected = len(_files_of_manifest(tmp_path))
    for at in range(requests):
        run(at)
        after = tiltyard.connect(tmp_path / LAKE, **MANIFEST.properties)
        after.maintenance.optimize_catalog()
        assert tables(after) == before
        assert len(_files_of_manifest(tmp_path)) == expected, f"dead at {at}"
        assert after.maintenance.optimize_catalog().versions_removed == 0
        assert not [file for file in files(tmp_path / LAKE) if "/going/" in file]


def _files_of_manifest(root: Path) -> list[str]:
    return [file for file in files(root / LAKE / "__manifest") if "hint" not in file]


# -- others who use the catalog all the while


def look(orders: Connection, root: str) -> None:
    """A process of pylance's own client, which lists the tables whenever it is asked."""
    client = LancesOwn(root=root, dir_listing_enabled="false")
    for _ in iter(orders.recv, None):
        response = client.list_tables(api.ListTablesRequest(id=[]))
        orders.send(sorted(response.tables))


def test_a_live_client_of_lance_goes_on(lake: DirectoryNamespace, tmp_path: Path) -> None:
    near, far = context().Pipe()
    process = context().Process(target=look, args=(far, str(tmp_path / LAKE)), daemon=True)
    process.start()
    far.close()

    def seen() -> list[str]:
        near.send("look")
        assert near.poll(SECONDS_TO_ANSWER), "the client hangs"
        answer: list[str] = near.recv()
        return answer

    try:
        assert seen() == tables(lake)
        grow_old(lake, tmp_path / LAKE, 8, but=1)
        for round in range(4):
            for number in range(3):
                lake.declare_table(api.DeclareTableRequest(id=[f"r{round}n{number}"]))
            drop(lake, f"t{round:02}")
            lake.maintenance.optimize_catalog()
            assert seen() == tables(lake), f"round {round}"
        assert versions(lake)[0] > 1, "old versions went"
    finally:
        near.send(None)
        process.join(SECONDS_TO_ANSWER)
        process.kill()
