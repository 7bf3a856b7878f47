"""What Spark's plan of a query takes from each of its tables.

The query is planned over stubs, relations with the tables' schemas and no rows. The scans of the
plan then tell which columns are needed, and which conditions the rows have to meet.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tiltyard.spark.catalyst.aggregates import GroupedQuery, find_aggregate
from tiltyard.spark.catalyst.jvm import (
    JavaObject,
    Jvm,
    analyzed_plan,
    elements,
    java_session,
    json_node_type,
    jvm_of,
    node_type,
)
from tiltyard.spark.catalyst.parsing import ParsedQuery
from tiltyard.spark.lance_filters import MOST_VALUES, Call, Column, Expression, Literal

# Settings for a plan that shows every scan once, where it is in the query.
_PLANNING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
_NUMBER = "tiltyard.relation"  # the option of a stub that tells which table it stands for
_SOURCES = "execution.datasources"


@dataclass(frozen=True)
class RelationScan:
    """What a plan takes from a table in one scan: columns, by conditions, at most so many rows."""

    columns: frozenset[str]
    conditions: tuple[Expression, ...]
    limit: int | None = None


def plan_query(
    spark: SparkSession, query: ParsedQuery, schemas: Mapping[int, StructType]
) -> QueryPlan:
    """Spark's plan of a query, if its tables have these schemas."""
    jvm, session = jvm_of(spark), _planning_session(spark)
    stubs = _Stubs(jvm, session)
    plans = {
        number: stubs.dataset(number, schema).queryExecution().analyzed()
        for number, schema in schemas.items()
    }
    dataset = jvm.sql("classic.Dataset").ofRows(session, query.bind(plans))
    return QueryPlan(jvm, dataset.queryExecution())


def plan_condition(
    spark: SparkSession, schema: StructType, types: pa.Schema, where: str
) -> tuple[Expression, ...] | None:
    """A condition as Spark resolves it, in parts that must all hold; None: it never holds."""
    jvm = jvm_of(spark)
    stub = _Stubs(jvm, _planning_session(spark)).dataset(0, schema)
    scans = QueryPlan(jvm, stub.where(where).queryExecution()).scans({0: types})
    return scans[0][0].conditions if scans else None


def columns_of_condition(spark: SparkSession, schema: StructType, where: str) -> set[str]:
    """The columns that a condition reads."""
    filtered = analyzed_plan(spark.createDataFrame([], schema).where(where))
    references = filtered.condition().references().toSeq()
    return {column.name() for column in elements(references)}


def _planning_session(spark: SparkSession) -> JavaObject:
    """The same session with its views and settings, but for those that hide what a plan reads."""
    session = java_session(spark).cloneSession()
    settings = session.conf()
    for name, value in _PLANNING.items():
        settings.set(name, value)
    return session


class _Stubs:
    """Parquet relations without files. In those everything may be null, so that no plan relies on
    a column which it does not read."""

    def __init__(self, jvm: Jvm, session: JavaObject) -> None:
        self._jvm = jvm
        self._session = session
        self._none = jvm("scala.Option").empty()
        self._no_columns = jvm.sql("types.StructType")()
        self._format = jvm.sql(f"{_SOURCES}.parquet.ParquetFileFormat")()
        cache = jvm.sql(f"{_SOURCES}.FileStatusCache").getOrCreate(session)
        none, empty = self._none, jvm.map({})
        self._files = jvm.sql(f"{_SOURCES}.InMemoryFileIndex")(
            session, jvm.seq([]), empty, none, cache, none, none
        )

    def dataset(self, number: int, schema: StructType) -> JavaObject:
        relation = self._jvm.sql(f"{_SOURCES}.HadoopFsRelation")(
            self._files,
            self._no_columns,
            self._jvm.sql("types.DataType").fromJson(schema.json()).asNullable(),
            self._none,
            self._format,
            self._jvm.map({_NUMBER: str(number)}),
            self._session,
        )
        return self._session.baseRelationToDataFrame(relation)


class QueryPlan:
    """Spark's plan of a query over stubs."""

    def __init__(self, jvm: Jvm, execution: JavaObject) -> None:
        self._jvm = jvm
        self._execution = execution

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self._execution.analyzed().schema().json()))

    @cached_property
    def _only_table(self) -> tuple[int, list[dict[str, Any]]] | None:
        """The one table of a plan that aggregates and has no other, and the steps of the plan, the
        last one first."""
        plan = self._execution.optimizedPlan()
        if not plan.containsPattern(self._jvm.sql("catalyst.trees.TreePattern").AGGREGATE()):
            return None
        leaves = plan.collectLeaves()
        if leaves.size() != 1 or node_type(leaves.apply(0)) != "LogicalRelation":
            return None
        number = _table_number(leaves.apply(0).relation())
        if number is None or plan.subqueriesAll().nonEmpty():
            return None
        return number, json.loads(plan.toJSON())

    def counted_table(self) -> int | None:
        """The table whose rows the query counts, if it does nothing else."""
        if self._only_table is None:
            return None
        number, (last, *before) = self._only_table
        if json_node_type(last) != "Aggregate" or last["groupingExpressions"]:
            return None
        if not all(_counts_rows(column) for column in last["aggregateExpressions"]):
            return None
        kinds = [json_node_type(step) for step in before if step.get("projectList") != []]
        return number if kinds == ["LogicalRelation"] else None

    def grouped_table(self, types: Mapping[int, pa.Schema]) -> tuple[int, GroupedQuery] | None:
        """The table whose rows the query groups, and how, if that can be begun elsewhere.

        The optimizer may have moved conditions, but none of them to above the aggregate.
        """
        if self._only_table is None:
            return None
        number, optimized = self._only_table
        steps = [json_node_type(step) for step in optimized]
        if not _before_aggregates(steps) <= _CHOICES:
            return None
        analyzed = self._execution.analyzed()
        plan = json.loads(analyzed.toJSON())
        groupings = [step for step in plan if json_node_type(step) in _GROUPINGS]
        if len(groupings) != steps.count("Aggregate"):
            return None
        if not analyzed.deterministic() or analyzed.subqueriesAll().nonEmpty():
            return None
        aggregate = find_aggregate(plan, types[number])
        return None if aggregate is None else (number, GroupedQuery(aggregate, analyzed))

    def scans(self, types: Mapping[int, pa.Schema]) -> dict[int, list[RelationScan]]:
        """What is read of each table; one that no row of the answer depends on is missing."""
        plan = self._execution.executedPlan()
        limited = _limited_scan(plan)
        scans: dict[int, list[RelationScan]] = {}
        for leaf in _leaves(plan, "FileSourceScanExec"):
            number = _table_number(leaf.relation())
            if number is None:
                continue
            filters = elements(leaf.dataFilters())
            conditions = tuple(_condition(node, types[number]) for node in filters)
            limit = None
            if limited is not None and not conditions and leaf.equals(limited[0]):
                limit = limited[1]
            columns = frozenset(leaf.requiredSchema().fieldNames())
            scans.setdefault(number, []).append(RelationScan(columns, conditions, limit))
        for number, uses in self._uses().items():
            if uses > len(scans.get(number, ())):  # a recursive query hides what it repeats
                scans[number] = [RelationScan(frozenset(types[number].names), ())]
        return scans

    def _uses(self) -> Counter[int]:
        """How often each table is in the plan, before it is known how it will be run."""
        leaves = _leaves(self._execution.optimizedPlan(), "LogicalRelation")
        numbers = [_table_number(leaf.relation()) for leaf in leaves]
        return Counter(number for number in numbers if number is not None)


def _leaves(plan: JavaObject, kind: str) -> Iterator[JavaObject]:
    for part in (plan, *elements(plan.subqueriesAll())):
        yield from (leaf for leaf in elements(part.collectLeaves()) if node_type(leaf) == kind)


def _limited_scan(plan: JavaObject) -> tuple[JavaObject, int] | None:
    """The scan of a query that wants its first rows only, and how many."""
    if node_type(plan) != "CollectLimitExec" or plan.limit() < 0:
        return None
    limit, below = plan.limit(), plan.child()
    while node_type(below) in _KEEP_ROWS:
        below = below.child()
    return (below, limit) if node_type(below) == "FileSourceScanExec" else None


_GROUPINGS = {"Aggregate", "Distinct"}  # the optimizer makes the second into the first
_CHOICES = {"Filter", "LogicalRelation", "Project"}
_KEEP_ROWS = {"ProjectExec", "WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec"}
_COUNT = ["Alias", "AggregateExpression", "Count"]


def _counts_rows(expression: list[dict[str, Any]]) -> bool:
    """Whether an expression, given in Spark's JSON, is a `count` of what is never null."""
    head, values = expression[: len(_COUNT)], expression[len(_COUNT) :]
    if [json_node_type(node) for node in head] != _COUNT:
        return False
    call = head[_COUNT.index("AggregateExpression")]
    is_plain = not call["isDistinct"] and "filter" not in call
    return is_plain and all(
        json_node_type(value) == "Literal" and value.get("value") is not None for value in values
    )


def _before_aggregates(steps: Sequence[str]) -> set[str]:
    """The steps before the first aggregate; a plan lists the last step first."""
    return set(takewhile(lambda kind: kind != "Aggregate", reversed(steps)))


def _table_number(relation: JavaObject) -> int | None:
    if node_type(relation) != "HadoopFsRelation":
        return None
    number = relation.options().get(_NUMBER)
    return int(number.get()) if number.nonEmpty() else None


# -- conditions

_UNKNOWN = Call("", ())
_BLOB = b"lance-encoding:blob"

# Spark keeps a chain of a thousand conditions ten levels deep.
_DEEPEST = 50


def _condition(node: JavaObject, schema: pa.Schema, depth: int = 0) -> Expression:
    """A condition of Spark as `lance_filters` takes it; what it does not translate is unknown."""
    if depth > _DEEPEST:
        return _UNKNOWN
    kind = node_type(node)
    if kind in ("AttributeReference", "GetStructField"):
        return _column(node, schema) or _UNKNOWN
    if kind == "Literal":
        return _literal(node.value(), node.dataType().catalogString())
    if kind == "InSet":
        return _in_set(node, schema)
    if kind == "Cast" and node.dataType().catalogString() == "bigint":
        return Call("Cast to bigint", (_condition(node.child(), schema),))
    if kind == "Like" and str(node.escapeChar()) != "\\":
        return _UNKNOWN
    return Call(
        kind, tuple(_condition(child, schema, depth + 1) for child in elements(node.children()))
    )


def _column(node: JavaObject, schema: pa.Schema) -> Column | None:
    path: list[str] = []
    while node_type(node) == "GetStructField":
        path.insert(0, node.extractFieldName())
        node = node.child()
    if node_type(node) != "AttributeReference" or node.name() not in schema.names:
        return None
    field = schema.field(node.name())
    if _is_opaque(field):
        return None
    kind = field.type
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return Column((node.name(), *path), kind)


def _is_opaque(field: pa.Field) -> bool:
    """Whether Lance compares something else than the values of a column, as with blobs."""
    return isinstance(field.type, pa.BaseExtensionType) or _BLOB in (field.metadata or {})


def _in_set(node: JavaObject, schema: pa.Schema) -> Expression:
    values = node.hset()
    if values.size() > MOST_VALUES:
        return _UNKNOWN
    kind = node.child().dataType().catalogString()
    if kind in ("tinyint", "smallint", "int", "bigint") and not values.contains(None):
        listed = [int(text) for text in values.mkString(",").split(",")]  # in one round trip
    else:
        listed = list(elements(values.toSeq()))
    literals = [_literal(value, kind) for value in listed]
    return Call("InSet", (_condition(node.child(), schema), *literals))


def _literal(value: JavaObject, kind: str) -> Expression:
    if value is None:
        return Literal(None, kind)
    if kind == "string":
        try:
            return Literal(bytes(value.getBytes()).decode(), kind)
        except UnicodeDecodeError:
            return _UNKNOWN
    if kind.startswith("decimal("):
        return Literal(value.toJavaBigDecimal(), kind)
    if kind == "binary":
        return Literal(bytes(value), kind)
    return Literal(value, kind) if isinstance(value, bool | int | float) else _UNKNOWN
