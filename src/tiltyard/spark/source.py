"""The data source `tiltyard`: what Spark calls, and which room answers.

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

from tiltyard.spark.options import Options
from tiltyard.spark.target import Target

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
        from tiltyard.spark.scan import Scan
        from tiltyard.spark.streaming import choices

        options = self._given()
        if choices.STREAM_ONLY.intersection(options):
            return choices.schema_of(Target.parse(options), options)
        self._scan = Scan.plan(Target.parse(options), options)
        return self._scan.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        from tiltyard.spark.scan import Reader, Scan

        if self._scan is None:
            options = self._given()
            self._scan = Scan.as_given(schema, Target.parse(options), options)
        return Reader(self._scan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tiltyard.spark.write import Writer

        options = self._given()
        return Writer(Target.parse(options), schema, overwrite, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from tiltyard.spark.streaming.source import StreamReader

        options = self._given()
        return StreamReader(Target.parse(options), schema, options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from tiltyard.spark.streaming.sink import StreamWriter

        options = self._given()
        return StreamWriter(Target.parse(options), schema, overwrite, options)

    def _given(self) -> Options:
        return Options(self.options)
