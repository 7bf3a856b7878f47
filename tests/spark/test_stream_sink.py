"""A stream into a table: a batch is committed once, however often it is replayed."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create
from tests.spark.lake import data_files, owned_files
from tests.spark.streams import numbers
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.namespace.writes import Writes
from tiltyard.spark import stream_sink
from tiltyard.spark.options import StreamWriteOptions
from tiltyard.spark.stream_sink import BATCH, QUERY, StreamMessage, StreamWriter
from tiltyard.spark.types import to_spark_schema


class Query:
    """A query from one checkpoint, as its driver calls the sink: once to write, once to commit."""

    def __init__(self, *, overwrites: bool = False, **options: Any) -> None:
        self._overwrites = overwrites
        self._options = StreamWriteOptions.parse(options)

    def write(self, *ids: int) -> list[StreamMessage]:
        """What tasks send, of one row each; a single one without rows, if there are none."""
        writer = pickle.loads(pickle.dumps(self._writer()))
        tasks = [numbers(number).to_batches() for number in ids] or [[]]
        return [writer.write(iter(batches)) for batches in tasks]

    def commit(self, messages: list[StreamMessage], batch: int) -> None:
        self._writer().commit(pickle.loads(pickle.dumps(messages)), batch)

    def abort(self, messages: list[StreamMessage], batch: int) -> None:
        self._writer().abort(pickle.loads(pickle.dumps(messages)), batch)

    def run(self, batch: int, *ids: int) -> None:
        self.commit(self.write(*ids), batch)

    def _writer(self) -> StreamWriter:
        schema = to_spark_schema(numbers(1).schema)
        return StreamWriter(self._options, schema, self._overwrites)


class Sink:
    """The table `t`, that queries write."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog = tiltyard.connect(root)

    def create(self, data: pa.Table | None = None) -> None:
        create(self.catalog, "t", data=numbers(1) if data is None else data)

    def open(self) -> lance.LanceDataset:
        return self.catalog.open_table(["t"])

    def append(self, *ids: int) -> None:
        lance.write_dataset(numbers(*ids), self.open(), mode="append")

    def ids(self) -> list[int]:
        return sorted(self.open().to_table().column("id").to_pylist())

    def has_no_other_files(self) -> bool:
        """Whether every data file in the directory is one of the table's."""
        return data_files(self.root, "t") == owned_files(self.open())

    def query(self, **options: Any) -> Query:
        return Query(root=self.root, path="t", **options)


@pytest.fixture
def sink(tmp_path: Path) -> Sink:
    return Sink(tmp_path)


@pytest.fixture
def query(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    monkeypatch.setattr(stream_sink, "query_of_task", lambda: "q")
    forget()
    yield sink.query()
    forget()


def forget() -> None:
    """A driver that was restarted remembers nothing."""
    stream_sink.searched.clear()


def test_a_batch_is_one_commit_that_says_whose_it_is(sink: Sink, query: Query) -> None:
    sink.create()
    query.run(0, 2, 3)

    dataset = sink.open()
    properties = dataset.read_transaction(2).transaction_properties
    assert (sink.ids(), dataset.version) == ([1, 2, 3], 2)
    assert (properties[QUERY], properties[BATCH]) == ("q", "0")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_that_is_replayed_commits_nothing_and_leaves_nothing(
    sink: Sink, query: Query, restarted: bool
) -> None:
    sink.create()
    query.run(0, 2)
    query.run(1, 3)
    if restarted:
        forget()
    query.run(1, 3)
    query.run(0, 2)

    assert (sink.ids(), sink.open().version) == ([1, 2, 3], 3)
    assert sink.has_no_other_files()


def test_a_batch_that_created_the_table_is_found_there(sink: Sink, query: Query) -> None:
    query.run(0, 1, 2)
    forget()
    query.run(0, 1, 2)
    query.run(1, 3)

    assert sink.ids() == [1, 2, 3]


def test_a_batch_is_found_behind_the_commits_of_others(sink: Sink, query: Query) -> None:
    sink.create()
    query.run(0, 2)
    for number in range(10, 20):
        sink.append(number)
    dataset = sink.open()
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    forget()
    query.run(0, 2)
    query.run(1, 3)

    assert sink.ids() == [1, 2, 3, *range(10, 20)]


def test_queries_do_not_take_each_others_batches_for_theirs(
    sink: Sink, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0, 1)
    query.run(1, 2)
    monkeypatch.setattr(stream_sink, "query_of_task", lambda: "another")
    sink.query().run(0, 3)

    assert sink.ids() == [1, 2, 3]


def stalled_before_the_commit(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> None:
    """Let something happen between the look for a batch and its commit, once."""
    finish = Writes.finish
    pending = [meanwhile]

    def late(self: Writes, *given: Any, **named: Any) -> Any:
        if pending:
            pending.pop()()
        return finish(self, *given, **named)

    monkeypatch.setattr(Writes, "finish", late)


def test_a_driver_that_was_thought_dead_does_not_commit_a_batch_again(
    sink: Sink, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked and found nothing; then its successor commits the batch, and it goes on."""
    sink.create()
    successor = sink.query()

    def take_over() -> None:
        forget()
        successor.run(0, 2, 3)
        forget()

    stalled_before_the_commit(monkeypatch, take_over)
    query.run(0, 2, 3)

    assert (sink.ids(), sink.open().version) == ([1, 2, 3], 2)
    assert sink.has_no_other_files()


def test_a_driver_that_was_thought_dead_does_not_create_the_table_again(
    sink: Sink, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    successor = sink.query()
    stalled_before_the_commit(monkeypatch, lambda: successor.run(0, 1))
    with pytest.raises(ConcurrentModificationError):
        query.run(0, 1)
    query.run(0, 1)

    assert sink.ids() == [1]


@pytest.mark.parametrize("other", ["append", "delete", "compaction", "index"])
def test_a_commit_that_others_preceded_is_made_after_another_look(
    sink: Sink, query: Query, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    sink.create(numbers(1, 2))
    sink.append(3)

    def meanwhile() -> None:
        {
            "append": lambda: sink.append(4),
            "delete": lambda: sink.open().delete("id = 1"),
            "compaction": lambda: sink.open().optimize.compact_files(),
            "index": lambda: sink.open().create_scalar_index("id", "BTREE"),
        }[other]()

    stalled_before_the_commit(monkeypatch, meanwhile)
    query.run(0, 9)
    expected = {"append": [1, 2, 3, 4, 9], "delete": [2, 3, 9]}.get(other, [1, 2, 3, 9])

    assert sink.ids() == expected
    if other == "index":
        assert [index.name for index in sink.open().describe_indices()] == ["id_idx"]


def test_a_complete_result_that_others_preceded_replaces_theirs_too(
    sink: Sink, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = sink.query(overwrites=True)
    complete.run(0, 1, 2)
    stalled_before_the_commit(monkeypatch, lambda: sink.append(5))
    complete.run(1, 3)

    assert (sink.ids(), sink.open().version) == ([3], 3)


def test_no_version_is_looked_at_twice(
    sink: Sink, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.create()
    for number in range(40):
        sink.open().update_config({"key": str(number)})
    seen: list[int] = []
    look = lance.LanceDataset.read_transaction

    def counted(self: lance.LanceDataset, version: int) -> Any:
        seen.append(version)
        return look(self, version)

    query.run(0, 2)
    monkeypatch.setattr(lance.LanceDataset, "read_transaction", counted)
    for batch in range(1, 5):
        query.run(batch, 10 + batch)
    sink.append(99)
    query.run(5, 3)

    assert len(seen) == len(set(seen)) <= 1, seen


def test_an_aborted_batch_leaves_no_row_and_no_file(sink: Sink, query: Query) -> None:
    sink.create()
    written = query.write(2, 3)
    query.abort([*written, None], 0)  # type: ignore[list-item]

    assert (sink.ids(), sink.open().version) == ([1], 1)
    assert sink.has_no_other_files()


def test_an_abort_after_the_commit_takes_nothing_back(sink: Sink, query: Query) -> None:
    """Spark aborts too when a commit raised that had landed."""
    sink.create()
    written = query.write(2, 3)
    query.commit(written, 0)
    query.abort(written, 0)

    assert sink.ids() == [1, 2, 3]
    assert sink.has_no_other_files()


def test_a_complete_result_replaces_the_one_before_once(sink: Sink, query: Query) -> None:
    complete = sink.query(overwrites=True)
    complete.run(0, 1, 2)
    complete.run(1, 3)
    forget()
    complete.run(1, 3)

    assert (sink.ids(), sink.open().version) == ([3], 2)


def test_an_empty_batch_commits_nothing(sink: Sink, query: Query) -> None:
    sink.create()
    query.run(0)

    assert sink.open().version == 1


@pytest.mark.usefixtures("query")
def test_a_plain_path_gets_each_batch_once_too(tmp_path: Path) -> None:
    path = tmp_path / "plain.lance"
    query = Query(path=path)
    for _ in range(2):
        query.run(0, 1)
        query.run(1, 2, 3)
        forget()

    assert sorted(lance.dataset(path).to_table().column("id").to_pylist()) == [1, 2, 3]


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    sink: Sink, query: Query
) -> None:
    sink.create(pa.table({"id": pa.array(["text"])}))
    with pytest.raises(tiltyard.TiltyardError, match="column"):
        query.write(1)

    assert sink.has_no_other_files()


def test_a_task_that_belongs_to_no_query_is_refused(sink: Sink) -> None:
    with pytest.raises(InvalidInputError, match="which query"):
        stream_sink.query_of_task()
