"""What the namespace interface costs, beside pylance and the encoding that the interface asks for.

Both sides do the same: read or write rows with pylance, and turn them into Arrow IPC bytes or have
them as such. What is left is finding the table, checking the request, and guarding the commit.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

import lance
import lance_namespace as api
import numpy as np
import pyarrow as pa
from lance_namespace_urllib3_client import models

import tiltyard
from benchmarks.measure import Contest, contest, file_system_of, quick_from, show_contests

FULL, QUICK = 1_000_000, 20_000
DIMENSIONS = 16

# Not slower than by five percent.
GOAL = 1 / 1.05


def main(*, quick: bool = False) -> int:
    """Print everything; returns how many rows miss their goal."""
    count = QUICK if quick else FULL
    with tempfile.TemporaryDirectory() as home:
        bench = Bench(Path(home), _rows(count))
        title = f"Through the namespace, beside pylance and IPC ({file_system_of(home)})"
        return show_contests(title, [bench.query(), bench.tenth(), bench.insert()])


class Bench:
    """One table in a catalog, reached through it and around it."""

    def __init__(self, home: Path, rows: pa.Table) -> None:
        self._rows = rows
        self._catalog = tiltyard.connect(str(home / "lake"))
        for name in ("read", "ours", "theirs"):
            self._catalog.create_table(api.CreateTableRequest(id=[name]), _stream(rows.slice(0, 1)))
        self._catalog.insert_into_table(
            api.InsertIntoTableRequest(id=["read"], mode="overwrite"), _stream(rows)
        )

    def query(self) -> Contest:
        """All rows of the table, and all columns."""
        return self._read(f"query of {len(self._rows):,} rows", None)

    def tenth(self) -> Contest:
        """The rows that a filter leaves."""
        return self._read(f"a tenth of {len(self._rows):,} rows", "id % 10 = 0")

    def _read(self, what: str, condition: str | None) -> Contest:
        """Against a dataset that stays open, as a program without a catalog would have it."""
        request = api.QueryTableRequest(
            id=["read"], k=0, vector=models.QueryTableRequestVector(), filter=condition
        )
        opened = lance.dataset(self._uri("read"))

        def theirs() -> bytes:
            reader = opened.scanner(filter=condition).to_reader()
            sink = io.BytesIO()
            with pa.ipc.new_file(sink, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
            return sink.getvalue()

        answer = self._catalog.query_table(request).data
        assert isinstance(answer, bytes)
        assert _count(answer) == _count(theirs())
        return contest(what, lambda: self._catalog.query_table(request), theirs, goal=GOAL)

    def insert(self) -> Contest:
        """All rows, as one append to a table that grows."""
        uri = self._uri("theirs")

        def theirs() -> None:
            _stream(self._rows)
            lance.dataset(uri).insert(self._rows)

        return contest(
            f"insert of {len(self._rows):,} rows", lambda: self._insert("ours"), theirs, goal=GOAL
        )

    def _insert(self, name: str) -> None:
        request = api.InsertIntoTableRequest(id=[name])
        self._catalog.insert_into_table(request, _stream(self._rows))

    def _uri(self, name: str) -> str:
        return str(self._catalog.describe_table(api.DescribeTableRequest(id=[name])).location)


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(11)
    vectors = pa.array(random.random(count * DIMENSIONS, dtype=np.float32))
    return pa.table(
        {
            "id": np.arange(count),
            "price": random.random(count),
            "name": pa.array([f"name {each % 1000}" for each in range(count)]),
            "vector": pa.FixedSizeListArray.from_arrays(vectors, DIMENSIONS),
        }
    )


def _stream(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


def _count(answer: bytes) -> int:
    rows: int = pa.ipc.open_file(answer).read_all().num_rows
    return rows


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from()) else 0)
