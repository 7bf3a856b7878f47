"""A query as Spark parses it, with the places open where it names tables.

Filled with relations, the plan is what Spark would have made of the query had it known those
tables. It is taken apart and put together in the JVM, never as text.
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
from tiltyard.spark.jvm import SQL, Java, each_of, jvm_of, kind_of, kind_told

Bound = Mapping[int, Java]
Builder = Callable[[Bound], Java]


@dataclass(frozen=True)
class Relation:
    """One place where a query names a table, and which version it wants of it."""

    name: tuple[str, ...]
    version: str | None = None
    moment: Java | None = None
    options: Mapping[str, str] | None = None


class Query:
    """A parsed query whose tables are still open."""

    def __init__(self, spark: SparkSession, text: str, args: Any = None) -> None:
        self._spark = spark
        self._jvm = jvm_of(spark)
        self.relations: list[Relation] = []
        parsed = self._parse(text, args)
        plan = self._jvm.sql("catalyst.analysis.CTESubstitution").apply(parsed)
        self._fill = self._plan(plan) or (lambda bound: plan)
        self.counts = counts_of(parsed) if len(self.relations) == 1 else None

    # -- parsing

    def _parse(self, text: str, args: Any) -> Java:
        session = self._spark._jsparkSession
        parser = session.sessionState().sqlParser()
        parsed = _parse_query(parser, text)
        if not args:
            return parsed
        if isinstance(args, Mapping):
            values = {name: session.expression(lit(value)._jc) for name, value in args.items()}
            named = self._jvm.sql("catalyst.parser.NamedParameterContext")
            context = named(self._jvm.map(values))
        else:
            listed = [session.expression(lit(value)._jc) for value in args]
            positional = self._jvm.sql("catalyst.parser.PositionalParameterContext")
            context = positional(self._jvm.seq(listed))
        return parser.parsePlanWithParameters(text, context)

    # -- finding the tables

    def _plan(self, node: Java) -> Builder | None:
        """How to make this part of the plan anew once its tables are bound; None if it has none."""
        kind = kind_of(node)
        if kind == "UnresolvedRelation":
            return self._relation(node, Relation(_name(node), options=_options(node)))
        if kind == "RelationTimeTravel":
            named = node.relation()
            at = Relation(_name(named), _get(node.version()), _get(node.timestamp()), {})
            return self._relation(node, at)
        parts = [self._plan(child) for child in each_of(node.children())]
        inside = self._fields(node) if node.subqueries().nonEmpty() else None
        return self._rebuilding(node, inside, parts)

    def _relation(self, node: Java, found: Relation) -> Builder:
        number = len(self.relations)
        self.relations.append(found)
        return lambda bound: bound.get(number, node)

    def _rebuilding(
        self, node: Java, inside: Builder | None, parts: Sequence[Builder | None]
    ) -> Builder | None:
        """A node with other children, and before that with what `inside` makes of itself."""
        if inside is None and not any(parts):
            return None
        children = list(each_of(node.children()))

        def build(bound: Bound) -> Java:
            made = node if inside is None else inside(bound)
            if not any(parts):
                return made
            return made.withNewChildren(
                self._jvm.seq(
                    child if part is None else part(bound)
                    for child, part in zip(children, parts, strict=True)
                )
            )

        return build

    def _fields(self, node: Java) -> Builder | None:
        """The same for the expressions of a node, where subqueries are."""
        values = [node.productElement(at) for at in range(node.productArity())]
        parts = [self._field(value) for value in values]
        if not any(parts):
            return None

        def build(bound: Bound) -> Java:
            gateway: Any = self._spark.sparkContext._gateway
            made = gateway.new_array(self._jvm("java.lang.Object"), len(values))
            for at, (value, part) in enumerate(zip(values, parts, strict=True)):
                made[at] = value if part is None else part(bound)
            return node.makeCopy(made)

        return build

    def _field(self, value: Java) -> Builder | None:
        if not hasattr(value, "getClass"):  # a text or a number, which py4j turns into Python's
            return None
        if self._is(value, "Expression"):
            return self._expression(value)
        if self._jvm.is_a(value, "scala.Option"):
            inside = self._field(value.get()) if value.nonEmpty() else None
            some = self._jvm("scala.Some")
            return None if inside is None else lambda bound: some(inside(bound))
        if self._jvm.is_a(value, "scala.collection.immutable.Seq"):
            values = list(each_of(value))
            parts = [self._field(each) for each in values]
            if any(parts):
                return lambda bound: self._jvm.seq(
                    each if part is None else part(bound)
                    for each, part in zip(values, parts, strict=True)
                )
        return None

    def _expression(self, node: Java) -> Builder | None:
        plan = None
        if self._is(node, "PlanExpression"):
            plan = self._plan(node.plan())
        inside = None if plan is None else (lambda bound: node.withNewPlan(plan(bound)))
        return self._rebuilding(
            node, inside, [self._expression(child) for child in each_of(node.children())]
        )

    # -- binding them

    def answer(self, frames: Mapping[int, DataFrame]) -> DataFrame:
        """The query's answer with these frames for its tables."""
        plans = {number: frame._jdf.queryExecution().analyzed() for number, frame in frames.items()}
        return DataFrame(self.filled(self._spark._jsparkSession, plans), self._spark)

    def filled(self, session: Java, plans: Mapping[int, Java]) -> Java:
        """The frame that a session makes of the query with these plans for its tables."""
        aliased = {number: self._aliased(number, plan) for number, plan in plans.items()}
        return self._jvm.sql("classic.Dataset").ofRows(session, self._fill(aliased))

    def _aliased(self, number: int, plan: Java) -> Java:
        """Under the name that the query knows it by, so that `a.b.c.column` is found too."""
        *above, name = self.relations[number].name
        alias = self._jvm.sql("catalyst.AliasIdentifier")(name, self._jvm.seq(above))
        return self._jvm.sql("catalyst.plans.logical.SubqueryAlias")(alias, plan)

    def _is(self, value: Java, name: str) -> bool:
        return self._jvm.is_a(value, f"{SQL}.catalyst.expressions.{name}")


def counts_of(parsed: Java) -> tuple[str, ...] | None:
    """The columns of the answer, if all that a query does is to count the rows of a table."""
    if kind_of(parsed) != "Project" or kind_of(parsed.child()) not in _TABLES:
        return None
    found = [_count_name(each) for each in json.loads(parsed.toJSON())[0]["projectList"]]
    names = tuple(name for name in found if name is not None)
    return names if len(names) == len(found) else None


_TABLES = {"UnresolvedRelation", "RelationTimeTravel"}


def _count_name(expression: list[dict[str, Any]]) -> str | None:
    """What Spark calls a column, told in JSON, if it is `count(*)`."""
    if [kind_told(each) for each in expression[1:]] != ["UnresolvedFunction", "Literal"]:
        return None
    named, call, value = expression
    is_count = call["nameParts"].lower() == "[count]" and value["value"] == "1"
    if not is_count or call["isDistinct"] or "filter" in call:
        return None
    return str(named["name"]) if kind_told(named) == "Alias" else "count(1)"


def _parse_query(parser: Java, text: str) -> Java:
    try:
        return parser.parseQuery(text)
    except PySparkException as error:
        statement = parser.parsePlan(text)  # if it is nothing at all, Spark says so here
        raise InvalidInputError(
            f"sql() answers queries, and this is something else: {kind_of(statement)}",
            hint="a table is written by DataFrame.write, and changed by tiltyard.spark's functions",
        ) from error


def _get(option: Java) -> Java | None:
    return option.get() if option.nonEmpty() else None


def _name(relation: Java) -> tuple[str, ...]:
    return tuple(each_of(relation.multipartIdentifier()))


def _options(relation: Java) -> dict[str, str]:
    found = relation.options()
    return {} if found.isEmpty() else dict(found.asCaseSensitiveMap())
