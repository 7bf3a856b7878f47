"""Streams a table into another, in the steps of Spark's driver but without a JVM, until killed.

The checkpoint is laid out like Spark's: `offsets/N` is written before batch N runs, `commits/N`
after its commit, each only if there is none. So a driver that goes on after its successor has begun
ends at the next file, as it does in Spark.

    python -m tests.spark.pump ROOT FROM INTO CHECKPOINT [finish]
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tiltyard.spark import stream_sink
from tiltyard.spark.options import StreamReadOptions, StreamWriteOptions
from tiltyard.spark.stream_sink import StreamWriter
from tiltyard.spark.stream_source import StreamReader, schema_of


class Pump:
    def __init__(self, root: str, source: str, into: str, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        limits = {"starting_version": 1, "max_versions_per_batch": 1}
        options = StreamReadOptions.parse({"root": root, "path": source, **limits})
        self._schema = schema_of(options)
        self._reader = StreamReader(options, self._schema)
        self._into = StreamWriteOptions.parse({"root": root, "path": into})

    def next(self) -> bool:
        """Run one batch, the planned one or a new one; False if there is nothing to do."""
        done = self._last("commits")
        start = self._read(done) if done >= 0 else _as_sent(self._reader.initialOffset())
        batch = done + 1
        if self._last("offsets") < batch:
            limit = self._reader.getDefaultReadLimit()
            end = _as_sent(self._reader.latestOffset(start, limit))
            if done >= 0 and end == start:
                return False
            self._write("offsets", batch, json.dumps(end))
        partitions = self._reader.partitions(start, self._read(batch))
        writer = self._writer()
        messages = [writer.write(self._reader.read(partition)) for partition in partitions]
        self._writer().commit(messages, batch)
        self._write("commits", batch, "{}")
        return True

    def _writer(self) -> StreamWriter:
        return StreamWriter(self._into, self._schema, overwrite=False)

    def _last(self, log: str) -> int:
        return max((int(path.name) for path in (self._checkpoint / log).iterdir()), default=-1)

    def _read(self, batch: int) -> dict[str, Any]:
        path = self._checkpoint / "offsets" / str(batch)
        offset: dict[str, Any] = json.loads(path.read_text())
        return offset

    def _write(self, log: str, batch: int, text: str) -> None:
        """Whole or not at all, and only if there is no such file."""
        draft = self._checkpoint / f"{log}-{batch}-{os.getpid()}.draft"
        draft.write_text(text)
        (self._checkpoint / log / str(batch)).hardlink_to(draft)


def _as_sent(offset: dict[str, Any]) -> dict[str, Any]:
    sent: dict[str, Any] = json.loads(json.dumps(offset))
    return sent


def main(root: str, source: str, into: str, checkpoint: str, *finish: str) -> None:
    stream_sink.query_of_task = lambda: f"pump into {into}"
    pump = Pump(root, source, into, Path(checkpoint))
    sys.stdout.write("running\n")
    sys.stdout.flush()
    while pump.next() or not finish:
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
