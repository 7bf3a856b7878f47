"""Spark over a catalog against Spark over its own Parquet, and against pylance without Spark.

The same rows lie in a catalog and in Parquet files that Spark wrote. One session asks both in
turns, so the ratio of a line is what a user would feel by moving from Parquet to Lance. The rows
are in the order of their times, and their ids are in none: of a time Parquet's statistics tell
where it is, and so does a zone map of Lance; of an id both have to look at all of them.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import lance_namespace as api
import numpy as np
import pyarrow as pa

import tiltyard
from benchmarks.measure import (
    Contest,
    Count,
    contest,
    file_system_of,
    quick_from,
    show_contests,
    show_counts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DIMENSIONS = 128

# A goal is by which factor we should be faster: not slower than by 15 percent is 1 / 1.15.
ALMOST_EQUAL = 1 / 1.15
EQUAL = 1.0
AGGREGATE = 1 / 1.5
TWICE = 2.0
VECTOR_WRITES = 1 / 0.4
TINY_MILLISECONDS = 100
# Until the JVM has compiled what plans a query; both sides profit from it.
WARM_UP_ROUNDS = 20
# What Spark itself costs: rows have to cross into the JVM, and a job has to be planned.
WITH_ROWS, WITHOUT = 0.05, 0.005


@dataclass(frozen=True)
class Sizes:
    """How many rows of each kind there are."""

    mixed: int
    vectors: int
    tiny: int = 3


FULL = Sizes(mixed=5_000_000, vectors=200_000)
QUICK = Sizes(mixed=100_000, vectors=4_000)


def main(*, quick: bool = False) -> int:
    """Print everything; returns how many rows miss their goal."""
    try:
        from tiltyard.spark.session import session
    except ImportError as missing:
        print(f"Spark is not compared: {missing}")
        return 0
    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    return compare(spark, QUICK if quick else FULL)


def compare(spark: SparkSession, sizes: Sizes) -> int:
    """All comparisons in one session; returns how many miss their goal."""
    with tempfile.TemporaryDirectory() as home:
        both = Both(spark, Path(home), sizes)
        rows = f"{sizes.mixed:,} rows of 8 columns, {sizes.vectors:,} vectors"
        where = f"{rows} ({file_system_of(home)})"
        behind = show_contests(f"Queries, against Parquet, {where}", both.queries())
        behind += show_contests(f"Scans and writes, against Parquet, {where}", both.bulk())
        behind += show_contests(f"Spark, against pylance without it, {where}", both.alone())
        return behind + show_counts("Milliseconds", [both.tiny()])


class Both:
    """The same tables in a catalog and in Parquet."""

    def __init__(self, spark: SparkSession, home: Path, sizes: Sizes) -> None:
        self._spark = spark
        self._home = home
        self._sizes = sizes
        self._root = str(home / "lake")
        catalog = tiltyard.connect(self._root)
        # Spark keeps no statistics of the times that it writes by default.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        tables = {
            "mixed": _mixed(sizes.mixed),
            "vectors": _vectors(sizes.vectors),
            "tiny": pa.table({"id": range(sizes.tiny)}),
        }
        self._datasets: dict[str, lance.LanceDataset] = {}
        for name, rows in tables.items():
            self._datasets[name] = _created(catalog, name, rows)
            if name == "mixed":
                self._datasets[name].create_scalar_index("at", "ZONEMAP")
            path = str(home / name)
            self._scan(name).write.parquet(path)
            spark.read.parquet(path).createOrReplaceTempView(name)
        for _ in range(WARM_UP_ROUNDS):
            for name in tables:
                query = f"SELECT * FROM {name} WHERE id = 1"
                assert self._ask(query).num_rows == self._parquet(query).num_rows

    # -- what is compared

    def queries(self) -> list[Contest]:
        one = self._sizes.mixed // 2
        least = f"k >= {K - 10}"
        moment = f"TIMESTAMP_MICROS({BEGINNING + one * SECOND})"
        return [
            self._query("point", f"SELECT * FROM mixed WHERE id = {one}", EQUAL),
            self._query("point, sorted", f"SELECT * FROM mixed WHERE at = {moment}", EQUAL),
            self._query(
                "two conditions, OR",
                f"SELECT id, name FROM mixed WHERE id = {one} OR name = 'name {one + 7}'",
                EQUAL,
            ),
            self._query("1 in 100 rows", f"SELECT id, name, price FROM mixed WHERE {least}", EQUAL),
            self._query(
                "self-join",
                "SELECT count(*), sum(b.price) FROM mixed a JOIN mixed b ON a.id = b.partner "
                f"WHERE a.k < 10 AND b.{least}",
                EQUAL,
            ),
            self._query(
                "aggregate",
                "SELECT city, count(*), sum(price), max(quantity) FROM mixed GROUP BY city",
                AGGREGATE,
            ),
            self._query("count(*)", "SELECT count(*) FROM mixed", TWICE),
            self._query("first 10 rows", "SELECT * FROM mixed LIMIT 10", EQUAL),
        ]

    def bulk(self) -> list[Contest]:
        return [
            contest(
                "scan, mixed",
                lambda: _consume(self._scan("mixed")),
                lambda: _consume(self._spark.read.parquet(str(self._home / "mixed"))),
                goal=ALMOST_EQUAL,
            ),
            contest(
                "scan, vectors",
                lambda: _consume(self._scan("vectors")),
                lambda: _consume(self._spark.read.parquet(str(self._home / "vectors"))),
                goal=ALMOST_EQUAL,
            ),
            self._write("write, mixed", "mixed", ALMOST_EQUAL),
            self._write("write, vectors", "vectors", VECTOR_WRITES),
        ]

    def alone(self) -> list[Contest]:
        one = self._sizes.mixed // 2
        mixed, vectors = self._datasets["mixed"], self._datasets["vectors"]
        return [
            contest(
                "scan, mixed",
                lambda: _consume(self._scan("mixed")),
                lambda: _drain(mixed),
                goal=WITH_ROWS,
            ),
            contest(
                "scan, vectors",
                lambda: _consume(self._scan("vectors")),
                lambda: _drain(vectors),
                goal=WITH_ROWS,
            ),
            contest(
                "point",
                lambda: self._ask(f"SELECT * FROM mixed WHERE id = {one}"),
                lambda: mixed.to_table(filter=f"id = {one}"),
                goal=WITHOUT,
            ),
        ]

    def tiny(self) -> Count:
        query = "SELECT * FROM tiny"
        met = contest(query, lambda: self._ask(query), lambda: self._parquet(query), goal=EQUAL)
        return Count(
            f"{self._sizes.tiny} rows",
            round(met.ours * 1000),
            round(met.theirs * 1000),
            TINY_MILLISECONDS,
        )

    # -- how

    def _query(self, what: str, query: str, goal: float) -> Contest:
        ours, theirs = self._ask(query), self._parquet(query)
        assert ours.num_rows == theirs.num_rows, query
        return contest(what, lambda: self._ask(query), lambda: self._parquet(query), goal=goal)

    def _ask(self, query: str) -> pa.Table:
        from tiltyard.spark.sql import sql

        return sql(self._spark, self._root, query).toArrow()

    def _parquet(self, query: str) -> pa.Table:
        return self._spark.sql(query).toArrow()

    def _scan(self, name: str) -> DataFrame:
        from tiltyard.spark.table import table

        return table(self._spark, name, root=self._root)

    def _write(self, what: str, name: str, goal: float) -> Contest:
        """From memory, so that reading is no part of it; what was written before is removed."""
        rows = self._scan(name).cache()
        rows.count()

        def fresh(kind: str) -> str:
            path = self._home / kind
            shutil.rmtree(path, ignore_errors=True)
            return str(path)

        def ours() -> None:
            writer = rows.write.format("tiltyard").option("root", fresh("written"))
            writer.mode("append").save("copy")

        def theirs() -> None:
            rows.write.parquet(fresh("parquet"))

        try:
            return contest(what, ours, theirs, goal=goal)
        finally:
            rows.unpersist()


def _consume(rows: DataFrame) -> None:
    """Every column of every row reaches Spark, and goes nowhere."""
    rows.write.format("noop").mode("overwrite").save()


def _drain(dataset: lance.LanceDataset) -> int:
    return sum(batch.num_rows for batch in dataset.to_batches())


# ---------------------------------------------------------------- the rows

K = 1000
BEGINNING, SECOND = 1_700_000_000_000_000, 1_000_000
CITIES = [f"city {at}" for at in range(50)]


def _created(catalog: tiltyard.DirectoryNamespace, name: str, rows: pa.Table) -> lance.LanceDataset:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    catalog.create_table(api.CreateTableRequest(id=[name]), sink.getvalue().to_pybytes())
    return catalog.open_table([name])


def _mixed(count: int) -> pa.Table:
    """Eight columns of the kinds that tables have."""
    dice: Any = np.random.default_rng(7)
    ids = dice.permutation(count)
    cities = pa.DictionaryArray.from_arrays(
        pa.array(dice.integers(0, len(CITIES), count), pa.int32()), pa.array(CITIES)
    )
    return pa.table(
        {
            "id": ids,
            "partner": dice.integers(0, count, count),
            "k": pa.array(dice.integers(0, K, count), pa.int32()),
            "quantity": pa.array(dice.integers(0, 100, count), pa.int32()),
            "price": dice.random(count) * 1000,
            "name": pa.array([f"name {at}" for at in ids]),
            "city": cities.cast(pa.string()),
            "at": pa.array(BEGINNING + np.arange(count) * SECOND).cast(pa.timestamp("us", "UTC")),
        }
    )


def _vectors(count: int) -> pa.Table:
    dice: Any = np.random.default_rng(8)
    numbers = pa.array(dice.random(count * DIMENSIONS, dtype=np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(numbers, DIMENSIONS)
    return pa.table({"id": np.arange(count), "v": vectors})


if __name__ == "__main__":
    sys.exit(1 if main(quick=quick_from()) else 0)
