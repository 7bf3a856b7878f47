"""Tables into files: at one version, whole or not at all, and never over another by accident."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.json
import pyarrow.parquet
import pytest

from tests.spark.lake import Lake
from tiltyard.errors import InvalidInputError
from tiltyard.spark.jobs import export, ingest

READERS: dict[str, Callable[[Path], pa.Table]] = {
    "parquet": lambda path: pa.parquet.read_table(path),
    "csv": lambda path: pa.csv.read_csv(path),
    "json": lambda path: pa.json.read_json(path),
    "arrow": lambda path: pa.dataset.dataset(path, format="ipc").to_table(),
}


def _export(lake: Lake, target: Path, **options: Any) -> dict[str, Any]:
    rows = export(lake.catalog, str(target), lake.spark, **options).collect()
    return {row.table: row for row in rows}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*"))


def test_every_format_holds_every_row_and_a_second_run_has_nothing_to_do(
    lake: Lake, tmp_path: Path
) -> None:
    lake.put("prod.t", {"id": list(range(10)), "text": list("abcdefghij")}, files=3)
    lake.put("empty", pa.table({"id": pa.array([], pa.int64())}))

    for format, read in READERS.items():
        target = tmp_path / format
        rows = _export(lake, target, format=format, rows_per_file=4)
        assert {name: row.action for name, row in rows.items()} == {
            "prod.t": "exported",
            "empty": "exported",
        }
        files = _files(target / "prod" / "t")
        assert len(files) == rows["prod.t"].files == 3
        ids = [number for file in files for number in read(file)["id"].to_pylist()]
        assert sorted(ids) == list(range(10))
    before = _files(tmp_path / "csv" / "prod" / "t")
    assert {r.action for r in _export(lake, tmp_path / "csv", format="csv").values()} == {"present"}
    assert _files(tmp_path / "csv" / "prod" / "t") == before

    ingest(lake.catalog, {"back": str(tmp_path / "parquet" / "prod")}, lake.spark)
    assert lake.open("back").to_table().sort_by("id") == lake.open("prod.t").to_table()


def test_a_pinned_version_and_what_is_there_stays_unless_it_may_go(
    lake: Lake, tmp_path: Path
) -> None:
    lake.put("t", {"id": [1, 2], "v": [[1.0, 2.0], [3.0, 4.0]]})
    lake.append("t", {"id": [3], "v": [[5.0, 6.0]]})
    target = tmp_path / "out"

    assert _export(lake, target, versions={"t": 1})["t"].rows == 2
    (first,) = _files(target / "t")
    refused = _export(lake, target)["t"]
    assert (refused.action, "another export" in refused.error) == ("failed", True)
    assert _files(target / "t") == [first]

    assert _export(lake, target, overwrite=True)["t"].rows == 3
    (second,) = _files(target / "t")
    assert second != first
    record = json.loads((target / "t" / "_SUCCESS").read_text())
    assert (record["version"], record["rows"]) == (2, 3)
    assert [file["name"] for file in record["files"]] == [second.name]

    failed = _export(lake, tmp_path / "csv", format="csv")["t"]
    assert (failed.action, "can't hold" in failed.error) == ("failed", True)
    assert not (tmp_path / "csv" / "t" / "_SUCCESS").exists()
    assert _files(tmp_path / "csv" / "t") == []


def test_what_a_run_left_that_broke_off_is_removed_by_the_next(lake: Lake, tmp_path: Path) -> None:
    lake.put("t", {"id": [1]})
    left = tmp_path / "out" / "t" / f"part-00000-{'0' * 32}-{'0' * 8}.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    (tmp_path / "other" / "t").mkdir(parents=True)
    (tmp_path / "other" / "t" / "mine.txt").write_text("mine")

    assert _export(lake, tmp_path / "out", dry_run=True)["t"].action == "planned"
    assert _export(lake, tmp_path / "out")["t"].action == "exported"
    assert not left.exists()
    assert "'mine.txt'" in _export(lake, tmp_path / "other")["t"].error
    with pytest.raises(InvalidInputError, match="own catalog"):
        _export(lake, Path(lake.root) / "out")
