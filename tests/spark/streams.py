"""Streams without Spark: what it asks of a source and of a sink, in its order, in this process."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tiltyard.spark.options import Options
from tiltyard.spark.streaming import choices
from tiltyard.spark.streaming.source import StreamReader
from tiltyard.spark.target import Target

Rows = list[dict[str, Any]]


class Stream:
    """A query over a table, from one checkpoint; `restart` is what a crash of the driver does."""

    def __init__(self, root: str | Path | None, table: str, **options: Any) -> None:
        where = {} if root is None else {"root": str(root)}
        self._options = Options({**where, "path": table, **options})
        self._committed: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self.restart()
        self._reader.initialOffset()

    def restart(self, **options: Any) -> None:
        self._options = Options({**self._options, **options})
        target = Target.parse(self._options)
        schema = choices.schema_of(target, self._options)
        self._reader = StreamReader(target, schema, self._options)

    def available_now(self) -> None:
        self._reader.prepareForTriggerAvailableNow()

    def plan(self, *, unlimited: bool = False) -> bool:
        """Choose the next batch and write it into the checkpoint; False if there is none."""
        start = self._committed or _as_sent(self._reader.initialOffset())
        limit = ReadAllAvailable() if unlimited else self._reader.getDefaultReadLimit()
        end = _as_sent(self._reader.latestOffset(start, limit))
        if end == self._committed:
            return False
        self._planned = end
        return True

    def run(self) -> Rows:
        """Run the batch that is planned, or plan one. It does not count until `commit`."""
        if self._planned is None and not self.plan():
            return []
        assert self._planned is not None
        start = self._committed or _as_sent(self._reader.initialOffset())
        shares = self._reader.partitions(start, self._planned)
        return [row for share in shares for row in self._read(share)]

    def commit(self) -> None:
        self._committed, self._planned = self._planned, None

    def next(self) -> Rows:
        rows = self.run()
        if self._planned is not None:
            self.commit()
        return rows

    def batches(self) -> list[Rows]:
        """Everything that there is now."""
        found = []
        while self._planned is not None or self.plan():
            found.append(self.next())
        return found

    def rows(self) -> Rows:
        return [row for batch in self.batches() for row in batch]

    def ids(self) -> list[int]:
        return [row["id"] for row in self.rows()]

    def _read(self, share: InputPartition) -> Iterator[dict[str, Any]]:
        reader, sent = pickle.loads(pickle.dumps((self._reader, share)))
        for batch in reader.read(sent):
            yield from batch.to_pylist()


def _as_sent(offset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offset))
    return found


def numbers(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {each}" for each in ids]})
