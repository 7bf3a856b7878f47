"""A query as Spark parses it, with its table names left open.

Once relations are bound to the names, the plan is what Spark would have made of the query had it
known those tables. It is taken apart and put together in the JVM, never as text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from tiltyard.errors import InvalidInputError
from tiltyard.spark.catalyst.jvm import (
    SQL,
    JavaObject,
    analyzed_plan,
    dataframe,
    elements,
    java_array,
    java_expression,
    java_session,
    json_node_type,
    jvm_of,
    node_type,
)

Relations = Mapping[int, JavaObject]  # plans of tables, by their numbers in `ParsedQuery.tables`
Builder = Callable[[Relations], JavaObject]


@dataclass(frozen=True)
class TableReference:
    """One place where a query names a table, and which version it wants of it."""

    name: tuple[str, ...]
    version: str | None = None
    timestamp: str | None = None  # an expression of SQL
    options: Mapping[str, str] | None = None


class ParsedQuery:
    """A parsed query whose tables are not bound yet."""

    def __init__(self, spark: SparkSession, text: str, args: Any = None) -> None:
        self._spark = spark
        self._jvm = jvm_of(spark)
        self.tables: list[TableReference] = []
        parsed = self._parse(text, args)
        plan = self._jvm.sql("catalyst.analysis.CTESubstitution").apply(parsed)
        self._build = self._plan(plan) or (lambda relations: plan)
        self.count_columns = _count_columns(parsed) if len(self.tables) == 1 else None

    def run(self, frames: Mapping[int, DataFrame]) -> DataFrame:
        """The query over these DataFrames in place of its tables."""
        plans = {number: analyzed_plan(frame) for number, frame in frames.items()}
        return dataframe(self._spark, self.bind(plans))

    def bind(self, plans: Relations) -> JavaObject:
        """The plan of the query with these plans in place of its tables."""
        return self._build({number: self._aliased(number, plan) for number, plan in plans.items()})

    def _aliased(self, number: int, plan: JavaObject) -> JavaObject:
        """Under the table's full name, so that `a.b.c.column` is resolved too."""
        *namespace, name = self.tables[number].name
        alias = self._jvm.sql("catalyst.AliasIdentifier")(name, self._jvm.seq(namespace))
        return self._jvm.sql("catalyst.plans.logical.SubqueryAlias")(alias, plan)

    # -- parsing

    def _parse(self, text: str, args: Any) -> JavaObject:
        parser = java_session(self._spark).sessionState().sqlParser()
        parsed = _parse_query(parser, text)
        if not args:
            return parsed
        if isinstance(args, Mapping):
            named = {name: self._literal(value) for name, value in args.items()}
            context = self._jvm.sql("catalyst.parser.NamedParameterContext")(self._jvm.map(named))
        else:
            listed = [self._literal(value) for value in args]
            positional = self._jvm.sql("catalyst.parser.PositionalParameterContext")
            context = positional(self._jvm.seq(listed))
        return parser.parsePlanWithParameters(text, context)

    def _literal(self, value: Any) -> JavaObject:
        return java_expression(self._spark, lit(value))

    # -- finding the tables

    def _plan(self, node: JavaObject) -> Builder | None:
        """What makes this node anew once its tables are bound; None if it has none."""
        kind = node_type(node)
        if kind == "UnresolvedRelation":
            return self._table(node, TableReference(_name(node), options=_options(node)))
        if kind == "RelationTimeTravel":
            timestamp = _get(node.timestamp())
            return self._table(
                node,
                TableReference(
                    _name(node.relation()),
                    _get(node.version()),
                    None if timestamp is None else timestamp.sql(),
                    {},
                ),
            )
        builders = [self._plan(child) for child in elements(node.children())]
        own_fields = self._fields(node) if node.subqueries().nonEmpty() else None
        return self._rebuilding(node, own_fields, builders)

    def _table(self, node: JavaObject, reference: TableReference) -> Builder:
        number = len(self.tables)
        self.tables.append(reference)
        return lambda relations: relations.get(number, node)

    def _rebuilding(
        self, node: JavaObject, itself: Builder | None, builders: Sequence[Builder | None]
    ) -> Builder | None:
        """A node with other children, and before that with what `itself` makes of it."""
        if itself is None and not any(builders):
            return None
        children = list(elements(node.children()))

        def build(relations: Relations) -> JavaObject:
            rebuilt = node if itself is None else itself(relations)
            if not any(builders):
                return rebuilt
            return rebuilt.withNewChildren(
                self._jvm.seq(
                    child if builder is None else builder(relations)
                    for child, builder in zip(children, builders, strict=True)
                )
            )

        return build

    def _fields(self, node: JavaObject) -> Builder | None:
        """The same for the fields of a node, which hold the expressions with subqueries."""
        values = [node.productElement(position) for position in range(node.productArity())]
        builders = [self._field(value) for value in values]
        if not any(builders):
            return None

        def build(relations: Relations) -> JavaObject:
            fields = (
                value if builder is None else builder(relations)
                for value, builder in zip(values, builders, strict=True)
            )
            return node.makeCopy(java_array(self._spark, fields))

        return build

    def _field(self, value: JavaObject) -> Builder | None:
        if not hasattr(value, "getClass"):  # a text or a number, which py4j turns into Python's
            return None
        if self._is(value, "Expression"):
            return self._expression(value)
        if self._jvm.is_a(value, "scala.Option"):
            inside = self._field(value.get()) if value.nonEmpty() else None
            some = self._jvm("scala.Some")
            return None if inside is None else lambda relations: some(inside(relations))
        if self._jvm.is_a(value, "scala.collection.immutable.Seq"):
            values = list(elements(value))
            builders = [self._field(element) for element in values]
            if any(builders):
                return lambda relations: self._jvm.seq(
                    element if builder is None else builder(relations)
                    for element, builder in zip(values, builders, strict=True)
                )
        return None

    def _expression(self, node: JavaObject) -> Builder | None:
        plan = self._plan(node.plan()) if self._is(node, "PlanExpression") else None
        itself = None if plan is None else (lambda relations: node.withNewPlan(plan(relations)))
        return self._rebuilding(
            node, itself, [self._expression(child) for child in elements(node.children())]
        )

    def _is(self, value: JavaObject, name: str) -> bool:
        return self._jvm.is_a(value, f"{SQL}.catalyst.expressions.{name}")


_TABLES = {"UnresolvedRelation", "RelationTimeTravel"}


def _count_columns(parsed: JavaObject) -> tuple[str, ...] | None:
    """The columns of the answer, if all that a query does is to count the rows of a table."""
    if node_type(parsed) != "Project" or node_type(parsed.child()) not in _TABLES:
        return None
    columns = [_count_column(column) for column in json.loads(parsed.toJSON())[0]["projectList"]]
    names = tuple(name for name in columns if name is not None)
    return names if len(names) == len(columns) else None


def _count_column(expression: list[dict[str, Any]]) -> str | None:
    """The name of a column, given in Spark's JSON, if it is `count(*)`."""
    if [json_node_type(node) for node in expression[1:]] != ["UnresolvedFunction", "Literal"]:
        return None
    top, call, value = expression
    is_count = call["nameParts"].lower() == "[count]" and value["value"] == "1"
    if not is_count or call["isDistinct"] or "filter" in call:
        return None
    return str(top["name"]) if json_node_type(top) == "Alias" else "count(1)"


def _parse_query(parser: JavaObject, text: str) -> JavaObject:
    try:
        return parser.parseQuery(text)
    except PySparkException as error:
        statement = parser.parsePlan(text)  # raises Spark's error if it is no SQL at all
        raise InvalidInputError(
            f"sql() answers queries, and this is something else: {node_type(statement)}",
            hint="a table is written by DataFrame.write, and changed by tiltyard.spark's functions",
        ) from error


def _get(option: JavaObject) -> JavaObject | None:
    return option.get() if option.nonEmpty() else None


def _name(relation: JavaObject) -> tuple[str, ...]:
    return tuple(elements(relation.multipartIdentifier()))


def _options(relation: JavaObject) -> dict[str, str]:
    options = relation.options()
    return {} if options.isEmpty() else dict(options.asCaseSensitiveMap())
