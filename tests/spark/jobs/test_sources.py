"""Which files a path, a folder or a pattern means, and how each is known."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.spark.jobs.sources import Format, find


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.parquet", "b.csv.gz", "2026/01/c.jsonl", "2026/02/d.jsonl", "_SUCCESS", ".x"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("", ["2026/01/c.jsonl", "2026/02/d.jsonl", "a.parquet", "b.csv.gz"]),
        ("/", ["2026/01/c.jsonl", "2026/02/d.jsonl", "a.parquet", "b.csv.gz"]),
        ("/a.parquet", ["a.parquet"]),
        ("/*", ["a.parquet", "b.csv.gz"]),
        ("/*.jsonl", []),
        ("/2026/*/*.jsonl", ["2026/01/c.jsonl", "2026/02/d.jsonl"]),
        ("/**/*.jsonl", ["2026/01/c.jsonl", "2026/02/d.jsonl"]),
        ("/2026/0[2-9]/*", ["2026/02/d.jsonl"]),
        ("/?.parquet", ["a.parquet"]),
    ],
)
def test_what_a_path_means(folder: Path, pattern: str, expected: list[str]) -> None:
    if not expected:
        with pytest.raises(InvalidInputError, match="there is no file"):
            find(f"{folder}{pattern}", {})
        return
    assert [file.path for file in find(f"{folder}{pattern}", {})] == [
        f"{folder}/{name}" for name in expected
    ]


def test_a_file_named_twice_is_found_once_and_a_uri_is_a_path(folder: Path) -> None:
    files = find([f"{folder}/*.parquet", f"file://{folder}/a.parquet"], {})

    assert [file.path for file in files] == [f"{folder}/a.parquet"]
    assert files[0].format is Format.PARQUET


def test_a_file_that_was_replaced_is_another(folder: Path) -> None:
    (before,) = find(f"{folder}/a.parquet", {})
    os.utime(folder / "a.parquet", (1, 1))
    (after,) = find(f"{folder}/a.parquet", {})

    assert before.identity != after.identity
    with pytest.raises(InvalidInputError, match="changed while it was read"):
        before.must_be_unchanged({})


def test_a_format_that_nothing_tells_has_to_be_given(folder: Path) -> None:
    (folder / "a.dat").write_bytes(b"1")

    with pytest.raises(InvalidInputError, match="nothing tells the format"):
        find(str(folder), {})
    assert find(f"{folder}/a.dat", {}, Format.CSV)[0].format is Format.CSV
