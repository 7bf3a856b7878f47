"""Real processes append to one table through pylance while another deletes its old versions as
fast as it may; some writers are stopped for a while and go on. What was acknowledged is there."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.places import Bucket, Disk, Place
from tests.behaviours.processes import context

ROWS = pa.schema([("writer", pa.int64()), ("turn", pa.int64())])
SECONDS_TO_END = 300
STOPPED_SECONDS = 1.0
# How many newer versions a version has to have before the collector takes it. Who is stopped is
# overtaken by far more.
KEPT_PER_WRITER = 2


@dataclass(frozen=True)
class Turn:
    """What became of one append: acknowledged, refused, or neither is known."""

    writer: int
    turn: int
    error: str | None


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "disk":
        return Disk(str(tmp_path / "root"))
    server = request.getfixturevalue("ministack")
    return Bucket(server, server.new_root())


def properties(place: Place) -> dict[str, str]:
    return {
        "root": place.root,
        "table_version_tracking_enabled": "true",
        "vend_input_storage_options": "true",
        **{f"storage.{name}": value for name, value in place.storage_options.items()},
    }


@pytest.mark.parametrize(
    ("writers", "turns"), [(4, 5), pytest.param(8, 40, marks=pytest.mark.slow)], ids=str
)
def test_every_acknowledged_row_is_there(place: Place, writers: int, turns: int) -> None:
    catalog = tiltyard.DirectoryNamespace(**properties(place))
    lance.write_dataset(ROWS.empty_table(), namespace_client=catalog, table_id=["t"])

    with running(collect, properties(place), KEPT_PER_WRITER * writers) as collector:
        done = list(appended(properties(place), writers, turns))
        collector.send(None)
        deleted = collector.recv()

    found = Counter(
        (row["writer"], row["turn"])
        for row in lance.dataset(namespace_client=catalog, table_id=["t"]).to_table().to_pylist()
    )
    acknowledged = {(row.writer, row.turn) for row in done if row.error is None}
    in_doubt = {(row.writer, row.turn) for row in done if row.error and "unknown" in row.error}
    assert acknowledged <= set(found)
    assert set(found) <= acknowledged | in_doubt
    assert set(found.values()) == {1}, "no row came twice"
    assert len(acknowledged) >= len(done) // 2, [row.error for row in done if row.error]
    assert deleted, "the collector had something to do"


def appended(opened: Mapping[str, str], writers: int, turns: int) -> Iterator[Turn]:
    """Every writer's turns; each writer is stopped once, in the middle of whatever it does."""
    ours: list[tuple[BaseProcess, Connection]] = []
    for writer in range(writers):
        near, far = context().Pipe()
        process = context().Process(target=append, args=(far, opened, writer, turns), daemon=True)
        process.start()
        far.close()
        ours.append((process, near))
    for process, near in ours[::2]:
        near.recv()  # it has begun
        assert process.pid is not None
        with suppress(ProcessLookupError):  # it may be done already
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)
            os.kill(process.pid, signal.SIGCONT)
    for process, near in ours:
        while True:
            assert near.poll(SECONDS_TO_END), "a writer hangs"
            message = near.recv()
            if message is None:
                break
            if isinstance(message, Turn):
                yield message
        process.join()


def append(answers: Connection, opened: Mapping[str, str], writer: int, turns: int) -> None:
    catalog = tiltyard.DirectoryNamespace(**opened)
    answers.send("begun")
    for turn in range(turns):
        rows = pa.table({"writer": [writer], "turn": [turn]}, schema=ROWS)
        try:
            lance.write_dataset(rows, namespace_client=catalog, table_id=["t"], mode="append")
            answers.send(Turn(writer, turn, None))
        except OSError as error:
            answers.send(Turn(writer, turn, str(error)))
    answers.send(None)


@contextmanager
def running(work: Callable[..., None], *given: object) -> Iterator[Connection]:
    near, far = context().Pipe()
    process = context().Process(target=work, args=(far, *given), daemon=True)
    process.start()
    far.close()
    try:
        yield near
    finally:
        process.kill()
        process.join()


def collect(orders: Connection, opened: Mapping[str, str], keep: int) -> None:
    """Delete all but the newest versions, again and again, until told to stop."""
    catalog = tiltyard.DirectoryNamespace(**opened)
    deleted = 0
    while not orders.poll(0.05):
        found = catalog.list_table_versions(api.ListTableVersionsRequest(id=["t"])).versions
        old = [version.version for version in found][:-keep]
        if old:
            request = api.BatchDeleteTableVersionsRequest(
                id=["t"],
                ranges=[VersionRange(start_version=old[0], end_version=old[-1] + 1)],
            )
            deleted += catalog.batch_delete_table_versions(request).deleted_count or 0
    orders.recv()
    orders.send(deleted)
