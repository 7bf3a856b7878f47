"""What versions did to the rows of a table, held against the versions themselves."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from tiltyard.errors import TableSchemaValidationError
from tiltyard.tables import changes, history
from tiltyard.tables.changes import CHANGE_TYPE, COMMIT_VERSION
from tiltyard.tables.describe import At
from tiltyard.tables.history import Kind
from tiltyard.tables.scan import Snapshot

Row = tuple[Any, ...]


def rows(*ids: int, text: str = "new") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [text] * len(ids)})


def create(path: Path, *, stable: bool = True) -> lance.LanceDataset:
    return lance.write_dataset(
        rows(*range(12)), path, enable_stable_row_ids=stable, max_rows_per_file=4
    )


def upsert(dataset: lance.LanceDataset, data: pa.Table) -> None:
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(data)


def snapshot(dataset: lance.LanceDataset) -> Snapshot:
    return Snapshot(dataset.uri, At(dataset.latest_version))


def kinds(dataset: lance.LanceDataset) -> list[str]:
    commits = history.read_commits(snapshot(dataset), range(1, dataset.latest_version + 1))
    return [str(commit.kind) for commit in commits]


def changes_of(dataset: lance.LanceDataset, *versions: int) -> list[dict[str, Any]]:
    commits = history.read_commits(snapshot(dataset), versions)
    work = [each for several in changes.all_changes(commits) for each in several]
    found = changes.read(snapshot(dataset), work, ["id", "text"], with_changes=True)
    return [row for batch in found for row in batch.to_pylist()]


def as_they_are(dataset: lance.LanceDataset, version: int) -> Counter[Row]:
    found = dataset.checkout_version(version).to_table(columns=["id", "text"])
    return Counter((row["id"], row["text"]) for row in found.to_pylist())


def followed(before: Counter[Row], done: list[dict[str, Any]]) -> Counter[Row]:
    """The rows that somebody has who had those of the version before and heard of the changes."""
    after = Counter(before)
    updated = {row["id"] for row in done if row[CHANGE_TYPE] == "update_postimage"}
    after = Counter({row: number for row, number in after.items() if row[0] not in updated})
    for row in done:
        value = (row["id"], row["text"])
        if row[CHANGE_TYPE] == "delete":
            assert after[value] > 0, f"{value} went and was not there"
            after[value] -= 1
        else:
            after[value] += 1
    return +after


def do_anything(dataset: lance.LanceDataset, chosen: random.Random, number: int) -> None:
    some = sorted(chosen.sample(range(40), 4))
    ids = ", ".join(map(str, some))
    text = f"step {number}"
    match chosen.randrange(9):
        case 0 | 1:
            lance.write_dataset(rows(1000 + number, text=text), dataset, mode="append")
        case 2:
            dataset.delete(f"id in ({ids})")
        case 3:
            dataset.update({"text": f"'{text}'"}, where=f"id in ({ids})")
        case 4:
            upsert(dataset, rows(*some, text=text))
        case 5:
            dataset.optimize.compact_files(target_rows_per_fragment=8)
        case 6:
            merge = dataset.merge_insert("id").when_not_matched_by_source_delete(f"id in ({ids})")
            merge.execute(rows(some[0]))
        case 7:
            dataset.checkout_version(chosen.randrange(1, dataset.latest_version + 1)).restore()
        case 8:
            lance.write_dataset(rows(*some, text=text), dataset, mode="overwrite")


@pytest.mark.parametrize("seed", range(4))
def test_whoever_follows_the_changes_has_the_rows_of_every_version(
    tmp_path: Path, seed: int
) -> None:
    dataset = create(tmp_path / "t.lance")
    chosen = random.Random(seed)
    for number in range(25):
        do_anything(dataset, chosen, number)
        dataset = lance.dataset(tmp_path / "t.lance")
    for version in range(2, dataset.version + 1):
        done = changes_of(dataset, version)
        assert {row[COMMIT_VERSION] for row in done} <= {version}
        assert followed(as_they_are(dataset, version - 1), done) == as_they_are(dataset, version)


def test_inserts_are_those_of_appends_and_of_upserts_that_found_nothing(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t.lance")
    lance.write_dataset(rows(20, 21), dataset, mode="append")
    dataset = lance.dataset(tmp_path / "t.lance")
    upsert(dataset, rows(22))
    dataset.delete("id = 20")
    dataset.optimize.compact_files()
    lance.write_dataset(rows(23), dataset, mode="append")
    dataset = lance.dataset(tmp_path / "t.lance")

    commits = history.read_commits(snapshot(dataset), range(2, dataset.version + 1))
    work = [each for several in changes.inserts(commits) for each in several]
    found = changes.read(snapshot(dataset), work, ["id"])

    assert [row["id"] for batch in found for row in batch.to_pylist()] == [20, 21, 22, 23]


def test_every_operation_is_told_apart(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t.lance")
    dataset.create_scalar_index("id", "BTREE")
    dataset.update_config({"key": "value"})
    dataset.add_columns({"more": "id + 1"})
    dataset.update({"more": "0"}, where="id = 3")
    dataset.delete("id = 4")
    dataset.delete("id = 4")
    dataset.optimize.compact_files()
    dataset.drop_columns(["more"])
    dataset.checkout_version(1).restore()

    assert kinds(lance.dataset(tmp_path / "t.lance")) == [
        "append",
        "nothing",
        "nothing",
        "nothing",
        "update",
        "delete",
        "nothing",
        "nothing",  # room for the fragments of the compaction
        "nothing",  # the compaction, which pylance 14 can't show
        "nothing",
        "replace",
    ]


def test_fragments_that_a_merge_adds_came_with_it(tmp_path: Path) -> None:
    """A strict append names every fragment of its version."""
    dataset = create(tmp_path / "t.lance")
    new = lance.fragment.write_fragments(rows(50), dataset, mode="append")
    present = [fragment.metadata for fragment in dataset.get_fragments()]
    operation = lance.LanceOperation.Merge([*present, *new], dataset.lance_schema)
    dataset = lance.LanceDataset.commit(dataset, operation, read_version=1)

    assert kinds(dataset) == ["append", "append"]
    assert [row["id"] for row in changes_of(dataset, 2)] == [50]


def test_values_in_place_are_updates_of_those_rows_alone(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t.lance")
    dataset.add_columns({"more": "id + 1"})
    new = pa.table({"id": pa.array([5], pa.int64()), "more": pa.array([0], pa.int64())})
    dataset.merge_insert("id").when_matched_update_all().execute(new)
    dataset = lance.dataset(tmp_path / "t.lance")

    assert changes_of(dataset, 3) == [
        {"id": 5, "text": "new", CHANGE_TYPE: "update_postimage", COMMIT_VERSION: 3}
    ]


def test_appends_in_a_row_are_read_from_the_last_version_that_has_them_unmoved(
    tmp_path: Path,
) -> None:
    dataset = create(tmp_path / "t.lance")
    for number in range(3):
        lance.write_dataset(rows(number), dataset, mode="append")
        dataset = lance.dataset(tmp_path / "t.lance")
    dataset.delete("id = 2")
    lance.write_dataset(rows(9), dataset, mode="append")
    dataset = lance.dataset(tmp_path / "t.lance")

    planned = changes.inserts(history.read_commits(snapshot(dataset), range(2, 7)))

    assert [[each.at for each in several] for several in planned] == [[4], [4], [4], [], [6]]


def test_a_version_that_was_cleaned_up_says_nothing(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t.lance")
    lance.write_dataset(rows(1), dataset, mode="append")
    dataset = lance.dataset(tmp_path / "t.lance")
    dataset.delete("id = 1")
    dataset.cleanup_old_versions(older_than=timedelta(0))

    first, second, third = history.read_commits(snapshot(dataset), [1, 2, 3])

    assert (first.kind, second.kind, third.kind) == (Kind.GONE, Kind.GONE, Kind.DELETE)
    assert third.went is None


def test_a_column_that_a_version_does_not_have_is_named(tmp_path: Path) -> None:
    dataset = create(tmp_path / "t.lance")
    work = changes.inserts(history.read_commits(snapshot(dataset), [1]))[0]

    with pytest.raises(TableSchemaValidationError, match="version 1 has no column 'later'"):
        list(changes.read(snapshot(dataset), work, ["later"]))
