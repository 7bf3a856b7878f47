"""The data source `tiltyard`: what Spark calls for reads, writes and streams.

No `pushFilters`: in Spark 4.3.0 a pushed filter leaks into later uses of the same DataFrame. What
is to be left out of a scan is said by options, by `table()` or by `sql()`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tiltyard.spark.options import (
    STREAM_ONLY,
    ReadOptions,
    StreamReadOptions,
    StreamWriteOptions,
    WriteOptions,
)

if TYPE_CHECKING:
    from tiltyard.spark.scan import Scan

NAME = "tiltyard"


class TiltyardSource(DataSource):
    """`spark.read.format("tiltyard")` and its counterparts.

    Spark makes one on the driver for every relation, asks it for the schema, and keeps it pickled:
    what `schema` pins then holds for every use of the relation, on every executor.
    """

    _scan: Scan | None = None

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        from tiltyard.spark import stream_source
        from tiltyard.spark.scan import Scan

        if STREAM_ONLY.intersection(name.lower() for name in self.options):
            return stream_source.schema_of(StreamReadOptions.parse(self.options))
        self._scan = Scan.plan(ReadOptions.parse(self.options))
        return self._scan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from tiltyard.spark.scan import Reader, Scan

        if self._scan is None:
            self._scan = Scan.with_schema(schema, ReadOptions.parse(self.options))
        return Reader(self._scan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tiltyard.spark.write import Writer

        return Writer(WriteOptions.parse(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from tiltyard.spark.stream_source import StreamReader

        return StreamReader(StreamReadOptions.parse(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from tiltyard.spark.stream_sink import StreamWriter

        return StreamWriter(StreamWriteOptions.parse(self.options), schema, overwrite)
