"""What Spark's own plan of a query takes from each of its tables.

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

from tiltyard.spark.aggregates import Grouped, find_grouped
from tiltyard.spark.conditions import read_condition
from tiltyard.spark.jvm import Java, Jvm, each_of, jvm_of, kind_of, kind_told
from tiltyard.spark.predicates import Expression
from tiltyard.spark.queries import Query

# Only the plan is wanted: one that shows every scan once, in its own place.
_PLANNING = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
}
_RELATION = "tiltyard.relation"
_SOURCES = "execution.datasources"


@dataclass(frozen=True)
class Read:
    """What a plan takes from a relation in one scan: columns, by conditions, at most so many."""

    columns: frozenset[str]
    conditions: tuple[Expression, ...]
    limit: int | None = None


def plan_of(spark: SparkSession, query: Query, schemas: Mapping[int, StructType]) -> Planned:
    """Spark's plan of a query, if its tables have these schemas."""
    session = _planning_session(spark)
    stubs = _Stubs(jvm_of(spark), session)
    plans = {
        number: stubs.make(number, schema).queryExecution().analyzed()
        for number, schema in schemas.items()
    }
    return Planned(jvm_of(spark), query.filled(session, plans).queryExecution())


def conditions_of(
    spark: SparkSession, schema: StructType, types: pa.Schema, where: str
) -> tuple[Expression, ...] | None:
    """A condition as Spark understands it, in parts that must all hold; None: it never does."""
    jvm = jvm_of(spark)
    stub = _Stubs(jvm, _planning_session(spark)).make(0, schema)
    reads = Planned(jvm, stub.where(where).queryExecution()).reads({0: types})
    return reads[0][0].conditions if reads else None


def _planning_session(spark: SparkSession) -> Java:
    """The same session with its views and settings, but for those that hide what a plan reads."""
    session = spark._jsparkSession.cloneSession()
    settings = session.conf()
    for name, value in _PLANNING.items():
        settings.set(name, value)
    return session


class _Stubs:
    """Parquet relations without files. In those everything may be null, so that no plan relies on
    a column which it does not read."""

    def __init__(self, jvm: Jvm, session: Java) -> None:
        self._jvm = jvm
        self._session = session
        self._nothing = jvm("scala.Option").empty()
        self._no_columns = jvm.sql("types.StructType")()
        self._format = jvm.sql(f"{_SOURCES}.parquet.ParquetFileFormat")()
        cache = jvm.sql(f"{_SOURCES}.FileStatusCache").getOrCreate(session)
        none, empty = self._nothing, jvm.map({})
        self._files = jvm.sql(f"{_SOURCES}.InMemoryFileIndex")(
            session, jvm.seq([]), empty, none, cache, none, none
        )

    def make(self, number: int, schema: StructType) -> Java:
        relation = self._jvm.sql(f"{_SOURCES}.HadoopFsRelation")(
            self._files,
            self._no_columns,
            self._jvm.sql("types.DataType").fromJson(schema.json()).asNullable(),
            self._nothing,
            self._format,
            self._jvm.map({_RELATION: str(number)}),
            self._session,
        )
        return self._session.baseRelationToDataFrame(relation)


class Planned:
    """Spark's plan of a query over stubs."""

    def __init__(self, jvm: Jvm, execution: Java) -> None:
        self._jvm = jvm
        self._execution = execution

    @property
    def schema(self) -> StructType:
        return StructType.fromJson(json.loads(self._execution.analyzed().schema().json()))

    @property
    def analyzed(self) -> Java:
        return self._execution.analyzed()

    @cached_property
    def _steps(self) -> tuple[int, list[dict[str, Any]]] | None:
        """The one relation of a plan that aggregates and has no other, and what is done with it,
        from above."""
        plan = self._execution.optimizedPlan()
        if not plan.containsPattern(self._jvm.sql("catalyst.trees.TreePattern.AGGREGATE")()):
            return None
        leaves = plan.collectLeaves()
        if leaves.size() != 1 or kind_of(leaves.apply(0)) != "LogicalRelation":
            return None
        number = _number(leaves.apply(0).relation())
        if number is None or plan.subqueriesAll().nonEmpty():
            return None
        return number, json.loads(plan.toJSON())

    def counted(self) -> int | None:
        """The relation whose rows the query counts, if it does nothing else."""
        if self._steps is None:
            return None
        number, (top, *below) = self._steps
        if kind_told(top) != "Aggregate" or top["groupingExpressions"]:
            return None
        if not all(_counts_rows(each) for each in top["aggregateExpressions"]):
            return None
        kinds = [kind_told(each) for each in below if each.get("projectList") != []]
        return number if kinds == ["LogicalRelation"] else None

    def grouped(self, types: Mapping[int, pa.Schema]) -> tuple[int, Grouped] | None:
        """The relation whose rows the query groups, and how, if that can be begun elsewhere.

        The optimizer may have moved conditions, but none of them to above the aggregate.
        """
        if self._steps is None:
            return None
        number, optimized = self._steps
        steps = [kind_told(each) for each in optimized]
        if not _below_aggregates(steps) <= _CHOOSING:
            return None
        plan = json.loads(self.analyzed.toJSON())
        if len([each for each in plan if kind_told(each) in _GROUPING]) != steps.count("Aggregate"):
            return None
        if not self.analyzed.deterministic() or self.analyzed.subqueriesAll().nonEmpty():
            return None
        found = find_grouped(plan, types[number])
        return None if found is None else (number, found)

    def reads(self, types: Mapping[int, pa.Schema]) -> dict[int, list[Read]]:
        """What each relation is asked for; one that no row of the answer depends on is missing."""
        plan = self._execution.executedPlan()
        limited = _limited(plan)
        found: dict[int, list[Read]] = {}
        for leaf in _leaves(plan, "FileSourceScanExec"):
            number = _number(leaf.relation())
            if number is None:
                continue
            filters = each_of(leaf.dataFilters())
            conditions = tuple(read_condition(each, types[number]) for each in filters)
            limit = None
            if limited is not None and not conditions and leaf.equals(limited[0]):
                limit = limited[1]
            columns = frozenset(leaf.requiredSchema().fieldNames())
            found.setdefault(number, []).append(Read(columns, conditions, limit))
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
    for part in (plan, *each_of(plan.subqueriesAll())):
        yield from (leaf for leaf in each_of(part.collectLeaves()) if kind_of(leaf) == kind)


def _limited(plan: Java) -> tuple[Java, int] | None:
    """The scan of a query that only wants its first rows, and how many."""
    if kind_of(plan) != "CollectLimitExec" or plan.limit() < 0:
        return None
    limit, below = plan.limit(), plan.child()
    while kind_of(below) in _PASSING:
        below = below.child()
    return (below, limit) if kind_of(below) == "FileSourceScanExec" else None


_GROUPING = {"Aggregate", "Distinct"}  # the optimizer makes the second into the first
_CHOOSING = {"Filter", "LogicalRelation", "Project"}
_PASSING = {"ProjectExec", "WholeStageCodegenExec", "InputAdapter", "ColumnarToRowExec"}


def _counts_rows(expression: list[dict[str, Any]]) -> bool:
    """Whether an expression, told as Spark tells it in JSON, is a `count` of what is never null."""
    head, values = expression[: len(_COUNT)], expression[len(_COUNT) :]
    if [kind_told(each) for each in head] != _COUNT:
        return False
    call = head[_COUNT.index("AggregateExpression")]
    is_plain = not call["isDistinct"] and "filter" not in call
    return is_plain and all(
        kind_told(each) == "Literal" and each.get("value") is not None for each in values
    )


_COUNT = ["Alias", "AggregateExpression", "Count"]


def _below_aggregates(steps: Sequence[str]) -> set[str]:
    """The steps before the first aggregate; a plan lists what is done last first."""
    return set(takewhile(lambda kind: kind != "Aggregate", reversed(steps)))


def _number(relation: Java) -> int | None:
    if kind_of(relation) != "HadoopFsRelation":
        return None
    found = relation.options().get(_RELATION)
    return int(found.get()) if found.nonEmpty() else None
