"""The life of a table in lancedb, over a catalog of ours, or over a server that has one.

`python -m tests.peers.lancedb_life ROOT` lives it by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS, BTree, IvfPq

NAMESPACE = "tiltyard.DirectoryNamespace"
ROWS = 300
DIMENSIONS = 8


def life(
    properties: Mapping[str, str],
    storage: Mapping[str, str] | None = None,
    *,
    namespace: str = NAMESPACE,
) -> list[str]:
    """Live it, see after each step that it was done, and return what the steps were."""
    steps: list[str] = []
    options = dict(storage) if storage else None
    database = lancedb.connect_namespace(namespace, dict(properties), storage_options=options)

    table = database.create_table("points", _rows(0, ROWS))
    assert table.count_rows() == ROWS
    steps.append("create")

    table.add(_rows(ROWS, 50))
    assert database.open_table("points", storage_options=options).count_rows() == ROWS + 50
    steps.append("add")

    nearest = table.search([7.0] * DIMENSIONS).limit(2).to_list()
    assert [row["id"] for row in nearest] == [7, 6] or [row["id"] for row in nearest] == [7, 8]
    steps.append("search")

    table.create_index("id", config=BTree())
    table.create_index("text", config=FTS())
    table.create_index("vector", config=IvfPq(num_partitions=2, num_sub_vectors=4))
    assert {index.columns[0] for index in table.list_indices()} == {"id", "text", "vector"}
    found = table.search("word11", query_type="fts").limit(5).to_list()
    assert [row["id"] for row in found] == [11]
    assert table.search([7.0] * DIMENSIONS).where("id < 5").limit(1).to_list()[0]["id"] == 4
    steps.append("index")

    before = table.version
    table.tags.create("before", before)
    table.update(where="id = 1", values={"text": "changed"})
    assert table.search().where("id = 1").to_list()[0]["text"] == "changed"
    steps.append("update")

    table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        _rows(ROWS + 40, 20)
    )
    assert table.count_rows() == ROWS + 60
    steps.append("merge")

    table.delete("id >= 300")
    assert table.count_rows() == ROWS
    steps.append("delete")

    table.add_columns({"twice": "id * 2"})
    table.alter_columns({"path": "twice", "rename": "double"})
    assert table.search().where("id = 3").to_list()[0]["double"] == 6
    table.drop_columns(["double"])
    steps.append("columns")

    assert table.tags.get_version("before") == before
    table.checkout("before")
    assert table.count_rows() == ROWS + 50
    assert table.search().where("id = 1").to_list()[0]["text"] == "word1"
    table.checkout_latest()
    table.restore(before)
    assert table.count_rows() == ROWS + 50
    table.tags.delete("before")
    assert len(table.list_versions()) == table.version
    steps.append("time travel")

    database.drop_table("points")
    assert list(database.list_tables().tables) == []
    steps.append("drop")
    return steps


def _rows(start: int, count: int) -> pa.Table:
    numbers = np.arange(start, start + count)
    vectors = np.repeat(numbers.astype(np.float32), DIMENSIONS)
    return pa.table(
        {
            "id": numbers,
            "text": [f"word{number}" for number in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), DIMENSIONS),
        }
    )


if __name__ == "__main__":
    for step in life({"root": sys.argv[1]}):
        sys.stdout.write(f"{step}\n")
