"""Queries that group the rows of one table: which they are, and how Spark ends what Arrow begins.

Such a query is a chain of steps over one table, and the first step that does more than choose rows
and columns is an aggregate of plain columns. The aggregate is begun where the rows are read (see
`partial_aggregates`), and its place in Spark's plan is taken by one over the partial results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tiltyard.spark.catalyst.jvm import (
    JavaObject,
    Jvm,
    analyzed_plan,
    dataframe,
    elements,
    java_session,
    json_node_type,
    jvm_of,
)
from tiltyard.spark.partial_aggregates import (
    Grouping,
    PartialAggregate,
    is_number,
    is_plain,
    partial_name,
)
from tiltyard.spark.types import quoted

# Steps that take rows of one table to rows of another, whatever the rows are.
_STEPS = {"Aggregate", "Distinct", "Filter", "GlobalLimit", "LocalLimit", "Offset", "Project"}
_STEPS |= {"Sort", "SubqueryAlias"}
# Steps that only choose among the rows and columns of a table.
_CHOICES = {"Filter", "Project", "SubqueryAlias"}

_FUNCTIONS = {"Sum": "sum", "Min": "min", "Max": "max", "Count": "count", "Average": "mean"}


@dataclass(frozen=True)
class Node:
    """A node of an expression, from Spark's JSON."""

    fields: dict[str, Any]
    children: tuple[Node, ...]

    @property
    def kind(self) -> str:
        return json_node_type(self.fields)

    @property
    def id(self) -> int:
        return int(self.fields["exprId"]["id"])


def _tree(nodes: Iterator[dict[str, Any]]) -> Node:
    """Spark lists a node before its children."""
    top = next(nodes)
    return Node(top, tuple(_tree(nodes) for _ in range(top["num-children"])))


def _trees(expressions: Sequence[list[dict[str, Any]]]) -> list[Node]:
    return [_tree(iter(expression)) for expression in expressions]


@dataclass(frozen=True)
class Aggregate:
    """The aggregate of a query, and how deep it is below the other steps."""

    depth: int
    grouping: Grouping
    outputs: tuple[Node, ...]
    columns: Mapping[int, str]  # of the table, by their ids in the outputs
    has_conditions: bool  # whether rows are filtered before they are grouped


@dataclass(frozen=True)
class GroupedQuery:
    """A query whose aggregate can be begun elsewhere."""

    aggregate: Aggregate
    analyzed: JavaObject

    def run(self, spark: SparkSession, partials: DataFrame) -> DataFrame:
        """The query's answer, from partial results of its aggregate."""
        final = _FinalAggregate(spark, self.aggregate, partials)
        return dataframe(spark, final.plan(self.analyzed, self.aggregate.depth))


def find_aggregate(plan: Sequence[dict[str, Any]], types: pa.Schema) -> Aggregate | None:
    """The aggregate that can be begun elsewhere, if there is one.

    `plan` are the steps of Spark's analyzed plan; `types` are the columns as they are sent.
    """
    kinds = [json_node_type(step) for step in plan]
    if not set(kinds[:-1]) <= _STEPS or "Aggregate" not in kinds:
        return None
    depth = max(position for position, kind in enumerate(kinds) if kind == "Aggregate")
    below = plan[depth + 1 : -1]
    if not set(kinds[depth + 1 : -1]) <= _CHOICES:
        return None
    columns = _columns(below, plan[-1])
    outputs = tuple(_trees(plan[depth]["aggregateExpressions"]))
    keys = _trees(plan[depth]["groupingExpressions"])
    grouping = _GroupingReader(columns, types).read(keys, outputs)
    if grouping is None:
        return None
    return Aggregate(depth, grouping, outputs, columns, "Filter" in kinds[depth:])


def _columns(below: Sequence[dict[str, Any]], table: dict[str, Any]) -> dict[int, str]:
    """The columns of the table, by their ids in the aggregate."""
    columns = {node.id: str(node.fields["name"]) for node in _trees(table["output"])}
    for step in reversed(below):
        if json_node_type(step) == "Project":
            for node in _trees(step["projectList"]):
                inside = node.children[0] if node.kind == "Alias" else node
                if inside.kind == "AttributeReference" and inside.id in columns:
                    columns[node.id] = columns[inside.id]
    return columns


class _GroupingReader:
    """What an aggregate makes of the columns of a table."""

    def __init__(self, columns: Mapping[int, str], types: pa.Schema) -> None:
        self._columns = columns
        self._types = types
        self._partials: dict[PartialAggregate, None] = {}

    def read(self, keys: Sequence[Node], outputs: Sequence[Node]) -> Grouping | None:
        names = [name for key in keys if (name := self._key_column(key)) is not None]
        ids = {key.id for key in keys if key.kind == "AttributeReference"}
        if not len(names) == len(ids) == len(keys):
            return None
        if not all(self._can_begin(output, ids) for output in outputs):
            return None
        if not names and not self._partials:
            return None
        return Grouping(tuple(names), tuple(self._partials))

    def _can_begin(self, node: Node, keys: set[int]) -> bool:
        """Whether an output is made of keys and of aggregates that can be begun elsewhere."""
        if node.kind == "AggregateExpression":
            partials = _partials_of(node, self._columns)
            if partials is None or not all(map(self._suits, partials)):
                return False
            self._partials.update(dict.fromkeys(partials))
            return True
        if node.kind == "AttributeReference":
            return node.id in keys
        return all(self._can_begin(child, keys) for child in node.children)

    def _key_column(self, node: Node) -> str | None:
        name = self._columns.get(node.id) if node.kind == "AttributeReference" else None
        return name if name is not None and is_plain(self._types.field(name).type) else None

    def _suits(self, partial: PartialAggregate) -> bool:
        if partial.column is None:
            return True
        kind = self._types.field(partial.column).type
        return is_number(kind) if partial.function in ("sum", "mean") else is_plain(kind)


def _partials_of(node: Node, columns: Mapping[int, str]) -> tuple[PartialAggregate, ...] | None:
    """The partial results that make up an aggregate of Spark; None if it has to see the rows."""
    call = node.children[0]
    function = _FUNCTIONS.get(call.kind)
    if function is None or node.fields["isDistinct"] or len(node.children) > 1:
        return None
    if len(call.children) != 1:
        return None
    (value,) = call.children
    if function == "count" and value.kind == "Literal" and value.fields.get("value") is not None:
        return (PartialAggregate("count"),)
    column = columns.get(value.id) if value.kind == "AttributeReference" else None
    if column is None:
        return None
    first = PartialAggregate(function, column)
    return (first, PartialAggregate("count", column)) if function == "mean" else (first,)


class _FinalAggregate:
    """Spark's plan, with partial results where the aggregate took rows."""

    def __init__(self, spark: SparkSession, aggregate: Aggregate, partials: DataFrame) -> None:
        self._jvm: Jvm = jvm_of(spark)
        self._parser = java_session(spark).sessionState().sqlParser()
        self._aggregate = aggregate
        self._partials: JavaObject = analyzed_plan(partials)
        self._attributes = list(elements(self._partials.output()))

    def plan(self, node: JavaObject, depth: int) -> JavaObject:
        if depth:
            (child,) = elements(node.children())
            return node.withNewChildren(self._jvm.seq([self.plan(child, depth - 1)]))
        outputs = [
            self._output(expression, output)
            for expression, output in zip(
                elements(node.aggregateExpressions()), self._aggregate.outputs, strict=True
            )
        ]
        keys = node.groupingExpressions()
        return node.copy(keys, self._jvm.seq(outputs), self._with_keys(keys), node.hint())

    def _with_keys(self, keys: JavaObject) -> JavaObject:
        """The partial results, with the keys under the names and ids of the query."""
        alias, none = self._jvm.sql("catalyst.expressions.Alias"), self._jvm("scala.Option").empty()
        empty = self._jvm.seq([])
        named = [
            alias(attribute, key.name(), key.exprId(), empty, none, empty)
            for key, attribute in zip(elements(keys), self._attributes, strict=False)
        ]
        columns = self._jvm.seq([*named, *self._attributes[len(named) :]])
        return self._jvm.sql("catalyst.plans.logical.Project")(columns, self._partials)

    def _output(self, expression: JavaObject, node: Node) -> JavaObject:
        """An output of the aggregate, made of partial results."""
        if node.kind == "AggregateExpression":
            return self._combined(expression, node)
        if not node.children:
            return expression
        children = [
            self._output(java_child, child)
            for java_child, child in zip(
                elements(expression.children()), node.children, strict=True
            )
        ]
        return expression.withNewChildren(self._jvm.seq(children))

    def _combined(self, expression: JavaObject, node: Node) -> JavaObject:
        partials = _partials_of(node, self._aggregate.columns) or ()
        grouping = self._aggregate.grouping
        positions = [grouping.partials.index(partial) for partial in partials]
        sums = [f"sum({quoted(partial_name(position))})" for position in positions]
        if partials[0].function == "count":
            return self._parser.parseExpression(f"coalesce({sums[0]}, 0L)")
        if partials[0].function == "mean":
            return self._parser.parseExpression(f"try_divide({sums[0]}, {sums[1]})")
        attribute = self._attributes[len(grouping.keys) + positions[0]]
        call = expression.aggregateFunction().withNewChildren(self._jvm.seq([attribute]))
        return expression.withNewChildren(self._jvm.seq([call]))
