"""Spark's own plan of a query, read and rewritten through the JVM.

A query is parsed by Spark, and each place where it names a table is kept open. Filled with stubs,
relations of a schema and no rows, the plan shows which columns and conditions Spark itself asks of
each; filled with scans that bring just those, it is the query's answer.

Only a classic session has a JVM to talk to.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from tiltyard.errors import InvalidInputError, UnsupportedOperationError
from tiltyard.spark.predicates import MOST_VALUES, Call, Column, Expression, Literal

Java = Any  # an object that lives in the JVM
Bound = Mapping[int, Java]
Builder = Callable[[Bound], Java]

# Only the plan is wanted: one that shows every scan once, in its own place.
_PLANNING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
_RELATION = "tiltyard.relation"

SQL = "org.apache.spark.sql"


@dataclass(frozen=True)
class Relation:
    """One place where a query names a table, and which version it wants of it."""

    name: tuple[str, ...]
    version: str | None = None
    moment: Java | None = None
    options: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Read:
    """What a plan takes from a relation in one scan: columns, by conditions, at most so many."""

    columns: frozenset[str]
    conditions: tuple[Expression, ...]
    limit: int | None = None


class Query:
    """A parsed query whose tables are still open."""

    def __init__(self, spark: SparkSession, text: str, args: Any = None) -> None:
        self._spark = spark
        self._java = java_of(spark)
        self.relations: list[Relation] = []
        plan = self._java.sql("catalyst.analysis.CTESubstitution").apply(self._parse(text, args))
        self._fill = self._plan(plan) or (lambda bound: plan)

    # -- parsing

    def _parse(self, text: str, args: Any) -> Java:
        session = self._spark._jsparkSession
        parser = session.sessionState().sqlParser()
        _check_is_query(parser, text)
        if not args:
            return parser.parsePlan(text)
        if isinstance(args, Mapping):
            values = {name: session.expression(lit(value)._jc) for name, value in args.items()}
            named = self._java.sql("catalyst.parser.NamedParameterContext")
            context = named(self._java.map(values))
        else:
            listed = [session.expression(lit(value)._jc) for value in args]
            positional = self._java.sql("catalyst.parser.PositionalParameterContext")
            context = positional(self._java.seq(listed))
        return parser.parsePlanWithParameters(text, context)

    # -- finding the tables

    def _plan(self, node: Java) -> Builder | None:
        """How to make this part of the plan anew once its tables are bound; None if it has none."""
        kind = _kind(node)
        if kind == "UnresolvedRelation":
            return self._relation(node, Relation(_name(node), options=_options(node)))
        if kind == "RelationTimeTravel":
            named = node.relation()
            at = Relation(_name(named), _get(node.version()), _get(node.timestamp()), {})
            return self._relation(node, at)
        parts = [self._plan(child) for child in _each(node.children())]
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
        children = list(_each(node.children()))

        def build(bound: Bound) -> Java:
            made = node if inside is None else inside(bound)
            if not any(parts):
                return made
            return made.withNewChildren(
                self._java.seq(
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
            made = gateway.new_array(self._java("java.lang.Object"), len(values))
            for at, (value, part) in enumerate(zip(values, parts, strict=True)):
                made[at] = value if part is None else part(bound)
            return node.makeCopy(made)

        return build

    def _field(self, value: Java) -> Builder | None:
        if not hasattr(value, "getClass"):  # a text or a number, which py4j turns into Python's
            return None
        if self._is(value, "Expression"):
            return self._expression(value)
        if self._java.is_a(value, "scala.Option"):
            inside = self._field(value.get()) if value.nonEmpty() else None
            some = self._java("scala.Some")
            return None if inside is None else lambda bound: some(inside(bound))
        if self._java.is_a(value, "scala.collection.immutable.Seq"):
            values = list(_each(value))
            parts = [self._field(each) for each in values]
            if any(parts):
                return lambda bound: self._java.seq(
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
            node, inside, [self._expression(child) for child in _each(node.children())]
        )

    # -- binding them

    def answer(self, frames: Mapping[int, DataFrame]) -> DataFrame:
        """The query's answer with these frames for its tables."""
        plan = self._fill(
            {
                number: self._aliased(number, frame._jdf.queryExecution().analyzed())
                for number, frame in frames.items()
            }
        )
        return DataFrame(self._rows(self._spark._jsparkSession, plan), self._spark)

    def planned(self, schemas: Mapping[int, StructType]) -> Planned:
        """Spark's plan of the query, if its tables have these schemas."""
        session = _planning_session(self._spark)
        stubs = {
            number: self._aliased(
                number, _stub(self._java, session, number, schema).queryExecution().analyzed()
            )
            for number, schema in schemas.items()
        }
        return Planned(self._rows(session, self._fill(stubs)).queryExecution())

    def _rows(self, session: Java, plan: Java) -> Java:
        return self._java.sql("classic.Dataset").ofRows(session, plan)

    def _aliased(self, number: int, plan: Java) -> Java:
        """Under the name that the query knows it by, so that `a.b.c.column` is found too."""
        *above, name = self.relations[number].name
        alias = self._java.sql("catalyst.AliasIdentifier")(name, self._java.seq(above))
        return self._java.sql("catalyst.plans.logical.SubqueryAlias")(alias, plan)

    def _is(self, value: Java, name: str) -> bool:
        return self._java.is_a(value, f"{SQL}.catalyst.expressions.{name}")


def _check_is_query(parser: Java, text: str) -> None:
    try:
        parser.parseQuery(text)
    except PySparkException as error:
        statement = parser.parsePlan(text)  # if it is nothing at all, Spark says so here
        raise InvalidInputError(
            f"sql() answers queries, and this is something else: {_kind(statement)}",
            hint="a table is written by DataFrame.write, and changed by tiltyard.spark's functions",
        ) from error


def conditions_of(
    spark: SparkSession, schema: StructType, types: pa.Schema, where: str
) -> tuple[Expression, ...] | None:
    """A condition as Spark understands it, in parts that must all hold; None: it never does."""
    stub = _stub(java_of(spark), _planning_session(spark), 0, schema)
    reads = Planned(stub.where(where).queryExecution()).reads({0: types})
    return reads[0][0].conditions if reads else None


def _planning_session(spark: SparkSession) -> Java:
    """The same session with its views and settings, but for those that hide what a plan reads."""
    session = spark._jsparkSession.cloneSession()
    for name, value in _PLANNING.items():
        session.conf().set(name, value)
    return session


def _stub(java: _Java, session: Java, number: int, schema: StructType) -> Java:
    """A Parquet relation without files. In those everything may be null, so that no plan relies
    on a column which it does not read."""
    sources = "execution.datasources"
    nothing = java("scala.Option").empty()
    cache = java.sql(f"{sources}.FileStatusCache").getOrCreate(session)
    files = java.sql(f"{sources}.InMemoryFileIndex")(
        session, java.seq([]), java.map({}), nothing, cache, nothing, nothing
    )
    relation = java.sql(f"{sources}.HadoopFsRelation")(
        files,
        java.sql("types.StructType")(),
        java.sql("types.DataType").fromJson(schema.json()).asNullable(),
        nothing,
        java.sql(f"{sources}.parquet.ParquetFileFormat")(),
        java.map({_RELATION: str(number)}),
        session,
    )
    return session.baseRelationToDataFrame(relation)


class Planned:
    """Spark's plan of a query over stubs."""

    def __init__(self, execution: Java) -> None:
        self._execution = execution

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self._execution.analyzed().schema().json()))

    def counted(self) -> int | None:
        """The relation whose rows the query counts, if it does nothing else."""
        plan = self._execution.optimizedPlan()
        if _kind(plan) != "Aggregate" or plan.groupingExpressions().nonEmpty():
            return None
        if not all(_counts_rows(each) for each in _each(plan.aggregateExpressions())):
            return None
        below = plan.child()
        if _kind(below) == "Project" and below.projectList().isEmpty():
            below = below.child()
        return _number(below.relation()) if _kind(below) == "LogicalRelation" else None

    def reads(self, types: Mapping[int, pa.Schema]) -> dict[int, list[Read]]:
        """What each relation is asked for; one that no row of the answer depends on is missing."""
        plan = self._execution.executedPlan()
        limited = _limited(plan)
        found: dict[int, list[Read]] = {}
        for leaf in _leaves(plan, "FileSourceScanExec"):
            number = _number(leaf.relation())
            if number is not None:
                conditions = [_read(each, types[number]) for each in _each(leaf.dataFilters())]
                is_limited = limited is not None and not conditions and leaf.equals(limited[0])
                read = Read(
                    frozenset(leaf.requiredSchema().fieldNames()),
                    tuple(conditions),
                    limited[1] if limited is not None and is_limited else None,
                )
                found.setdefault(number, []).append(read)
        for number, uses in self._uses().items():
            if uses > len(found.get(number, ())):  # a recursive query hides what it repeats
                found[number] = [Read(frozenset(types[number].names), ())]
        return found

    def _uses(self) -> Counter[int]:
        """How often each relation is in the plan, before it is known how it will be run."""
        leaves = _leaves(self._execution.optimizedPlan(), "LogicalRelation")
        numbers = [_number(leaf.relation()) for leaf in leaves]
        return Counter(number for number in numbers if number is not None)


def _leaves(plan: Java, kind: str) -> Iterator[Java]:
    for part in (plan, *_each(plan.subqueriesAll())):
        yield from (leaf for leaf in _each(part.collectLeaves()) if _kind(leaf) == kind)


def _limited(plan: Java) -> tuple[Java, int] | None:
    """The scan of a query that only wants its first rows, and how many."""
    if _kind(plan) != "CollectLimitExec" or plan.limit() < 0:
        return None
    limit, below = plan.limit(), plan.child()
    while _kind(below) in _PASSING:
        below = below.child()
    return (below, limit) if _kind(below) == "FileSourceScanExec" else None


_PASSING = {"ProjectExec", "WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec"}


def _counts_rows(expression: Java) -> bool:
    if _kind(expression) != "Alias" or _kind(expression.child()) != "AggregateExpression":
        return False
    call = expression.child()
    counted = call.aggregateFunction()
    if call.isDistinct() or call.filter().nonEmpty() or _kind(counted) != "Count":
        return False
    return all(
        _kind(each) == "Literal" and each.value() is not None for each in _each(counted.children())
    )


def _number(relation: Java) -> int | None:
    if _kind(relation) != "HadoopFsRelation":
        return None
    found = relation.options().get(_RELATION)
    return int(found.get()) if found.nonEmpty() else None


# ---------------------------------------------------------------- conditions

_UNKNOWN = Call("", ())

# Spark keeps a chain of a thousand conditions ten levels deep.
DEEPEST = 50


def _read(node: Java, schema: pa.Schema, depth: int = 0) -> Expression:
    """A condition of Spark as the translation takes it; what it has no use for stays unknown."""
    if depth > DEEPEST:
        return _UNKNOWN
    kind = _kind(node)
    if kind in ("AttributeReference", "GetStructField"):
        return _column(node, schema) or _UNKNOWN
    if kind == "Literal":
        return _literal(node.value(), node.dataType().catalogString())
    if kind == "InSet":
        return _listed(node, schema)
    if kind == "Cast" and node.dataType().catalogString() == "bigint":
        return Call("Cast to bigint", (_read(node.child(), schema),))
    if kind == "Like" and str(node.escapeChar()) != "\\":
        return _UNKNOWN
    return Call(kind, tuple(_read(each, schema, depth + 1) for each in _each(node.children())))


def _column(node: Java, schema: pa.Schema) -> Column | None:
    path: list[str] = []
    while _kind(node) == "GetStructField":
        path.insert(0, node.extractFieldName())
        node = node.child()
    if _kind(node) != "AttributeReference" or node.name() not in schema.names:
        return None
    kind = schema.field(node.name()).type
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return Column((node.name(), *path), kind)


def _listed(node: Java, schema: pa.Schema) -> Expression:
    values = node.hset()
    if values.size() > MOST_VALUES:
        return _UNKNOWN
    kind = node.child().dataType().catalogString()
    if kind in ("tinyint", "smallint", "int", "bigint") and not values.contains(None):
        found = [int(each) for each in values.mkString(",").split(",")]  # in one round trip
    else:
        found = list(_each(values.toSeq()))
    return Call("InSet", (_read(node.child(), schema), *(_literal(each, kind) for each in found)))


def _literal(value: Java, kind: str) -> Expression:
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


# ---------------------------------------------------------------- the JVM


def shows_plans(spark: SparkSession) -> bool:
    return hasattr(spark, "_jsparkSession")


class _Java:
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


def java_of(spark: SparkSession) -> _Java:
    if not shows_plans(spark):
        raise UnsupportedOperationError(
            "sql() reads Spark's own plan, and Spark Connect shows none",
            hint="tiltyard.spark.attach(spark, root) makes views, which spark.sql() reads",
        )
    return _known(spark._jvm)


@lru_cache(maxsize=4)
def _known(jvm: Java) -> _Java:
    return _Java(jvm)


def _kind(node: Java) -> str:
    return str(node.getClass().getSimpleName())


def _each(values: Java) -> Iterator[Java]:
    for at in range(values.size()):
        yield values.apply(at)


def _get(option: Java) -> Java | None:
    return option.get() if option.nonEmpty() else None


def _name(relation: Java) -> tuple[str, ...]:
    return tuple(_each(relation.multipartIdentifier()))


def _options(relation: Java) -> dict[str, str]:
    found = relation.options()
    return {} if found.isEmpty() else dict(found.asCaseSensitiveMap())
