"""Large files through streams: on a disk and in buckets they read and write the same."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kit.servers import Server
from tiltyard.errors import TiltyardError
from tiltyard.job_options import SourceOptions
from tiltyard.settings import Settings
from tiltyard.spark.jobs.records import Records
from tiltyard.spark.jobs.sources import find
from tiltyard.store.streams import open_streams

PLACES = [
    "local",
    pytest.param("ministack", marks=pytest.mark.servers),
    pytest.param("azurite", marks=pytest.mark.servers),
]


@pytest.fixture(params=PLACES)
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    if request.param == "local":
        return Settings(str(tmp_path))
    server: Server = request.getfixturevalue(request.param)
    return Settings(server.new_root(), storage=server.storage_options())


def test_what_is_written_piece_by_piece_is_read_from_any_place(settings: Settings) -> None:
    streams = open_streams(settings)
    body = os.urandom(12 * 1024 * 1024)
    with streams.writer("a/b.bin") as file:
        for start in range(0, len(body), 1_000_003):
            file.write(body[start : start + 1_000_003])

    with streams.reader("a/b.bin") as file:
        assert file.read() == body
        assert file.seek(-5, os.SEEK_END) == len(body) - 5
        assert file.read(100) == body[-5:]
        assert file.seek(1000) == 1000
        assert file.read(10) == body[1000:1010]
    with pytest.raises((TiltyardError, FileNotFoundError)):
        streams.reader("a/missing").read()


def test_source_files_are_found_and_read_there(settings: Settings) -> None:
    streams = open_streams(settings)
    rows = pa.table({"id": pa.array(range(1000), pa.int64())})
    for number in range(2):
        with streams.writer(f"in/2026/{number}.parquet") as file:
            pq.write_table(rows, file)
    with streams.writer("in/2026/2.csv.gz") as raw, pa.CompressedOutputStream(raw, "gzip") as file:
        file.write(b"id\n7\nx\n")

    files = find(f"{settings.root}/in/*/*", settings.storage)
    every = [Records(each, settings.storage, rows.schema, SourceOptions()) for each in files]
    counts = [sum(batch.num_rows for batch in each.batches()) for each in every]

    assert [each.path.removeprefix(f"{settings.root}/in/2026/") for each in files] == [
        "0.parquet",
        "1.parquet",
        "2.csv.gz",
    ]
    assert counts == [1000, 1000, 1]
    assert [len(each.rejects) for each in every] == [0, 0, 1]
    assert len({each.identity for each in files}) == 3
    single = find(f"{settings.root}/in/2026/1.parquet", settings.storage)
    assert [each.path for each in single] == [files[1].path]
    assert find(f"{settings.root}/in", settings.storage)[1].identity.size == files[1].size
