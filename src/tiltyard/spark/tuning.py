"""Settings that make the exchange of rows between the JVM and Python fast.

Spark ends an Arrow batch for Python at a number of rows, or at a number of bytes. To know the bytes
it measures the whole batch after each row, which takes longer than all else that a write of narrow
rows does. So our sessions count rows alone; only batches of rows with binaries, which may be of any
size, are measured.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

BATCH_ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES_SETTING = "spark.sql.execution.arrow.maxBytesPerBatch"

# Vectors of 128 numbers make batches of 4 MiB, texts of 10 kB make 80.
ROWS_PER_BATCH = 8 * 1024
MEASURED = 64 * 1024 * 1024
UNMEASURED = 2**31 - 1

# Arrow's Java checks each access to each value, which is a sixth of the time of a scan of vectors.
# Spark puts this before other options of the JVM.
UNCHECKED_ARROW = "-Darrow.enable_unsafe_memory_access=true"

# A worker keeps the memory of a batch for the next one. By itself it would give it back, and the
# system would clear every page of it again: a fifth of the time of a scan of vectors.
KEPT_MEMORY = {
    "MALLOC_ARENA_MAX": 1,
    "MALLOC_MMAP_THRESHOLD_": 64 * 1024 * 1024,
    "MALLOC_TRIM_THRESHOLD_": 256 * 1024 * 1024,
}

SETTINGS: dict[str, Any] = {
    "spark.sql.execution.arrow.pyspark.enabled": True,
    "spark.driver.defaultJavaOptions": UNCHECKED_ARROW,
    "spark.executor.defaultJavaOptions": UNCHECKED_ARROW,
    **{f"spark.executorEnv.{name}": value for name, value in KEPT_MEMORY.items()},
    BATCH_ROWS_SETTING: ROWS_PER_BATCH,
    BATCH_BYTES_SETTING: UNMEASURED,
}

# Bytes that go through the socket between Python and the JVM at once, on one machine.
SOCKET_BYTES = 1024 * 1024


@contextmanager
def bounded_batches(rows: DataFrame) -> Iterator[None]:
    """Measure the batches of this DataFrame, if its rows may be large, wherever it is used
    meanwhile."""
    conf = rows.sparkSession.conf
    if not _may_be_large(rows.schema) or conf.get(BATCH_BYTES_SETTING) != str(UNMEASURED):
        yield
        return
    conf.set(BATCH_BYTES_SETTING, MEASURED)
    try:
        yield
    finally:
        conf.set(BATCH_BYTES_SETTING, UNMEASURED)


def _may_be_large(kind: DataType) -> bool:
    match kind:
        case BinaryType():
            return True
        case StructType():
            return any(_may_be_large(field.dataType) for field in kind.fields)
        case ArrayType():
            return _may_be_large(kind.elementType)
        case MapType():
            return _may_be_large(kind.keyType) or _may_be_large(kind.valueType)
        case _:
            return False


@cache
def freeze_gc() -> None:
    """Exempt what a worker process has imported from garbage collection; once in each process.

    Spark's worker collects garbage after each task and starts no other one meanwhile. It would look
    at every object of every module each time: for a small query that is half of its work.
    """
    gc.collect()
    gc.freeze()
