"""A catalog on a disk, with what the tests of Spark put into it and see of it."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import lance
import lance_namespace as api
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import tiltyard
from tiltyard.catalog import names
from tiltyard.spark.options import ReadOptions
from tiltyard.spark.scan import Scan


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
        """What the data source does on the driver, without Spark."""
        return Scan.plan(ReadOptions.parse({"root": self.root, "table": name, **options}))

    def data_files(self, name: str = "t") -> set[str]:
        return data_files(Path(self.root), name)

    def owned_files(self, name: str = "t") -> set[str]:
        return owned_files(self.open(name))

    def _prepare(self, name: str) -> Sequence[str]:
        identifier = names.parse_dotted(name)
        for depth in range(1, len(identifier)):
            request = api.CreateNamespaceRequest(id=identifier[:depth], mode="ExistOk")
            self.catalog.create_namespace(request)
        return identifier


def data_files(root: Path, table: str) -> set[str]:
    """The names of all data files in the directory of a table of the root namespace."""
    return {path.name for path in root.glob(f"{table}.lance/data/*")}


def owned_files(dataset: lance.LanceDataset) -> set[str]:
    """The names of the data files that a version of a table has."""
    return {
        file.path
        for version in dataset.versions()
        for fragment in dataset.checkout_version(version["version"]).get_fragments()
        for file in fragment.data_files()
    }


def plan_text(rows: DataFrame, mode: str = "extended") -> str:
    """Spark's plans of a DataFrame, as `explain` prints them."""
    with redirect_stdout(io.StringIO()) as printed:
        rows.explain(mode=mode)
    return printed.getvalue()


def estimated_bytes(rows: DataFrame) -> float:
    """How large Spark takes a DataFrame to be, to about a hundredth."""
    size, unit = re.search(r"sizeInBytes=([\d.]+) (\w+)", plan_text(rows, "cost")).groups()  # type: ignore[union-attr]
    return float(size) * {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]


def by_column(rows: DataFrame) -> dict[str, list[Any]]:
    """The values of a DataFrame, as Python has them."""
    collected = [row.asDict(recursive=True) for row in rows.collect()]
    return {name: [row[name] for row in collected] for name in rows.columns}
