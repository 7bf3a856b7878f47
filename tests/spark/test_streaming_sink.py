"""A stream into a table: what is committed, once, whoever replays it."""

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
from tests.spark.streams import numbers
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.namespace.writes import Writes
from tiltyard.spark.options import Options
from tiltyard.spark.streaming import sink
from tiltyard.spark.streaming.sink import BATCH, QUERY, Message, StreamWriter
from tiltyard.spark.target import Target
from tiltyard.spark.types import to_spark_schema


class Query:
    """A query from one checkpoint, as its driver calls the sink: once to write, once to commit."""

    def __init__(self, root: Path, name: str = "q", **options: Any) -> None:
        self.id = name
        self.overwrites = bool(options.pop("overwrites", False))
        self.options = Options({"root": str(root), "path": "t", **options})

    def write(self, *ids: int) -> list[Message]:
        """What two tasks send."""
        writer = pickle.loads(pickle.dumps(self._writer()))
        return [writer.write(iter([numbers(each).to_batches()[0]])) for each in ids]

    def commit(self, messages: list[Message], batch: int) -> None:
        self._writer().commit(pickle.loads(pickle.dumps(messages)), batch)

    def abort(self, messages: list[Message], batch: int) -> None:
        self._writer().abort(pickle.loads(pickle.dumps(messages)), batch)

    def run(self, batch: int, *ids: int) -> None:
        self.commit(self.write(*ids), batch)

    def _writer(self) -> StreamWriter:
        schema = to_spark_schema(numbers(1).schema)
        return StreamWriter(Target.parse(self.options), schema, self.overwrites, self.options)


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    return tiltyard.connect(tmp_path)


@pytest.fixture
def query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Query]:
    monkeypatch.setattr(sink, "_query_of_this_task", lambda: "q")
    forget()
    yield Query(tmp_path)
    forget()


def forget() -> None:
    """A driver that was restarted remembers nothing."""
    sink._looked.clear()


def ids(catalog: DirectoryNamespace) -> list[int]:
    return sorted(catalog.open_table(["t"]).to_table().column("id").to_pylist())


def versions(catalog: DirectoryNamespace) -> int:
    return int(catalog.open_table(["t"]).version)


def data_files(catalog: DirectoryNamespace, root: Path) -> tuple[int, int]:
    """How many data files there are, and how many the table has."""
    dataset = catalog.open_table(["t"])
    owned = sum(len(each.data_files()) for each in dataset.get_fragments())
    return len(list((root / "t.lance" / "data").iterdir())), owned


def test_a_batch_is_one_commit_that_says_whose_it_is(
    catalog: DirectoryNamespace, query: Query
) -> None:
    create(catalog, "t", data=numbers(1))
    query.run(0, 2, 3)

    dataset = catalog.open_table(["t"])
    properties = dataset.read_transaction(2).transaction_properties
    assert (ids(catalog), dataset.version) == ([1, 2, 3], 2)
    assert (properties[QUERY], properties[BATCH]) == ("q", "0")


@pytest.mark.parametrize("restarted", [False, True])
def test_a_batch_that_is_replayed_commits_nothing_and_leaves_nothing(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path, restarted: bool
) -> None:
    create(catalog, "t", data=numbers(1))
    query.run(0, 2)
    query.run(1, 3)
    if restarted:
        forget()
    query.run(1, 3)
    query.run(0, 2)

    assert (ids(catalog), versions(catalog)) == ([1, 2, 3], 3)
    assert data_files(catalog, tmp_path) == (3, 3)


def test_a_batch_that_created_the_table_is_found_there(
    catalog: DirectoryNamespace, query: Query
) -> None:
    query.run(0, 1, 2)
    forget()
    query.run(0, 1, 2)
    query.run(1, 3)

    assert ids(catalog) == [1, 2, 3]


def test_a_batch_is_found_behind_the_commits_of_others(
    catalog: DirectoryNamespace, query: Query
) -> None:
    create(catalog, "t", data=numbers(1))
    query.run(0, 2)
    for each in range(10, 20):
        lance.write_dataset(numbers(each), catalog.open_table(["t"]), mode="append")
    dataset = catalog.open_table(["t"])
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    forget()
    query.run(0, 2)
    query.run(1, 3)

    assert ids(catalog) == [1, 2, 3, *range(10, 20)]


def test_queries_do_not_take_each_others_batches_for_theirs(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query.run(0, 1)
    query.run(1, 2)
    monkeypatch.setattr(sink, "_query_of_this_task", lambda: "another")
    Query(tmp_path).run(0, 3)

    assert ids(catalog) == [1, 2, 3]


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
    catalog: DirectoryNamespace, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has looked and found nothing; then its successor commits the batch, and it goes on."""
    create(catalog, "t", data=numbers(1))
    successor = Query(tmp_path)

    def take_over() -> None:
        forget()
        successor.run(0, 2, 3)
        forget()

    stalled_before_the_commit(monkeypatch, take_over)
    query.run(0, 2, 3)

    assert (ids(catalog), versions(catalog)) == ([1, 2, 3], 2)
    assert data_files(catalog, tmp_path) == (3, 3)


def test_a_driver_that_was_thought_dead_does_not_create_the_table_again(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    successor = Query(tmp_path)
    stalled_before_the_commit(monkeypatch, lambda: successor.run(0, 1))
    with pytest.raises(ConcurrentModificationError):
        query.run(0, 1)
    query.run(0, 1)

    assert ids(catalog) == [1]


@pytest.mark.parametrize("other", ["append", "delete", "compaction", "index"])
def test_a_commit_that_others_preceded_is_made_after_another_look(
    catalog: DirectoryNamespace, query: Query, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    create(catalog, "t", data=numbers(1, 2))
    lance.write_dataset(numbers(3), catalog.open_table(["t"]), mode="append")

    def meanwhile() -> None:
        dataset = catalog.open_table(["t"])
        if other == "append":
            lance.write_dataset(numbers(4), dataset, mode="append")
        elif other == "delete":
            dataset.delete("id = 1")
        elif other == "compaction":
            dataset.optimize.compact_files()
        else:
            dataset.create_scalar_index("id", "BTREE")

    stalled_before_the_commit(monkeypatch, meanwhile)
    query.run(0, 9)
    expected = {"append": [1, 2, 3, 4, 9], "delete": [2, 3, 9]}.get(other, [1, 2, 3, 9])

    assert ids(catalog) == expected
    if other == "index":
        assert [each.name for each in catalog.open_table(["t"]).describe_indices()] == ["id_idx"]


def test_a_complete_result_that_others_preceded_replaces_theirs_too(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = Query(tmp_path, overwrites=True)
    complete.run(0, 1, 2)
    stalled_before_the_commit(
        monkeypatch,
        lambda: lance.write_dataset(numbers(5), catalog.open_table(["t"]), mode="append"),
    )
    complete.run(1, 3)

    assert (ids(catalog), versions(catalog)) == ([3], 3)


def test_no_version_is_looked_at_twice(
    catalog: DirectoryNamespace, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(catalog, "t", data=numbers(1))
    for each in range(40):
        catalog.open_table(["t"]).update_config({"key": str(each)})
    seen: list[int] = []
    look = lance.LanceDataset.read_transaction

    def counted(self: lance.LanceDataset, version: int) -> Any:
        seen.append(version)
        return look(self, version)

    query.run(0, 2)
    monkeypatch.setattr(lance.LanceDataset, "read_transaction", counted)
    for batch in range(1, 5):
        query.run(batch, 10 + batch)
    lance.write_dataset(numbers(99), catalog.open_table(["t"]), mode="append")
    query.run(5, 3)

    assert len(seen) == len(set(seen)) <= 1, seen


def test_an_aborted_batch_leaves_no_row_and_no_file(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path
) -> None:
    create(catalog, "t", data=numbers(1))
    written = query.write(2, 3)
    query.abort([*written, None], 0)  # type: ignore[list-item]

    assert (ids(catalog), versions(catalog)) == ([1], 1)
    assert data_files(catalog, tmp_path) == (1, 1)


def test_an_abort_after_the_commit_takes_nothing_back(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path
) -> None:
    """Spark aborts too when a commit raised that had landed."""
    create(catalog, "t", data=numbers(1))
    written = query.write(2, 3)
    query.commit(written, 0)
    query.abort(written, 0)

    assert ids(catalog) == [1, 2, 3]
    assert data_files(catalog, tmp_path) == (3, 3)


def test_a_complete_result_replaces_the_one_before_once(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path
) -> None:
    complete = Query(tmp_path, overwrites=True)
    complete.run(0, 1, 2)
    complete.run(1, 3)
    forget()
    complete.run(1, 3)

    assert (ids(catalog), versions(catalog)) == ([3], 2)


def test_an_empty_batch_commits_nothing(catalog: DirectoryNamespace, query: Query) -> None:
    create(catalog, "t", data=numbers(1))
    nothing = query._writer().write(iter([]))
    query.commit([nothing], 0)

    assert versions(catalog) == 1


def test_a_plain_path_gets_each_batch_once_too(query: Query, tmp_path: Path) -> None:
    path = tmp_path / "plain.lance"
    query.options = Options({"path": str(path)})
    for _ in range(2):
        query.run(0, 1)
        query.run(1, 2, 3)
        forget()

    assert sorted(lance.dataset(path).to_table().column("id").to_pylist()) == [1, 2, 3]


def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    catalog: DirectoryNamespace, query: Query, tmp_path: Path
) -> None:
    create(catalog, "t", data=pa.table({"id": pa.array(["text"])}))
    with pytest.raises(tiltyard.TiltyardError, match="column"):
        query.write(1)

    assert data_files(catalog, tmp_path) == (1, 1)


def test_a_task_that_belongs_to_no_query_is_refused(catalog: DirectoryNamespace) -> None:
    with pytest.raises(InvalidInputError, match="which query"):
        sink._query_of_this_task()


def test_options_of_a_single_write_are_refused(query: Query, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="if_exists"):
        Query(tmp_path, if_exists="ignore").run(0, 1)
