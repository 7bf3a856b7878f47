"""A table as a stream: what arrives, in which batches, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create, drop, make_namespace
from tests.spark.streams import Stream, numbers
from tiltyard.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableSchemaValidationError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)


class Table:
    """A table `t` of a catalog, with the rows 1, 2 and 3 in its first version."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog = tiltyard.connect(root)
        create(self.catalog, "t", data=numbers(1, 2, 3))

    def open(self) -> lance.LanceDataset:
        return self.catalog.open_table(["t"])

    def append(self, *ids: int) -> None:
        lance.write_dataset(numbers(*ids), self.open(), mode="append")

    def upsert(self, *ids: int) -> None:
        new = numbers(*ids).set_column(1, "text", [["changed"] * len(ids)])
        merge = self.open().merge_insert("id").when_matched_update_all()
        merge.when_not_matched_insert_all().execute(new)

    def stream(self, **options: Any) -> Stream:
        return Stream(self.root, "t", **options)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "lake")


# -- where it starts


def test_a_stream_starts_with_the_rows_that_are_there_and_goes_on_with_new_ones(
    table: Table,
) -> None:
    table.append(4)
    table.open().delete("id = 2")
    stream = table.stream()

    assert sorted(stream.ids()) == [1, 3, 4]
    assert stream.batches() == []
    table.append(5, 6)
    table.append(7)
    assert stream.ids() == [5, 6, 7]


def test_a_stream_can_start_with_what_comes_next(table: Table) -> None:
    stream = table.stream(starting_version="latest")

    assert stream.ids() == []
    table.append(4)
    assert stream.ids() == [4]


def test_a_stream_can_start_with_what_a_version_brought(table: Table) -> None:
    table.append(4)
    table.append(5)

    assert table.stream(starting_version=1).ids() == [1, 2, 3, 4, 5]
    assert table.stream(starting_version=2).ids() == [4, 5]
    assert table.stream(starting_version=4).ids() == []


def test_a_first_batch_is_the_same_when_it_is_replayed(table: Table) -> None:
    """Spark remembers only where a batch ends; asked again, `latest` would be somewhere else."""
    stream = table.stream(starting_version="latest")
    stream.run()
    table.append(4)
    stream.commit()
    assert stream.ids() == [4]

    first = table.stream(starting_version="latest")
    first.reader.initialOffset()
    table.append(5)
    assert first.plan()
    table.append(6)
    first.restart()
    assert [row["id"] for row in first.next()] == [5]
    assert first.ids() == [6]

    snapshot = table.stream()
    assert snapshot.plan()
    table.append(7)
    snapshot.restart()
    assert len(snapshot.next()) == 6
    assert snapshot.ids() == [7]


def test_a_start_that_is_not_there_yet_is_refused(table: Table) -> None:
    with pytest.raises(InvalidInputError, match="no version 3 yet, but 1"):
        table.stream(starting_version=3).rows()


# -- what arrives


def test_commits_that_leave_the_rows_alone_bring_none(table: Table) -> None:
    stream = table.stream(starting_version="latest")
    table.append(4)
    table.open().create_scalar_index("id", "BTREE")
    table.open().optimize.compact_files()
    table.open().update_config({"key": "value"})
    table.append(5)

    assert stream.ids() == [4, 5]


def test_rows_arrive_though_they_were_compacted_or_deleted_since(table: Table) -> None:
    stream = table.stream(starting_version="latest", skip_changes=True)
    table.append(4, 5)
    table.open().optimize.compact_files()
    table.open().delete("id = 4")

    assert stream.ids() == [4, 5]


def test_columns_are_chosen(table: Table) -> None:
    assert table.stream(columns="text", starting_version=1).rows()[0] == {"text": "row 1"}


def test_a_column_that_a_version_lacks_is_told(table: Table) -> None:
    table.open().add_columns({"later": "id + 1"})

    with pytest.raises(TableSchemaValidationError, match="version 1 has no column 'later'"):
        table.stream(starting_version=1).rows()
    assert table.stream(starting_version=1, columns="id").ids() == [1, 2, 3]
    assert sorted(row["later"] for row in table.stream().rows()) == [2, 3, 4]


def test_a_plain_path_streams_too(tmp_path: Path) -> None:
    lance.write_dataset(numbers(1), tmp_path / "t.lance")
    stream = Stream(None, str(tmp_path / "t.lance"))

    assert stream.ids() == [1]
    lance.write_dataset(numbers(2), tmp_path / "t.lance", mode="append")
    assert stream.ids() == [2]


# -- changes


@pytest.mark.parametrize("change", ["delete", "update", "overwrite"])
def test_a_change_of_rows_stops_the_stream_unless_it_is_to_be_skipped(
    table: Table, change: str
) -> None:
    stream = table.stream(starting_version="latest")
    table.append(4)
    if change == "delete":
        table.open().delete("id = 1")
    elif change == "update":
        table.upsert(2, 40)
    else:
        lance.write_dataset(numbers(9), table.open(), mode="overwrite")
    table.append(5)

    assert [row["id"] for row in stream.next()] == [4]
    with pytest.raises(UnsupportedOperationError, match="version 3 of 't' did not only add rows"):
        stream.next()
    stream.restart(skip_changes=True)
    assert stream.ids() == [5]


def test_changes_come_with_their_kinds_if_they_are_wanted(table: Table) -> None:
    stream = table.stream(starting_version="latest", change_kinds=True)
    table.append(4)
    table.upsert(2, 40)
    table.open().delete("id = 1")
    lance.write_dataset(numbers(9), table.open(), mode="overwrite")

    changes = sorted(
        (row["_commit_version"], row["_change_type"], row["id"]) for row in stream.rows()
    )

    assert changes == [
        (2, "insert", 4),
        (3, "insert", 40),
        (3, "update_postimage", 2),
        (4, "delete", 1),
        *((5, "delete", number) for number in (2, 3, 4, 40)),
        (5, "insert", 9),
    ]


def test_updates_without_stable_row_ids_are_not_guessed(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path)
    lance.write_dataset(numbers(1, 2), tmp_path / "t.lance", enable_stable_row_ids=False)
    stream = Stream(tmp_path, "t", change_kinds=True)
    assert len(stream.rows()) == 2

    catalog.open_table(["t"]).delete("id = 1")
    assert [(row["id"], row["_change_type"]) for row in stream.rows()] == [(1, "delete")]
    catalog.open_table(["t"]).update({"text": "'changed'"}, where="id = 2")
    with pytest.raises(UnsupportedOperationError, match="stable row ids"):
        stream.rows()


# -- how much at once


def test_a_batch_takes_no_more_versions_than_allowed(table: Table) -> None:
    stream = table.stream(starting_version="latest", max_versions_per_batch=2)
    for number in range(4, 9):
        table.append(number)

    assert [[row["id"] for row in batch] for batch in stream.batches()] == [[4, 5], [6, 7], [8]]


def test_a_batch_takes_no_more_rows_than_allowed_if_fragments_let_it(table: Table) -> None:
    stream = table.stream(starting_version="latest", max_rows_per_batch=4)
    lance.write_dataset(numbers(*range(10, 20)), table.open(), mode="append", max_rows_per_file=3)
    table.append(20, 21)
    table.append(*range(30, 39))

    sizes = [len(batch) for batch in stream.batches()]

    assert sizes == [3, 3, 4, 2, 9]  # fragments of 3, 3, 3 and 1; then 2; and 9 in a single one


def test_a_batch_that_ends_within_a_version_is_replayed_and_continued(table: Table) -> None:
    lance.write_dataset(numbers(*range(10, 20)), table.open(), mode="append", max_rows_per_file=2)
    stream = table.stream(max_rows_per_batch=3)

    seen = []
    while stream.plan():
        once = stream.run()
        stream.restart()
        assert stream.run() == once
        stream.commit()
        seen += [row["id"] for row in once]

    assert sorted(seen) == [1, 2, 3, *range(10, 20)]


def test_spark_may_ask_for_everything_whatever_the_limits(table: Table) -> None:
    stream = table.stream(starting_version=1, max_rows_per_batch=1, max_versions_per_batch=1)
    table.append(4)

    assert stream.plan(unlimited=True)
    assert [row["id"] for row in stream.next()] == [1, 2, 3, 4]


def test_a_query_that_is_to_end_stops_at_what_was_there_when_it_began(table: Table) -> None:
    table.append(4)
    stream = table.stream(starting_version=1, max_versions_per_batch=1)
    stream.reader.prepareForTriggerAvailableNow()
    table.append(5)

    assert stream.ids() == [1, 2, 3, 4]
    stream.restart()
    assert stream.ids() == [5]


def test_many_rows_are_shared_among_tasks(table: Table) -> None:
    for number in range(10, 15):
        table.append(number)
    stream = table.stream(starting_version=2, num_partitions=3)

    assert stream.plan()
    assert 1 < len(stream.partitions()) <= 3
    assert stream.ids() == [10, 11, 12, 13, 14]


# -- what is lost


def test_versions_that_were_cleaned_up_are_missed(table: Table) -> None:
    stream = table.stream(starting_version="latest")
    assert stream.rows() == []
    table.append(4)
    table.append(5)
    table.open().cleanup_old_versions(older_than=timedelta(0))

    with pytest.raises(TableVersionNotFoundError, match="version 2 of 't' was cleaned up"):
        stream.rows()
    stream.restart(fail_on_data_loss=False)
    assert stream.ids() == [5]


def test_another_table_of_that_name_is_not_taken_for_the_first(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path)
    make_namespace(catalog, "a")
    create(catalog, "a", "t", data=numbers(1))
    stream = Stream(tmp_path, "a.t")
    assert stream.ids() == [1]
    drop(catalog, "a", "t")
    create(catalog, "a", "t", data=numbers(2))

    with pytest.raises(InvalidTableStateError, match="not the table that this stream has read"):
        stream.rows()


def test_a_checkpoint_of_another_source_is_told(table: Table) -> None:
    stream = table.stream()

    with pytest.raises(InvalidInputError, match="another source"):
        stream.reader.partitions({"v": 1}, {"v": 2})


def test_an_empty_table_has_a_stream_without_rows(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path)
    create(catalog, "t", data=pa.table({"id": pa.array([], pa.int64())}))

    assert Stream(tmp_path, "t").rows() == []
