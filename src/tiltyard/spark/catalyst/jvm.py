"""Spark's JVM, as far as a classic session lets one talk to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

from pyspark.sql import SparkSession

from tiltyard.errors import UnsupportedOperationError

Java = Any  # an object that lives in the JVM

SQL = "org.apache.spark.sql"


def shows_plans(spark: SparkSession) -> bool:
    """Whether there is a JVM to ask: a session of Spark Connect has none beside it."""
    return hasattr(spark, "_jsparkSession")


def knows_source(spark: SparkSession, name: str) -> bool:
    """Whether a classic session has a Python data source of this name."""
    sources: Java = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(sources.dataSourceExists(name))


class Jvm:
    """Classes of the JVM by their names, each looked up once: that takes a call for every dot."""

    def __init__(self, jvm: Java) -> None:
        self._jvm = jvm
        self._found: dict[str, Java] = {}

    def __call__(self, name: str) -> Java:
        if name not in self._found:
            self._found[name] = reduce(getattr, name.split("."), self._jvm)
        return self._found[name]

    def sql(self, name: str) -> Java:
        return self(f"{SQL}.{name}")

    def seq(self, values: Iterable[Java]) -> Java:
        return self("PythonUtils").toSeq(list(values))

    def map(self, values: Mapping[str, Java]) -> Java:
        return self("PythonUtils").toScalaMap(dict(values))

    def is_a(self, value: Java, name: str) -> bool:
        return bool(self("py4j.reflection.TypeUtil").isInstanceOf(name, value))


def jvm_of(spark: SparkSession) -> Jvm:
    if not shows_plans(spark):
        raise UnsupportedOperationError(
            "sql() reads Spark's own plan, and Spark Connect shows none",
            hint="tiltyard.spark.attach(spark, root) makes views, which spark.sql() reads",
        )
    return _known(spark._jvm)


@lru_cache(maxsize=4)
def _known(jvm: Java) -> Jvm:
    return Jvm(jvm)


def kind_of(node: Java) -> str:
    """The class of a part of a plan, in one call."""
    return str(node.productPrefix())


def kind_told(node: Mapping[str, Any]) -> str:
    """The same of a part that Spark told in JSON."""
    return str(node["class"]).rpartition(".")[2]


def each_of(values: Java) -> Iterator[Java]:
    for at in range(values.size()):
        yield values.apply(at)
