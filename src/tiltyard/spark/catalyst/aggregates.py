"""Queries that group the rows of one table: which they are, and how Spark ends what Arrow begins.

Such a query is a chain of steps over one table, and the first step that does more than choose rows
and columns is an aggregate of plain columns. The aggregate is begun where the rows are read, and
its place in Spark's plan is taken by one that puts the partial answers together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tiltyard.spark.jvm import Java, Jvm, each_of, jvm_of, kind_told
from tiltyard.spark.partials import Grouping, Part, is_number, is_plain, part_name
from tiltyard.spark.types import quoted

# Steps that take rows of one kind to rows of another, whatever the rows are.
_STEPS = {"Aggregate", "Distinct", "Filter", "GlobalLimit", "LocalLimit", "Offset", "Project"}
_STEPS |= {"Sort", "SubqueryAlias"}
# Steps that only choose among the rows and columns of a table.
_CHOICES = {"Filter", "Project", "SubqueryAlias"}

_FUNCTIONS = {"Sum": "sum", "Min": "min", "Max": "max", "Count": "count", "Average": "mean"}


@dataclass(frozen=True)
class Node:
    """A part of an expression, as Spark tells it in JSON."""

    told: dict[str, Any]
    children: tuple[Node, ...]

    @property
    def kind(self) -> str:
        return kind_told(self.told)

    @property
    def id(self) -> int:
        return int(self.told["exprId"]["id"])


def _tree(told: Iterator[dict[str, Any]]) -> Node:
    """Spark lists a node before its children."""
    top = next(told)
    return Node(top, tuple(_tree(told) for _ in range(top["num-children"])))


def _trees(expressions: Sequence[list[dict[str, Any]]]) -> list[Node]:
    return [_tree(iter(each)) for each in expressions]


@dataclass(frozen=True)
class Grouped:
    """The aggregate of a query, and how deep it lies under the other steps."""

    depth: int
    grouping: Grouping
    outputs: tuple[Node, ...]
    columns: Mapping[int, str]  # of the table, by the ids that the outputs know them by
    chooses: bool  # whether the query has conditions that are settled before it groups

    def answer(self, spark: SparkSession, analyzed: Java, partials: DataFrame) -> DataFrame:
        """The query's answer, from partial answers of its aggregate."""
        plan = _Ending(spark, self, partials).plan(analyzed, self.depth)
        frame = jvm_of(spark).sql("classic.Dataset").ofRows(spark._jsparkSession, plan)
        return DataFrame(frame, spark)


def find_grouped(plan: Sequence[dict[str, Any]], types: pa.Schema) -> Grouped | None:
    """The aggregate that can be begun elsewhere, if there is one.

    `plan` are the steps of Spark's analyzed plan; `types` are those that the columns come in.
    """
    kinds = [kind_told(step) for step in plan]
    if not set(kinds[:-1]) <= _STEPS or "Aggregate" not in kinds:
        return None
    depth = max(at for at, kind in enumerate(kinds) if kind == "Aggregate")
    below = plan[depth + 1 : -1]
    if not set(kinds[depth + 1 : -1]) <= _CHOICES:
        return None
    columns = _columns(below, plan[-1])
    outputs = tuple(_trees(plan[depth]["aggregateExpressions"]))
    keys = _trees(plan[depth]["groupingExpressions"])
    grouping = _Reading(columns, types).grouping(keys, outputs)
    if grouping is None:
        return None
    return Grouped(depth, grouping, outputs, columns, "Filter" in kinds[depth:])


def _columns(below: Sequence[dict[str, Any]], table: dict[str, Any]) -> dict[int, str]:
    """The columns of the table by the ids that the aggregate knows them by."""
    known = {each.id: str(each.told["name"]) for each in _trees(table["output"])}
    for step in reversed(below):
        if kind_told(step) == "Project":
            for each in _trees(step["projectList"]):
                inside = each.children[0] if each.kind == "Alias" else each
                if inside.kind == "AttributeReference" and inside.id in known:
                    known[each.id] = known[inside.id]
    return known


class _Reading:
    """What an aggregate makes of the columns of a table."""

    def __init__(self, columns: Mapping[int, str], types: pa.Schema) -> None:
        self._columns = columns
        self._types = types
        self._parts: dict[Part, None] = {}

    def grouping(self, keys: Sequence[Node], outputs: Sequence[Node]) -> Grouping | None:
        names = [name for each in keys if (name := self._column(each)) is not None]
        ids = {each.id for each in keys if each.kind == "AttributeReference"}
        if not len(names) == len(ids) == len(keys):
            return None
        if not all(self._is_ours(each, ids) for each in outputs):
            return None
        return Grouping(tuple(names), tuple(self._parts)) if names or self._parts else None

    def _is_ours(self, node: Node, keys: set[int]) -> bool:
        """Whether an output is made of keys and of aggregates that can be begun elsewhere."""
        if node.kind == "AggregateExpression":
            parts = parts_of(node, self._columns)
            if parts is None or not all(map(self._suits, parts)):
                return False
            self._parts.update(dict.fromkeys(parts))
            return True
        if node.kind == "AttributeReference":
            return node.id in keys
        return all(self._is_ours(each, keys) for each in node.children)

    def _column(self, node: Node) -> str | None:
        name = self._columns.get(node.id) if node.kind == "AttributeReference" else None
        return name if name is not None and is_plain(self._types.field(name).type) else None

    def _suits(self, part: Part) -> bool:
        if part.column is None:
            return True
        kind = self._types.field(part.column).type
        return is_number(kind) if part.function in ("sum", "mean") else is_plain(kind)


def parts_of(node: Node, columns: Mapping[int, str]) -> tuple[Part, ...] | None:
    """What an aggregate of Spark is put together from; None if it has to see the rows."""
    call = node.children[0]
    function = _FUNCTIONS.get(call.kind)
    if function is None or node.told["isDistinct"] or len(node.children) > 1:
        return None
    if len(call.children) != 1:
        return None
    (value,) = call.children
    if function == "count" and value.kind == "Literal" and value.told.get("value") is not None:
        return (Part("count"),)
    column = columns.get(value.id) if value.kind == "AttributeReference" else None
    if column is None:
        return None
    first = Part(function, column)
    return (first, Part("count", column)) if function == "mean" else (first,)


class _Ending:
    """Spark's plan, with partial answers where the aggregate took rows."""

    def __init__(self, spark: SparkSession, grouped: Grouped, partials: DataFrame) -> None:
        self._jvm: Jvm = jvm_of(spark)
        self._parser = spark._jsparkSession.sessionState().sqlParser()
        self._grouped = grouped
        self._partials: Java = partials._jdf.queryExecution().analyzed()
        self._attributes = list(each_of(self._partials.output()))

    def plan(self, node: Java, depth: int) -> Java:
        if depth:
            (child,) = each_of(node.children())
            return node.withNewChildren(self._jvm.seq([self.plan(child, depth - 1)]))
        outputs = [
            self._ended(expression, told)
            for expression, told in zip(
                each_of(node.aggregateExpressions()), self._grouped.outputs, strict=True
            )
        ]
        keys = node.groupingExpressions()
        return node.copy(keys, self._jvm.seq(outputs), self._named(keys), node.hint())

    def _named(self, keys: Java) -> Java:
        """The partial answers, the keys among them known as the query knows them."""
        alias, none = self._jvm.sql("catalyst.expressions.Alias"), self._jvm("scala.Option").empty()
        nothing = self._jvm.seq([])
        named = [
            alias(found, key.name(), key.exprId(), nothing, none, nothing)
            for key, found in zip(each_of(keys), self._attributes, strict=False)
        ]
        listed = self._jvm.seq([*named, *self._attributes[len(named) :]])
        return self._jvm.sql("catalyst.plans.logical.Project")(listed, self._partials)

    def _ended(self, expression: Java, told: Node) -> Java:
        """An output of the aggregate, made of partial answers."""
        if told.kind == "AggregateExpression":
            return self._put_together(expression, told)
        if not told.children:
            return expression
        children = [
            self._ended(child, each)
            for child, each in zip(each_of(expression.children()), told.children, strict=True)
        ]
        return expression.withNewChildren(self._jvm.seq(children))

    def _put_together(self, expression: Java, told: Node) -> Java:
        parts = parts_of(told, self._grouped.columns) or ()
        places = [self._grouped.grouping.parts.index(part) for part in parts]
        sums = [f"sum({quoted(part_name(at))})" for at in places]
        if parts[0].function == "count":
            return self._parser.parseExpression(f"coalesce({sums[0]}, 0L)")
        if parts[0].function == "mean":
            return self._parser.parseExpression(f"try_divide({sums[0]}, {sums[1]})")
        partial = self._attributes[len(self._grouped.grouping.keys) + places[0]]
        call = expression.aggregateFunction().withNewChildren(self._jvm.seq([partial]))
        return expression.withNewChildren(self._jvm.seq([call]))
