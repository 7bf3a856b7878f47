"""How many rows Spark puts into an Arrow batch on their way from the JVM to Python.

Spark ends a batch at a number of rows, or at a number of bytes. To know the bytes it weighs the
whole batch after each row, which takes longer than all else that a write of narrow rows does. So
our sessions go by rows alone; only rows with binaries, which may be of any size, are weighed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

# Vectors of 128 numbers make batches of 4 MiB, texts of 10 kB make 80.
ROWS_PER_BATCH = 8 * 1024
WEIGHED = 64 * 1024 * 1024
UNWEIGHED = 2**31 - 1

SETTINGS: dict[str, Any] = {ROWS: ROWS_PER_BATCH, BYTES: UNWEIGHED}


@contextmanager
def fit_for(rows: DataFrame) -> Iterator[None]:
    """Have the rows of this DataFrame weighed, if they may be large, wherever they go meanwhile."""
    conf = rows.sparkSession.conf
    if not _may_be_large(rows.schema) or conf.get(BYTES) != str(UNWEIGHED):
        yield
        return
    conf.set(BYTES, WEIGHED)
    try:
        yield
    finally:
        conf.set(BYTES, UNWEIGHED)


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
