"""What every job has: a function of a catalog, a session and the job's options, whose results are
rows of a DataFrame.

The schema of the rows follows from the dataclass of the results. A DataFrame that is made here
holds its rows: looking at it twice does not do the work twice.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Generic, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.job_options import Name
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.session import session

# A catalog, its properties, or its root.
CatalogLike = DirectoryNamespace | Mapping[str, Any] | str | os.PathLike[str]

P = ParamSpec("P")
T = TypeVar("T")
Options = TypeVar("Options")


def catalog_of(given: CatalogLike) -> DirectoryNamespace:
    """A catalog, from itself, its properties, or its root."""
    if isinstance(given, DirectoryNamespace):
        return given
    if isinstance(given, Mapping):
        return DirectoryNamespace(**given)
    return DirectoryNamespace(root=given)


def session_of(spark: SparkSession | None) -> SparkSession:
    """The session that was given, or else an embedded one."""
    return session() if spark is None else spark


class Job(Generic[P]):
    """A job as users call it: with a catalog, a session, and its options as keywords."""

    def __init__(
        self,
        work: Callable[[SparkSession, DirectoryNamespace, Options], DataFrame],
        options: Callable[P, Options],
    ) -> None:
        functools.update_wrapper(self, work)
        self.__signature__ = _signature(type(self), options)
        self._work = work
        self._options = options

    def __call__(
        self,
        catalog: CatalogLike,
        spark: SparkSession | None = None,
        *args: P.args,
        **options: P.kwargs,
    ) -> DataFrame:
        chosen = self._options(*args, **options)
        return self._work(session_of(spark), catalog_of(catalog), chosen)


class JobOn(Generic[T, P]):
    """The same, for a job that takes what it is about before the session."""

    def __init__(
        self,
        work: Callable[[SparkSession, DirectoryNamespace, T, Options], DataFrame],
        options: Callable[P, Options],
    ) -> None:
        functools.update_wrapper(self, work)
        self.__signature__ = _signature(type(self), options)
        self._work = work
        self._options = options

    def __call__(
        self,
        catalog: CatalogLike,
        subject: T,
        spark: SparkSession | None = None,
        *args: P.args,
        **options: P.kwargs,
    ) -> DataFrame:
        chosen = self._options(*args, **options)
        return self._work(session_of(spark), catalog_of(catalog), subject, chosen)


def _signature(job: type, options: Callable[..., Any]) -> inspect.Signature:
    """The parameters as `help` shows them: those of the call, then the options."""
    _, *own = inspect.signature(job.__call__).parameters.values()
    positional = [
        parameter for parameter in own if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    return inspect.Signature([*positional, *inspect.signature(options).parameters.values()])


def job(
    options: Callable[P, Options],
) -> Callable[[Callable[[SparkSession, DirectoryNamespace, Options], DataFrame]], Job[P]]:
    """Make a function of a session, a catalog and an options object a job."""
    return lambda work: Job(work, options)


def job_on(
    options: Callable[P, Options],
) -> Callable[[Callable[[SparkSession, DirectoryNamespace, T, Options], DataFrame]], JobOn[T, P]]:
    """The same, where the function also takes what the job is about."""
    return lambda work: JobOn(work, options)


# -- which tables


def parts_of(name: Name) -> list[str]:
    """The parts of a name that is dotted, like `prod.users`, or has them already."""
    return names.parse_dotted(name) if isinstance(name, str) else list(name)


def choose_tables(
    catalog: DirectoryNamespace, namespace: Name | None, tables: Sequence[Name] | None
) -> list[TableId]:
    """Every table, or those of a namespace and below it, or the given ones, each of them once."""
    chosen = catalog.maintenance.choose_tables(
        None if namespace is None else parts_of(namespace),
        None if tables is None else [parts_of(table) for table in tables],
    )
    return list(dict.fromkeys(chosen))


# -- results as rows

_SIMPLE: dict[type, type[DataType]] = {
    bool: BooleanType,
    bytes: BinaryType,
    datetime: TimestampType,
    float: DoubleType,
    int: LongType,
    str: StringType,
}


def schema_of(result: type, columns: Mapping[str, str] | None = None) -> StructType:
    """The fields of a dataclass as Spark's, in their order.

    `columns` gives fields another name in Spark. What can be None is nullable.
    """
    hints = get_type_hints(result)
    named = columns or {}
    return StructType(
        [
            StructField(named.get(column.name, column.name), *_type_of(hints[column.name]))
            for column in fields(result)
        ]
    )


def frame(
    spark: SparkSession,
    result: type,
    rows: Sequence[Any],
    columns: Mapping[str, str] | None = None,
) -> DataFrame:
    """Results that are there as a DataFrame, in their order."""
    values = [tuple(_value_of(getattr(row, column.name)) for column in fields(row)) for row in rows]
    return spark.createDataFrame(values, schema_of(result, columns))


def _type_of(hint: Any) -> tuple[DataType, bool]:
    """Spark's type for a type of Python, and whether there may be none."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (only,) = [hint for hint in inside if hint is not type(None)]
        return _type_of(only)[0], True
    if hint in _SIMPLE:
        return _SIMPLE[hint](), False
    if isinstance(hint, type) and issubclass(hint, Enum):
        return StringType(), False
    if is_dataclass(hint) and isinstance(hint, type):
        return schema_of(hint), False
    if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        inner, nullable = _type_of(inside[0])
        return ArrayType(inner, nullable), False
    if isinstance(origin, type) and issubclass(origin, Mapping):
        inner, nullable = _type_of(inside[1])
        return MapType(_type_of(inside[0])[0], inner, nullable), False
    raise TypeError(f"no column of Spark holds {hint}")


def _value_of(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [_value_of(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _value_of(item) for key, item in value.items()}
    if is_dataclass(value):
        return tuple(_value_of(getattr(value, inner.name)) for inner in fields(value))
    return value
