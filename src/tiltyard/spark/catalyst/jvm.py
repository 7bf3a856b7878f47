"""The JVM of a classic Spark session, and every internal of Spark that is used in it.

Nothing in `INTERNALS` is public API of Spark: each entry names a class, the members that are used,
and why the public API does not do. All of it works with Spark `SEEN_WITH`. A test fails with any
other version, until each entry has been looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from tiltyard.errors import UnsupportedOperationError

SEEN_WITH = "4.3.0"

JavaObject = Any  # an object in the JVM, by its proxy of py4j

# A lost JVM raises py4j's error, which is none of Spark's.
SPARK_FAILURES = (PySparkException, Py4JError)

SQL = "org.apache.spark.sql"
_PARSER = f"{SQL}.catalyst.parser"
_EXPRESSIONS = f"{SQL}.catalyst.expressions"
_LOGICAL = f"{SQL}.catalyst.plans.logical"
_FILES = f"{SQL}.execution.datasources"


@dataclass(frozen=True)
class Internal:
    """A class of the JVM, the members that are used, and why."""

    name: str
    members: tuple[str, ...]
    reason: str


INTERNALS = (
    # -- Java, Scala and py4j
    Internal("java.lang.Object", (), "the elements of the array that `makeCopy` takes"),
    Internal("scala.Option", ("empty", "get", "nonEmpty"), "arguments and fields of plans"),
    Internal("scala.Some", (), "the same, with a value"),
    Internal("scala.collection.immutable.Seq", ("apply", "size"), "the fields of plans"),
    Internal("scala.collection.immutable.Set", ("contains", "mkString", "size", "toSeq"), "InSet"),
    Internal("py4j.reflection.TypeUtil", ("isInstanceOf",), "Python sees no class of a proxy"),
    Internal(
        "org.apache.spark.api.python.PythonUtils",
        ("toScalaMap", "toSeq"),
        "constructors of plans take collections of Scala",
    ),
    # -- the session
    Internal(
        f"{SQL}.classic.SparkSession",
        (
            *("baseRelationToDataFrame", "cloneSession", "expression", "range", "sessionState"),
            "setActiveSession",
        ),
        "relations without files, a copy of the session to plan in, the session of a thread",
    ),
    Internal(
        f"{SQL}.internal.SessionState",
        ("dataSourceManager", "sqlParser"),
        "the parser, and the names of Python data sources, have no API",
    ),
    Internal(
        f"{_FILES}.DataSourceManager",
        ("dataSourceExists",),
        "registering a data source again logs a warning",
    ),
    Internal(f"{SQL}.classic.Dataset", ("ofRows", "queryExecution"), "a DataFrame for a plan"),
    Internal(
        f"{SQL}.execution.QueryExecution",
        ("analyzed", "executedPlan", "optimizedPlan"),
        "DataFrame.explain() has plans as texts only",
    ),
    # -- parsing
    Internal(
        f"{_PARSER}.ParserInterface",
        ("parseExpression", "parsePlan", "parsePlanWithParameters", "parseQuery"),
        "spark.sql() resolves table names at once; here they are replaced before",
    ),
    Internal(f"{_PARSER}.NamedParameterContext", (), "parameters of a query by name"),
    Internal(f"{_PARSER}.PositionalParameterContext", (), "parameters of a query by position"),
    Internal(
        f"{SQL}.catalyst.analysis.CTESubstitution",
        ("apply",),
        "the name of a common table expression hides a table",
    ),
    Internal(
        f"{SQL}.catalyst.analysis.UnresolvedRelation",
        ("multipartIdentifier", "options"),
        "a table that a query names",
    ),
    Internal(
        f"{SQL}.catalyst.analysis.RelationTimeTravel",
        ("relation", "timestamp", "version"),
        "VERSION AS OF and TIMESTAMP AS OF",
    ),
    Internal(f"{SQL}.catalyst.AliasIdentifier", (), "a table under its full name"),
    Internal(f"{_LOGICAL}.SubqueryAlias", (), "a table under its full name"),
    # -- plans
    Internal(
        f"{SQL}.catalyst.trees.TreeNode",
        (
            *("children", "collectLeaves", "containsPattern", "makeCopy", "productArity"),
            *("productElement", "productPrefix", "toJSON", "withNewChildren"),
        ),
        "plans and expressions are read, and made anew with other children",
    ),
    Internal(f"{SQL}.catalyst.trees.TreePattern", ("AGGREGATE",), "whether a plan aggregates"),
    Internal(
        f"{_LOGICAL}.LogicalPlan",
        ("deterministic", "output", "schema", "stats", "subqueries", "subqueriesAll"),
        "what a plan answers, and which other plans it holds",
    ),
    Internal(
        f"{_LOGICAL}.Aggregate",
        ("aggregateExpressions", "copy", "groupingExpressions", "hint"),
        "an aggregate that was begun elsewhere is ended by Spark",
    ),
    Internal(f"{_LOGICAL}.Filter", ("condition",), "the columns that a condition reads"),
    Internal(f"{_LOGICAL}.Project", ("child",), "the keys of an aggregate under other names"),
    Internal(
        f"{SQL}.execution.LogicalRDD",
        (
            *("copy", "isStreaming", "output", "outputOrdering", "outputPartitioning", "rdd"),
            "stream",
        ),
        "rows of the driver get statistics, so that joins are planned by their size",
    ),
    # -- relations without files
    Internal(f"{SQL}.types.StructType", ("fieldNames", "json"), "schemas of relations"),
    Internal(f"{SQL}.types.DataType", ("asNullable", "catalogString", "fromJson"), "their types"),
    Internal(f"{_FILES}.FileStatusCache", ("getOrCreate",), "an argument of the index"),
    Internal(f"{_FILES}.InMemoryFileIndex", (), "an index of no files"),
    Internal(
        f"{_FILES}.HadoopFsRelation",
        ("options",),
        "only a relation of files shows columns and filters in its scan",
    ),
    Internal(f"{_FILES}.parquet.ParquetFileFormat", (), "the format that most is pushed down to"),
    Internal(f"{_FILES}.LogicalRelation", ("relation",), "a relation in an optimized plan"),
    Internal(
        f"{SQL}.execution.FileSourceScanExec",
        ("dataFilters", "relation", "requiredSchema"),
        "the columns and conditions that a query needs of a table",
    ),
    Internal(f"{SQL}.execution.CollectLimitExec", ("child", "limit"), "the limit of a query"),
    # -- expressions
    Internal(f"{_EXPRESSIONS}.Expression", ("dataType", "references", "sql"), "conditions"),
    Internal(f"{_EXPRESSIONS}.PlanExpression", ("plan", "withNewPlan"), "a subquery"),
    Internal(f"{_EXPRESSIONS}.Alias", (), "the keys of an aggregate under other names"),
    Internal(f"{_EXPRESSIONS}.AttributeReference", ("exprId", "name"), "a column"),
    Internal(f"{_EXPRESSIONS}.GetStructField", ("child", "extractFieldName"), "a field of one"),
    Internal(f"{_EXPRESSIONS}.Literal", ("value",), "a value"),
    Internal(f"{_EXPRESSIONS}.InSet", ("child", "hset"), "many values"),
    Internal(f"{_EXPRESSIONS}.Cast", ("child",), "a number as a wider one"),
    Internal(f"{_EXPRESSIONS}.Like", ("escapeChar",), "a pattern"),
    Internal(
        f"{_EXPRESSIONS}.aggregate.AggregateExpression",
        ("aggregateFunction",),
        "a function over partial results",
    ),
)
_NAMES = {internal.name for internal in INTERNALS}


def has_jvm(spark: SparkSession) -> bool:
    """Whether the session has a JVM beside it; one of Spark Connect has none."""
    return hasattr(spark, "_jsparkSession")


class Jvm:
    """Classes of the JVM by their names, each looked up once."""

    def __init__(self, jvm: JavaObject) -> None:
        self._jvm = jvm
        self._classes: dict[str, JavaObject] = {}

    def __call__(self, name: str) -> JavaObject:
        if name not in self._classes:
            assert name in _NAMES, f"{name} is not listed in INTERNALS"
            self._classes[name] = getattr(self._jvm, name)
        return self._classes[name]

    def sql(self, name: str) -> JavaObject:
        return self(f"{SQL}.{name}")

    def seq(self, values: Iterable[JavaObject]) -> JavaObject:
        return self("org.apache.spark.api.python.PythonUtils").toSeq(list(values))

    def map(self, values: Mapping[str, JavaObject]) -> JavaObject:
        return self("org.apache.spark.api.python.PythonUtils").toScalaMap(dict(values))

    def is_a(self, value: JavaObject, name: str) -> bool:
        return bool(self("py4j.reflection.TypeUtil").isInstanceOf(name, value))


def jvm_of(spark: SparkSession) -> Jvm:
    if not has_jvm(spark):
        raise UnsupportedOperationError(
            "sql() reads Spark's query plan, and Spark Connect does not show it",
            hint="tiltyard.spark.attach(spark, root) makes views, which spark.sql() reads",
        )
    return _jvm_of(spark._jvm)


@lru_cache(maxsize=4)
def _jvm_of(jvm: JavaObject) -> Jvm:
    return Jvm(jvm)


# -- sessions, DataFrames and columns of pyspark, and the objects behind them


def java_session(spark: SparkSession) -> JavaObject:
    return spark._jsparkSession


def java_expression(spark: SparkSession, column: Column) -> JavaObject:
    return spark._jsparkSession.expression(column._jc)


def java_array(spark: SparkSession, values: Iterable[JavaObject]) -> JavaObject:
    """An array of objects; py4j turns no list of Python into one."""
    elements = list(values)
    gateway: Any = spark.sparkContext._gateway
    array = gateway.new_array(jvm_of(spark)("java.lang.Object"), len(elements))
    for position, value in enumerate(elements):
        array[position] = value
    return array


def analyzed_plan(rows: DataFrame) -> JavaObject:
    return rows._jdf.queryExecution().analyzed()


def dataframe(spark: SparkSession, plan: JavaObject) -> DataFrame:
    """A DataFrame that runs a logical plan."""
    dataset = jvm_of(spark).sql("classic.Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(dataset, spark)


def has_data_source(spark: SparkSession, name: str) -> bool:
    """Whether a classic session has a Python data source of this name."""
    sources: JavaObject = spark._jsparkSession.sessionState().dataSourceManager()
    return bool(sources.dataSourceExists(name))


def activate(spark: SparkSession) -> None:
    """Make a session the one of this thread: a new thread has none, and Spark looks for Python
    data sources there. Does nothing in Spark Connect."""
    if has_jvm(spark):
        jvm_of(spark).sql("classic.SparkSession").setActiveSession(spark._jsparkSession)


# -- nodes of plans and expressions


def node_type(node: JavaObject) -> str:
    """The class of a node, in one call."""
    return str(node.productPrefix())


def json_node_type(node: Mapping[str, Any]) -> str:
    """The class of a node of `toJSON`."""
    return str(node["class"]).rpartition(".")[2]


def elements(values: JavaObject) -> Iterator[JavaObject]:
    """The elements of a sequence of Scala."""
    for position in range(values.size()):
        yield values.apply(position)


# -- frames of local rows

# From here on batches are faster, measured with four columns.
MOST_IN_PLAN = 10_000

_LARGEST_PLANNED = "spark.sql.execution.arrow.localRelationThreshold"
_NONE = "0"
_NUMBER_BYTES = 8


def local_frame(
    spark: SparkSession, rows: pa.Table, schema: StructType, row_bytes: int
) -> DataFrame:
    """A DataFrame of these rows, whose size Spark estimates as `row_bytes` for each."""
    if rows.num_rows <= MOST_IN_PLAN:
        return spark.createDataFrame(rows, schema)
    with _as_batches(spark):
        frame = spark.createDataFrame(rows, schema)
    plan = analyzed_plan(frame)
    if node_type(plan) != "LogicalRDD":
        return frame
    return dataframe(spark, _with_size(spark, plan, rows.num_rows * row_bytes))


@contextmanager
def _as_batches(spark: SparkSession) -> Iterator[None]:
    """Keep rows out of plans. A second caller at the same time leaves the setting to the first."""
    before = spark.conf.get(_LARGEST_PLANNED)
    if before is None or before == _NONE:
        yield
        return
    spark.conf.set(_LARGEST_PLANNED, _NONE)
    try:
        yield
    finally:
        spark.conf.set(_LARGEST_PLANNED, before)


def _with_size(spark: SparkSession, plan: JavaObject, size: int) -> JavaObject:
    jvm = jvm_of(spark)
    return plan.copy(
        plan.output(),
        plan.rdd(),
        plan.outputPartitioning(),
        plan.outputOrdering(),
        plan.isStreaming(),
        plan.stream(),
        java_session(spark),
        jvm("scala.Some")(_statistics(spark, size)),
        jvm("scala.Option").empty(),
        False,
    )


def _statistics(spark: SparkSession, size: int) -> JavaObject:
    """The statistics of a plan of so many bytes. py4j turns a BigInt of Scala into Python's and
    not back, so they are taken from a range of numbers that is as large."""
    numbers = java_session(spark).range(-(-size // _NUMBER_BYTES)).where("id IS NOT NULL")
    return numbers.queryExecution().analyzed().stats()
