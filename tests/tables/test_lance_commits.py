"""What writes in two halves and rewrites expect of pylance. If one of these fails after an upgrade,
look at `tables.fragments`, `tables.rewrites` and `catalog.pylance` before anything else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.commit import CommitConflictError
from lance.fragment import FragmentMetadata, write_fragments

from tiltyard.tables import fragments, rewrites

Other = Callable[[lance.LanceDataset], object]

OTHERS: dict[str, Other] = {
    "append": lambda table: table.insert(pa.table({"a": [9], "b": ["z"]})),
    "delete": lambda table: table.delete("a = 1"),
    "update": lambda table: table.update({"b": "'q'"}, where="a = 1"),
    "add a column": lambda table: table.add_columns({"c": "a + 1"}),
    "drop a column": lambda table: table.drop_columns(["b"]),
    "overwrite": lambda table: lance.write_dataset(
        pa.table({"a": [7]}), table.uri, mode="overwrite"
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    rows = pa.table({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    return lance.write_dataset(
        rows,
        tmp_path / "t.lance",
        max_rows_per_file=2,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )


def commit(
    table: lance.LanceDataset, operation: lance.LanceOperation.BaseOperation, retries: int = 0
) -> lance.LanceDataset:
    transaction = lance.Transaction(table.version, operation)
    return lance.LanceDataset.commit(table, transaction, max_retries=retries)


def new_rows(table: lance.LanceDataset) -> list[FragmentMetadata]:
    return write_fragments(pa.table({"a": [4], "b": ["w"]}), table, mode="append")


def every_fragment(table: lance.LanceDataset) -> list[FragmentMetadata]:
    return [fragment.metadata for fragment in table.get_fragments()]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_nothing_that_touches_rows_comes_before_a_merge(
    table: lance.LanceDataset, other: str
) -> None:
    merge = lance.LanceOperation.Merge(
        [*every_fragment(table), *new_rows(table)], table.lance_schema
    )
    OTHERS[other](lance.dataset(table.uri))

    with pytest.raises(CommitConflictError):
        commit(table, merge)


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_an_append_goes_with_anything_but_an_overwrite(
    table: lance.LanceDataset, other: str
) -> None:
    append = lance.LanceOperation.Append(new_rows(table))
    OTHERS[other](lance.dataset(table.uri))

    if other == "overwrite":
        with pytest.raises(CommitConflictError):
            commit(table, append, retries=20)
    else:
        assert 4 in commit(table, append, retries=20).to_table()["a"].to_pylist()


def test_a_merge_numbers_new_rows_and_keeps_the_indexes(table: lance.LanceDataset) -> None:
    table.create_scalar_index("a", "BTREE")
    table = lance.dataset(table.uri)

    merge = lance.LanceOperation.Merge(
        [*every_fragment(table), *new_rows(table)], table.lance_schema
    )
    merged = commit(table, merge)

    assert merged.to_table(with_row_id=True)["_rowid"].to_pylist() == [0, 1, 2, 3]
    assert len({fragment.fragment_id for fragment in merged.get_fragments()}) == 3
    assert merged.to_table(filter="a = 4").num_rows == 1
    assert len(merged.describe_indices()) == 1


def test_a_merge_drops_a_fragment_whose_rows_are_all_deleted(table: lance.LanceDataset) -> None:
    first, second = every_fragment(table)
    emptied = FragmentMetadata.from_json(rewrites._emptied(second, table.version))

    merged = commit(table, lance.LanceOperation.Merge([first, emptied], table.lance_schema))

    assert merged.to_table()["a"].to_pylist() == [1, 2]
    assert [fragment.fragment_id for fragment in merged.get_fragments()] == [0]


def test_a_commit_leaves_its_transaction_beside_the_table(table: lance.LanceDataset) -> None:
    """Before the manifest: `abandon` relies on finding it if the answer was lost."""
    written = new_rows(table)

    commit(table, lance.LanceOperation.Append(written))

    left = Path(table.uri, fragments.TRANSACTIONS).glob(f"{table.version}-*.txn")
    (name,) = fragments.file_names([json.dumps(each.to_json()) for each in written])
    assert any(name.encode() in each.read_bytes() for each in left)


def test_a_write_that_fails_takes_its_files_back(table: lance.LanceDataset) -> None:
    before = sorted(Path(table.uri, "data").iterdir())

    def batches() -> object:
        yield pa.record_batch({"a": [1, 2], "b": ["x", "y"]})
        raise ValueError("boom")

    reader = pa.RecordBatchReader.from_batches(table.schema, batches())
    with pytest.raises(OSError, match="boom"):
        write_fragments(reader, table, mode="append", max_rows_per_file=1)

    assert sorted(Path(table.uri, "data").iterdir()) == before


def test_columns_are_numbered_after_all_that_ever_were(table: lance.LanceDataset) -> None:
    table.drop_columns(["a"])
    table = lance.dataset(table.uri)
    wanted = pa.schema([("b", pa.string()), ("s", pa.struct([("x", pa.int8())]))])

    wider = fragments.widened(table, wanted)

    numbers = {field.name(): field.id() for field in wider.fields()}
    assert numbers == {"b": 1, "s": 2}
    assert [child.id() for child in wider.field("s").children()] == [3]
    assert wider.to_pyarrow() == wanted


def test_a_new_column_never_reads_what_a_dropped_one_held(table: lance.LanceDataset) -> None:
    table.drop_columns(["b"])
    table = lance.dataset(table.uri)

    wider = fragments.widened(table, pa.schema([("a", pa.int64()), ("n", pa.string())]))
    merged = commit(table, lance.LanceOperation.Merge(every_fragment(table), wider))

    assert merged.to_table()["n"].to_pylist() == [None, None, None]
