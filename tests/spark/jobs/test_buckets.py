"""Every job on a catalog in a bucket, where executors bring credentials and deletes go in bulk."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import tiltyard
from tests.behaviours.calls import create, drop, write_lance
from tests.behaviours.places import Bucket
from tests.kit.buckets import S3Server
from tests.kit.catalogs import to_change
from tests.spark.jobs.mixed_catalog import rows
from tiltyard import DirectoryNamespace
from tiltyard.spark import jobs

pytestmark = pytest.mark.slow

TABLES = ("a", "b", "c")
LATEST: dict[str, Any] = {
    "keep_versions": 1,
    "min_age": 0,
    "allow_young": True,
    "allow_below_recovery_floor": True,
}


@pytest.fixture
def place(ministack: S3Server) -> Bucket:
    return Bucket(ministack, ministack.new_root())


@pytest.fixture
def catalog(place: Bucket) -> DirectoryNamespace:
    """Tables of four files each."""
    opened = _connect(place)
    for name in TABLES:
        create(opened, name, data=rows(0))
        dataset = to_change(opened, name)
        for number in range(1, 4):
            dataset.insert(rows(10 * number))
    return opened


def _connect(place: Bucket, **properties: Any) -> DirectoryNamespace:
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    return tiltyard.connect(place.root, **properties, **storage)


def _has_all_rows(catalog: DirectoryNamespace) -> bool:
    ids = [sorted(catalog.open_table([name]).to_table()["id"].to_pylist()) for name in TABLES]
    return ids == [list(range(40))] * len(TABLES)


def test_tables_are_optimized_indexed_and_cleaned_up(
    spark: SparkSession, place: Bucket, catalog: DirectoryNamespace
) -> None:
    optimized = jobs.optimize(catalog, spark).collect()
    assert {row.table: row.rewritten_fragments_count for row in optimized} == dict.fromkeys(
        TABLES, 4
    )
    built = jobs.build_index(
        catalog, spark, tables=TABLES, column="id", index_type="BTREE"
    ).collect()
    assert [(row.table, row.committed, row.error) for row in built] == [
        (name, True, None) for name in TABLES
    ]
    before = set(place.files())
    cleaned = jobs.cleanup(catalog, spark, **LATEST).collect()
    assert {row.error for row in cleaned} == {None}
    gone = {path for path in before - set(place.files()) if "/data/" in path}
    assert len(gone) == 4 * len(TABLES)
    assert jobs.cleanup(catalog, spark, **LATEST).where("deleted_files_count > 0").count() == 0
    assert _has_all_rows(catalog)


def test_what_was_dropped_is_purged(
    spark: SparkSession, place: Bucket, catalog: DirectoryNamespace
) -> None:
    location = catalog.context.catalog.find(("b",)).location
    drop(catalog, "b", ttl=0)
    (row,) = jobs.purge(catalog, spark).collect()
    assert (row.table, row.outcome) == ("b", "purged")
    assert [path for path in place.files() if path.startswith(f"{location}/data/")] == []
    assert any(path.startswith("__audit/purge-") for path in place.files())
    assert jobs.purge(catalog, spark).collect() == []


def test_tables_are_counted_and_orphans_go(
    spark: SparkSession, place: Bucket, catalog: DirectoryNamespace
) -> None:
    location = catalog.context.catalog.find(("a",)).location
    place.write(f"{location}/data/stray.lance", b"bytes")
    counted = {row.table: row for row in jobs.inventory(catalog, spark).collect()}
    assert {name: row.rows for name, row in counted.items()} == dict.fromkeys(TABLES, 40)
    orphans = jobs.orphans(catalog, spark, older_than=0, even_if_young=True).collect()
    inside = [row for row in orphans if row.location is not None]
    assert [(row.path, row.action) for row in inside] == [
        (f"{location}/data/stray.lance", "removed")
    ]
    assert f"{location}/data/stray.lance" not in place.files()
    assert _has_all_rows(catalog)


def test_files_are_loaded_once_and_tables_written_out(
    spark: SparkSession, ministack: S3Server, catalog: DirectoryNamespace
) -> None:
    elsewhere = Bucket(ministack, ministack.new_root())
    body = pa.BufferOutputStream()
    pq.write_table(rows(40), body)
    elsewhere.write("inbox/more.parquet", body.getvalue().to_pybytes())
    for expected in ("loaded", "present"):
        (row,) = jobs.ingest(catalog, {"a": f"{elsewhere.root}/inbox"}, spark).collect()
        assert (row.action, row.error) == (expected, None)
    assert catalog.open_table(["a"]).count_rows() == 50
    exported = jobs.export(
        catalog, f"{elsewhere.root}/exported", spark, tables=["a", "b"]
    ).collect()
    assert {row.table: (row.action, row.rows) for row in exported} == {
        "a": ("exported", 50),
        "b": ("exported", 40),
    }
    written = [path for path in elsewhere.files() if path.startswith("exported/a/")]
    assert any(path.endswith(".parquet") for path in written)


def test_directories_get_rows(spark: SparkSession, place: Bucket) -> None:
    for name in TABLES:
        write_lance(place, f"{name}.lance", rows(0))
    catalog = _connect(place)
    for expected in ("added", "present"):
        done = jobs.migrate(catalog, spark).collect()
        assert {row.table: row.action for row in done} == dict.fromkeys(TABLES, expected)
    assert _connect(place, dir_listing_enabled=False).context.catalog.list_all_tables() == list(
        TABLES
    )


def test_a_round_leaves_nothing_to_do_for_another(
    spark: SparkSession, catalog: DirectoryNamespace
) -> None:
    policy = {
        "defaults": {
            "cleanup": {"keep_versions": 3, "min_age": 0, "allow_young": True},
            "indexes": [{"column": "id", "type": "BTREE"}],
        }
    }
    first = {row.step: row for row in jobs.maintain(catalog, spark, policy=policy).collect()}
    again = jobs.maintain(catalog, spark, policy=policy).collect()
    assert {step for step, row in first.items() if row.failed} == set()
    assert (first["optimize"].changed, first["index"].changed) == (3, 3)
    assert {row.step: row.changed for row in again} == dict.fromkeys(first, 0)
    assert _has_all_rows(catalog)
