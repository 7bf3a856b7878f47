"""Jobs over files and data on a catalog of many shapes, ten tables of it broken in ten ways: a row
for each table, what is there is there once, and a second run has nothing to do. On the cluster, an
executor dies in the middle."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tiltyard
from tests.behaviours.calls import create, deregister, drop, make_namespace
from tests.spark.executors import Killer, is_alive
from tests.spark.jobs.mixed_catalog import MixedCatalog, make_mixed_catalog, rows
from tiltyard.catalog import names
from tiltyard.spark.jobs import export, ingest, inventory, migrate, orphans

FEW, MANY = 14, 300
LONG_AGO = time.time() - 30 * 86400
Progress = Callable[[int, int], None]


def _inventory(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    counted = inventory(made.catalog, spark, progress=progress).collect()

    assert Counter(row.table for row in counted) == dict.fromkeys(made.all_names, 1)
    for row in counted:
        if row.table in made.healthy:
            assert (row.error, row.rows) == (None, made.healthy[row.table].total()), row.table
            parts = (row.live_bytes, row.old_version_bytes, row.orphan_bytes, row.other_bytes)
            assert row.bytes == sum(parts)
    assert sum(row.error is not None for row in counted) >= 3


def _ingest(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    inbox = made.root.parent / "inbox"
    sources = {}
    for name in sorted(made.all_names):
        folder = inbox / name
        folder.mkdir(parents=True)
        for number in range(2):
            data = rows(5000 + 10 * number).select(["id"])
            pq.write_table(data, folder / f"{number}.parquet")
        sources[name] = str(folder)

    first = ingest(made.catalog, sources, spark, progress=progress).collect()
    again = ingest(made.catalog, sources, spark).collect()

    for answer, healthy in ((first, "loaded"), (again, "present")):
        assert Counter(row.table for row in answer) == dict.fromkeys(made.all_names, 2)
        actions = {row.action for row in answer if row.table in made.healthy}
        assert actions == {healthy}, [row for row in answer if row.error]
    assert [row for row in again if row.action == "loaded"] == []
    for name in made.healthy:
        made.healthy[name] += Counter(range(5000, 5020))
    made.must_have_all_rows()


def _export(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    target = made.root.parent / "out"

    first = export(made.catalog, str(target), spark, progress=progress).collect()
    again = export(made.catalog, str(target), spark).collect()

    for answer, healthy in ((first, "exported"), (again, "present")):
        assert Counter(row.table for row in answer) == dict.fromkeys(made.all_names, 1)
        assert {row.action for row in answer if row.table in made.healthy} == {healthy}
    for name, ids in made.healthy.items():
        folder = target.joinpath(*names.parse_dotted(name))
        files = [file for file in folder.iterdir() if file.suffix == ".parquet"]
        read = [number for file in files for number in pq.read_table(file)["id"].to_pylist()]
        assert Counter(read) == ids, name
    broken = {row.table: row for row in first if row.table in made.broken}
    for name, row in broken.items():
        success = target.joinpath(*names.parse_dotted(name)) / "_SUCCESS"
        assert success.exists() == (row.error is None), name


def _orphans(spark: SparkSession, made: MixedCatalog, progress: Progress | None = None) -> None:
    planted = set()
    for name in made.healthy:
        location = made.catalog.context.catalog.find(tuple(names.parse_dotted(name))).location
        path = f"{location}/data/stray.lance"
        (made.root / path).parent.mkdir(exist_ok=True)
        (made.root / path).write_bytes(b"bytes")
        planted.add(path)
    for path in made.root.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    expected = {orphan.path for orphan in made.catalog.health.find_orphans()}

    first = orphans(made.catalog, spark, progress=progress).collect()
    again = orphans(made.catalog, spark).collect()

    removed = [row.path for row in first if row.action == "removed"]
    assert Counter(removed) == dict.fromkeys(expected, 1)
    assert planted <= expected
    assert not [path for path in planted if (made.root / path).exists()]
    assert [row for row in again if row.action == "removed"] == []
    assert {row.path for row in first if row.error} == {row.path for row in again if row.error}
    made.must_have_all_rows()


def test_a_catalog_with_broken_tables_is_counted_loaded_exported_and_searched_for_orphans(
    spark: SparkSession, tmp_path: Path
) -> None:
    made = make_mixed_catalog(tmp_path / "lake", FEW)
    for job in (_inventory, _ingest, _export, _orphans):
        job(spark, made)


@pytest.mark.parametrize("job", [_inventory, _ingest, _export, _orphans])
def test_a_job_survives_the_death_of_an_executor(
    cluster: SparkSession,
    tmp_path: Path,
    job: Callable[[SparkSession, MixedCatalog, Progress], None],
) -> None:
    made = make_mixed_catalog(tmp_path / "lake", MANY)
    killer = Killer(cluster)
    job(cluster, made, killer)
    assert killer.killed_at
    assert not is_alive(killer.victim)


# -- migrate

# What is wrong with the first directories, and what a migration does with each. What a table
# holds is not its matter: one that can't be read keeps its name.
ODD: tuple[tuple[Callable[[Path, str], object], str], ...] = (
    (lambda root, name: shutil.rmtree(root / f"{name}.lance" / "_versions"), "skipped"),
    (lambda root, name: _emptied(root / f"{name}.lance"), "skipped"),
    (lambda root, name: _renamed(root, name, "no$name"), "skipped"),
    (lambda root, name: drop(_v1(root), name), "skipped"),
    (lambda root, name: deregister(_v1(root), name), "skipped"),
    (lambda root, name: _put_file(root / f"{name}.lance", ".lance-deregistered"), "lifted"),
    (lambda root, name: make_namespace(_v2(root), name), "skipped"),
    (lambda root, name: _manifest(root, name).write_bytes(b"this is no manifest"), "added"),
    (lambda root, name: _manifest(root, name).write_bytes(b""), "added"),
    (lambda root, name: shutil.rmtree(root / f"{name}.lance" / "data"), "added"),
)


def _v1(root: Path) -> tiltyard.DirectoryNamespace:
    return tiltyard.connect(root, manifest_enabled=False)


def _v2(root: Path) -> tiltyard.DirectoryNamespace:
    return tiltyard.connect(root, dir_listing_enabled=False)


def _emptied(location: Path) -> None:
    shutil.rmtree(location)
    location.mkdir()
    _put_file(location, "notes.txt")


def _put_file(location: Path, name: str) -> None:
    (location / name).write_bytes(b"")


def _renamed(root: Path, name: str, new: str) -> None:
    (root / f"{name}.lance").rename(root / f"{new}.lance")


def _manifest(root: Path, name: str) -> Path:
    return next((root / f"{name}.lance" / "_versions").glob("*.manifest"))


def _migrate(
    spark: SparkSession, root: Path, tables: int, progress: Progress | None = None
) -> None:
    create(_v1(root), "t000")
    for number in range(1, tables):
        shutil.copytree(root / "t000.lance", root / f"t{number:03}.lance")
    for number, (damage, _) in enumerate(ODD):
        damage(root, f"t{number:03}")
    expected = {f"t{number:03}.lance": "added" for number in range(tables)}
    expected |= {f"t{number:03}.lance": action for number, (_, action) in enumerate(ODD)}
    expected["no$name.lance"] = expected.pop("t002.lance")
    catalog = tiltyard.connect(root)

    first = migrate(catalog, spark, progress=progress).collect()
    again = migrate(catalog, spark).collect()

    assert Counter(row.location for row in first) == dict.fromkeys(expected, 1)
    assert {row.location: row.action for row in first} == expected
    added = {location for location, action in expected.items() if action == "added"}
    assert {row.location for row in again if row.action == "present"} == added
    assert Counter(row.action for row in again) == {
        "present": len(added),
        "skipped": tables - len(added),
    }
    assert {f"{name}.lance" for name in _v2(root).context.catalog.list_all_tables()} == added


def test_a_migration_takes_each_directory_for_what_it_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    _migrate(spark, tmp_path / "lake", FEW)


def test_a_migration_survives_the_death_of_an_executor(
    cluster: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["tiltyard.spark.jobs.migrate"], "DIRECTORIES_PER_UNIT", 10)
    killer = Killer(cluster)
    _migrate(cluster, tmp_path / "lake", MANY, killer)
    assert killer.killed_at
    assert not is_alive(killer.victim)


def test_every_directory_gets_a_row_and_a_second_run_finds_nothing_to_do(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "lake"
    old = tiltyard.connect(root, manifest_enabled=False)
    for number in range(7):
        create(old, f"t{number}")
    drop(old, "t6")
    (root / "t5.lance" / ".lance-deregistered").touch()
    (root / "no table.lance").mkdir()
    (root / "no table.lance" / "x").touch()
    monkeypatch.setattr(sys.modules["tiltyard.spark.jobs.migrate"], "DIRECTORIES_PER_UNIT", 3)
    catalog = tiltyard.connect(root)

    def run(**options: bool) -> Counter[str]:
        rows = migrate(catalog, spark, **options).collect()
        assert len({row.location for row in rows}) == len(rows) == 8
        return Counter(row.action for row in rows)

    assert run(dry_run=True) == {"added": 5, "lifted": 1, "skipped": 2}
    assert run() == {"added": 5, "lifted": 1, "skipped": 2}
    assert run()["added"] == run()["lifted"] == 0

    rows = tiltyard.connect(root, dir_listing_enabled=False)
    assert rows.context.catalog.list_all_tables() == [f"t{number}" for number in range(5)]
