"""A catalog on a disk, with what the tests of Spark put into it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import lance_namespace as api
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import tiltyard
from tiltyard import names
from tiltyard.spark.options import Options
from tiltyard.spark.scan import Scan
from tiltyard.spark.target import Target


class Lake:
    """Tables by their dotted names, in a directory of their own."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root = str(root)
        self.spark = spark
        self.catalog = tiltyard.connect(root)

    def put(self, name: str, rows: pa.Table | dict[str, Any], files: int = 1) -> lance.LanceDataset:
        """Create a table, in several files of about equal size if wanted."""
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        identifier = self._prepare(name)
        per_file = max(1, -(-table.num_rows // files))
        first = table.slice(0, per_file)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, first.schema) as writer:
            writer.write_table(first)
        self.catalog.create_table(
            api.CreateTableRequest(id=identifier), sink.getvalue().to_pybytes()
        )
        for start in range(per_file, table.num_rows, per_file):
            self.append(name, table.slice(start, per_file))
        return self.open(name)

    def append(self, name: str, rows: pa.Table | dict[str, Any]) -> lance.LanceDataset:
        table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        return lance.write_dataset(table, self.open(name), mode="append")

    def open(self, name: str) -> lance.LanceDataset:
        return self.catalog.open_table(names.parse_dotted(name))

    def load(self, name: str, **options: Any) -> DataFrame:
        """Through the data source."""
        reader = self.spark.read.format("tiltyard").option("root", self.root)
        return reader.options(**options).load(name)

    def plan(self, name: str, **options: Any) -> Scan:
        """What the data source does on the driver, without a Spark between."""
        given = Options({"root": self.root, "table": name, **options})
        return Scan.plan(Target.parse(given), given)

    def _prepare(self, name: str) -> Sequence[str]:
        identifier = names.parse_dotted(name)
        for depth in range(1, len(identifier)):
            request = api.CreateNamespaceRequest(id=identifier[:depth], mode="ExistOk")
            self.catalog.create_namespace(request)
        return identifier
