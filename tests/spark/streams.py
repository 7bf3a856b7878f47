"""Streams without Spark: what it asks of a source and of a sink, in its order, in this process."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tiltyard.spark.options import StreamReadOptions
from tiltyard.spark.stream_source import StreamReader, schema_of

Rows = list[dict[str, Any]]


class Stream:
    """A query over a table, from one checkpoint; `restart` is what a crash of the driver does."""

    def __init__(self, root: str | Path | None, table: str, **options: Any) -> None:
        where = {} if root is None else {"root": str(root)}
        self._given = {**where, "path": table, **options}
        self._committed: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self.restart()
        self.reader.initialOffset()

    def restart(self, **options: Any) -> None:
        self._given |= options
        parsed = StreamReadOptions.parse(self._given)
        self.reader = StreamReader(parsed, schema_of(parsed))

    def plan(self, *, unlimited: bool = False) -> bool:
        """Choose the next batch and write it into the checkpoint; False if there is none."""
        start = self._committed or _as_sent(self.reader.initialOffset())
        limit = ReadAllAvailable() if unlimited else self.reader.getDefaultReadLimit()
        end = _as_sent(self.reader.latestOffset(start, limit))
        if end == self._committed:
            return False
        self._planned = end
        return True

    def partitions(self) -> Sequence[InputPartition]:
        """Of the batch that is planned."""
        assert self._planned is not None
        start = self._committed or _as_sent(self.reader.initialOffset())
        return self.reader.partitions(start, self._planned)

    def run(self) -> Rows:
        """Run the batch that is planned, or plan one. It does not count until `commit`."""
        if self._planned is None and not self.plan():
            return []
        return [row for partition in self.partitions() for row in self._read(partition)]

    def commit(self) -> None:
        self._committed, self._planned = self._planned, None

    def next(self) -> Rows:
        rows = self.run()
        if self._planned is not None:
            self.commit()
        return rows

    def batches(self) -> list[Rows]:
        """Everything that there is now."""
        batches = []
        while self._planned is not None or self.plan():
            batches.append(self.next())
        return batches

    def rows(self) -> Rows:
        return [row for batch in self.batches() for row in batch]

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def _read(self, partition: InputPartition) -> Iterator[dict[str, Any]]:
        reader, sent = pickle.loads(pickle.dumps((self.reader, partition)))
        for batch in reader.read(sent):
            yield from batch.to_pylist()


def _as_sent(offset: dict[str, Any]) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(json.dumps(offset))
    return sent


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {number}" for number in ids]})
