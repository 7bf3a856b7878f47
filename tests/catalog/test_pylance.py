"""What tiltyard relies on in pylance, said as tests of pylance itself. One that fails after an
upgrade names the assumption that no longer holds."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import lance
import obstore
import pyarrow as pa
import pytest
from lance.fragment import FragmentMetadata, write_fragments

from tests.kit.buckets import S3Server

THREADS = 8


def _rows(number: int) -> pa.Table:
    return pa.table({"n": [number]})


def _stage(uri: str, data: pa.Table) -> list[FragmentMetadata]:
    fragments: list[FragmentMetadata] = write_fragments(data, uri, mode="overwrite")
    return fragments


def _overwrite(uri: str, data: pa.Table, read_version: int) -> lance.Transaction:
    operation = lance.LanceOperation.Overwrite(data.schema, _stage(uri, data))
    return lance.Transaction(read_version, operation)


def _commit(uri: str, transaction: lance.Transaction, max_retries: int = 0) -> lance.LanceDataset:
    return lance.LanceDataset.commit(uri, transaction, max_retries=max_retries)


def _changed_meanwhile(uri: str, how: str) -> None:
    match how:
        case "append" | "overwrite":
            lance.write_dataset(_rows(2), uri, mode=how)
        case "delete":
            lance.dataset(uri).delete("n = 1")


@pytest.mark.parametrize("how", ["append", "delete", "overwrite"])
def test_a_commit_without_retries_is_a_compare_and_swap(tmp_path: Path, how: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(_rows(1), uri)
    stale = _overwrite(uri, _rows(3), read_version=1)
    _changed_meanwhile(uri, how)

    with pytest.raises(OSError, match="conflict"):
        _commit(uri, stale)

    assert lance.dataset(uri).version == 2
    assert 3 not in lance.dataset(uri).to_table()["n"].to_pylist()


@pytest.mark.parametrize("how", ["append", "delete"])
def test_a_stale_overwrite_with_retries_silently_wins(tmp_path: Path, how: str) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(_rows(1), uri)
    stale = _overwrite(uri, _rows(3), read_version=1)
    _changed_meanwhile(uri, how)

    landed = _commit(uri, stale, max_retries=20)

    assert landed.version == 3, "this is why every commit of ours goes without retries"
    assert lance.dataset(uri).to_table() == _rows(3)


def test_racing_commits_of_the_first_version_have_one_winner(tmp_path: Path) -> None:
    for attempt in range(10):
        uri = str(tmp_path / f"{attempt}.lance")
        ready = threading.Barrier(THREADS)

        def race(number: int, uri: str = uri, ready: threading.Barrier = ready) -> bool:
            transaction = _overwrite(uri, _rows(number), read_version=0)
            ready.wait(timeout=300)
            try:
                _commit(uri, transaction)
            except OSError:
                return False
            return True

        with ThreadPoolExecutor(THREADS) as pool:
            won = list(pool.map(race, range(THREADS)))

        assert won.count(True) == 1
        latest = lance.dataset(uri)
        assert (latest.version, latest.to_table()) == (1, _rows(won.index(True)))


def test_a_version_names_the_transaction_that_made_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    lance.write_dataset(_rows(1), uri)
    transaction = _overwrite(uri, _rows(2), read_version=1)

    _commit(uri, transaction)

    landed = lance.dataset(uri).read_transaction(2)
    assert landed is not None
    assert (landed.uuid, landed.read_version) == (transaction.uuid, 1)


def test_staged_files_have_random_names_and_belong_to_no_version(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")

    staged = [_stage(uri, _rows(1)) for _ in range(20)]

    files = [file.path for fragments in staged for fragment in fragments for file in fragment.files]
    assert len(set(files)) == 20
    assert all(re.fullmatch(r"[0-9a-f-]{36,}\.lance", file) for file in files)
    assert sorted(files) == sorted(path.name for path in (tmp_path / "t.lance/data").iterdir())
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(uri)


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "x#y?z", "[*]{}|^~", "é😀", "'\""])
def test_a_path_is_taken_as_it_is_and_a_file_uri_decoded_once(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.lance"

    lance.write_dataset(_rows(1), str(path))

    assert [child.name for child in tmp_path.iterdir()] == [path.name]
    assert lance.dataset(f"file://{quote(str(path))}").to_table() == _rows(1)


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "x#y?z", "[*]{}|^~", "é😀", "'\""])
def test_an_s3_uri_is_decoded_once(ministack: S3Server, name: str) -> None:
    root = ministack.new_root()
    prefix = root.removeprefix(f"s3://{ministack.bucket}/")

    lance.write_dataset(
        _rows(1), f"{root}/{quote(name)}", storage_options=ministack.storage_options()
    )

    inside = obstore.list_with_delimiter(ministack.store(), prefix)
    assert inside["common_prefixes"] == [f"{prefix}/{name}"]
