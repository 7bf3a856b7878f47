"""Orphans found by a join are those that the search in one process finds, and they go the same."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from tests.spark.lake import Lake
from tiltyard.errors import InvalidInputError
from tiltyard.spark.jobs import orphans

LONG_AGO = time.time() - 30 * 86400
PLANTED = (
    "data/0000stray.lance",
    "data/0000stray/1.blob",
    "_deletions/7-7-7.arrow",
    "_indices/00000000-0000-4000-8000-000000000000/page_data.lance",
    "_transactions/9-00000000-0000-4000-8000-000000000000.txn",
    "_versions/00000000000000000001.manifest-00000000-0000-4000-8000-000000000000",
    "data/half.lance#1",
)


def age(root: str | Path) -> None:
    for path in Path(root).rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


@pytest.fixture
def littered(lake: Lake) -> Lake:
    """Four tables, one of them broken, with indexes, deleted rows and a branch; strays in two."""
    for name in ("a", "b", "clean", "broken"):
        table = lake.put(name, {"id": list(range(20))}, files=4)
        table.delete("id = 3")
        table.create_scalar_index("id", "BTREE")
        table.optimize.compact_files()
    lake.open("a").create_branch("dev", 2)
    for table in ("a", "b"):
        for planted in PLANTED:
            path = Path(lake.root) / f"{table}.lance" / planted
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"bytes")
    versions = Path(lake.root) / "broken.lance" / "_versions"
    next(versions.glob("*.manifest")).write_bytes(b"?")
    (Path(lake.root) / "broken.lance" / "data" / "stray.lance").write_bytes(b"bytes")
    age(lake.root)
    return lake


def _run(lake: Lake, **options: Any) -> dict[str, str]:
    rows = orphans(lake.catalog, lake.spark, **options).collect()
    return {row.path: row.action for row in rows}


def test_it_finds_what_one_process_finds_and_removes_that(littered: Lake) -> None:
    lake = littered
    expected = {orphan.path for orphan in lake.catalog.health.find_orphans()}
    planted = {f"{table}.lance/{path}" for table in ("a", "b") for path in PLANTED}
    assert planted <= expected

    planned = _run(lake, dry_run=True)
    assert planned == {**dict.fromkeys(expected, "found"), "broken.lance": "failed"}

    removed = _run(lake)
    assert removed == {**dict.fromkeys(expected, "removed"), "broken.lance": "failed"}
    assert not [path for path in planted if (Path(lake.root) / path).exists()]
    assert (Path(lake.root) / "broken.lance/data/stray.lance").exists()
    assert lake.open("a").to_table().num_rows == 19
    assert _run(lake) == {"broken.lance": "failed"}


def test_a_table_with_too_many_names_for_a_process_is_joined(
    littered: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = {orphan.path for orphan in littered.catalog.health.find_orphans()}
    monkeypatch.setattr(sys.modules["tiltyard.spark.jobs.orphans"], "MOST_NAMES", 3)

    removed = _run(littered)

    assert removed == {**dict.fromkeys(expected, "removed"), "broken.lance": "failed"}
    assert littered.open("a").to_table().num_rows == 19


def test_young_files_are_left_alone_and_a_low_floor_has_to_be_meant(lake: Lake) -> None:
    lake.put("a", {"id": [1]})
    stray = Path(lake.root) / "a.lance/data/stray.lance"
    stray.write_bytes(b"bytes")

    assert _run(lake) == {}
    with pytest.raises(InvalidInputError, match="younger than seven days"):
        _run(lake, older_than="1h")
    assert _run(lake, older_than=0, even_if_young=True)["a.lance/data/stray.lance"] == "removed"
    assert not stray.exists()


def test_a_file_that_becomes_referenced_during_the_scan_survives(lake: Lake) -> None:
    lake.put("a", {"id": [1, 2]})
    home = Path(lake.root) / "a.lance"
    (fragment,) = lance.fragment.write_fragments(
        pa.table({"id": [3]}), lake.open("a"), mode="append"
    )
    late = str(fragment.files[0].path)
    (home / "data/stray.lance").write_bytes(b"bytes")
    age(lake.root)
    uri, text = lake.open("a").uri, fragment.to_json()
    files = [
        (str(path), path.stat().st_size, "2026-01-01 00:00:00")
        for path in home.rglob("*")
        if path.is_file()
    ]

    def commits_first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The listing comes after what versions refer to was read; the commit lands in between."""
        import json

        metadata = lance.FragmentMetadata.from_json(json.dumps(text))
        operation = lance.LanceOperation.Append([metadata])
        lance.LanceDataset.commit(uri, operation, read_version=lance.dataset(uri).version)
        yield from batches

    columns = "path string, size long, modified string"
    listing = lake.spark.createDataFrame(files, columns).coalesce(1)
    assert _run(lake, dry_run=True, inventory=listing) == {
        f"a.lance/data/{late}": "found",
        "a.lance/data/stray.lance": "found",
    }

    removed = _run(lake, inventory=listing.mapInArrow(commits_first, columns))

    assert removed == {"a.lance/data/stray.lance": "removed"}
    assert sorted(lake.open("a").to_table()["id"].to_pylist()) == [1, 2, 3]


def test_an_inventory_needs_its_columns(lake: Lake) -> None:
    with pytest.raises(InvalidInputError, match="'modified'"):
        _run(lake, inventory=lake.spark.createDataFrame([("a", 1)], "path string, size long"))


@pytest.mark.slow
def test_200_000_files_and_exactly_the_planted_ones(lake: Lake) -> None:
    """The driver's memory does not grow with the listing."""
    lake.put("t0", {"id": list(range(1000))}, files=1)
    home = Path(lake.root) / "t0.lance"
    lance.write_dataset(
        pa.table({"id": list(range(1000))}), home, mode="overwrite", max_rows_per_file=1
    )
    for number in range(1, 200):
        shutil.copytree(home, Path(lake.root) / f"t{number}.lance", copy_function=os.link)
    planted = set()
    for number in range(0, 200, 7):
        path = f"t{number}.lance/data/{number:04d}stray.lance"
        (Path(lake.root) / path).write_bytes(b"bytes")
        planted.add(path)
    age(lake.root)
    before = _peak_kb()

    planned_run = _run(lake, dry_run=True)

    assert sum(path.is_file() for path in Path(lake.root).rglob("*.lance")) > 200_000
    assert planned_run == dict.fromkeys(planted, "found")
    assert _peak_kb() - before < 100_000


def _peak_kb() -> int:
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1])
