"""The catalog in SQL: temporary views of its tables, and table functions that list it.

A view shows the version that its table has when the view is made, and `REFRESH TABLE` does not move
it: attaching again does. Views are for reading.

    SELECT * FROM tiltyard_tables('s3://bucket/lake')
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

import lance_namespace as api
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.udtf import UserDefinedTableFunction

from tiltyard.catalog import names
from tiltyard.errors import InvalidInputError, TableNotFoundError, TableSchemaValidationError
from tiltyard.namespace import DirectoryNamespace
from tiltyard.settings import Settings
from tiltyard.spark.options import ReadOptions
from tiltyard.spark.scan import Scan
from tiltyard.spark.table import frame
from tiltyard.spark.target import Target, opened
from tiltyard.spark.types import quoted

OPENING_THREADS = 8


@dataclass(frozen=True, slots=True)
class AttachedView:
    """A table and its view; a table that Spark can't show has a reason instead of a version."""

    table: str
    view: str
    version: int | None
    reason: str | None = None


def attach(
    spark: SparkSession, root: str, *, namespace: str = "", prefix: str = "", **properties: Any
) -> list[AttachedView]:
    """Make a view of every table in a namespace and below it, of the whole catalog by default.

    The view of a.b.users is a_b_users, after the prefix, and without the names of `namespace`.
    Two tables that would share a view are refused before any view is made. Properties are those
    of the catalog.
    """
    options = ReadOptions.parse({"root": root, **properties})
    inside = names.parse_namespace_id(names.parse_dotted(namespace))
    tables = _tables_in(_catalog(options.properties), inside)
    views = _view_names(tables, len(inside), prefix)
    with ThreadPoolExecutor(OPENING_THREADS) as pool:
        scans = list(pool.map(lambda table: _plan(options, table), tables))
    attached = []
    for table, view, planned in zip(tables, views, scans, strict=True):
        name = names.dotted(table)
        if isinstance(planned, str):
            attached.append(AttachedView(name, view, None, planned))
            continue
        frame(spark, planned, few=False).createOrReplaceTempView(quoted(view))
        attached.append(AttachedView(name, view, planned.snapshot.at.version))
    return attached


def _catalog(properties: Mapping[str, str]) -> DirectoryNamespace:
    """The same object that a `Target` opens, whose root is absolute."""
    return opened({**properties, "root": Settings.from_properties(properties).root})


def _tables_in(catalog: DirectoryNamespace, inside: names.NamespaceId) -> list[names.TableId]:
    if inside:
        catalog.namespace_exists(api.NamespaceExistsRequest(id=list(inside)))
    return [table for table in _all_tables(catalog) if table[: len(inside)] == inside]


def _all_tables(catalog: DirectoryNamespace) -> list[names.TableId]:
    listed = catalog.list_all_tables(api.ListTablesRequest(id=[])).tables
    return [names.split_object_id(object_id) for object_id in listed]


def _view_names(tables: Sequence[names.TableId], depth: int, prefix: str) -> list[str]:
    views = [prefix + "_".join(table[depth:]) for table in tables]
    sharing = defaultdict(list)
    for table, view in zip(tables, views, strict=True):
        sharing[view.lower()].append(names.display(table))  # Spark's names have no case
    for view, displayed in sharing.items():
        if len(displayed) > 1:
            raise InvalidInputError(
                f"tables {' and '.join(displayed)} would both be the view {view!r}",
                hint="attach their namespaces one by one, each with a prefix",
            )
    return views


def _plan(options: ReadOptions, table: names.TableId) -> Scan | str:
    try:
        return Scan.plan(options.model_copy(update={"table": names.dotted(table)}))
    except (TableNotFoundError, TableSchemaValidationError) as reason:
        return str(reason)


# -- table functions


class _Tables:
    def eval(self, root: str) -> Iterator[tuple[Any, ...]]:
        for table in _all_tables(_catalog({"root": root})):
            yield names.dotted(table), list(table[:-1]), table[-1]


class _Trash:
    def eval(self, root: str) -> Iterator[tuple[Any, ...]]:
        for entry in _catalog({"root": root}).list_trash():
            yield (
                names.dotted(entry.id),
                entry.generation,
                entry.location,
                entry.state,
                entry.dropped_at,
                entry.expires_at,
                entry.dropped_by,
                entry.reason,
                entry.version,
                entry.held,
                entry.restorable,
            )


class _Versions:
    def eval(self, root: str, table: str) -> Iterator[tuple[Any, ...]]:
        target = Target.in_catalog({"root": root}, table)
        assert target.id is not None
        for version in target.namespace().versions.history(target.id):
            yield (
                version.version,
                version.created_at,
                version.rows,
                version.fragments,
                version.bytes,
            )


# Each with the columns it returns.
FUNCTIONS: dict[str, tuple[type, str]] = {
    "tiltyard_tables": (_Tables, "id string, namespace array<string>, name string"),
    "tiltyard_trash": (
        _Trash,
        (
            "id string, generation string, location string, state string, dropped_at timestamp, "
            "expires_at timestamp, dropped_by string, reason string, version bigint, "
            "held boolean, restorable boolean"
        ),
    ),
    "tiltyard_versions": (
        _Versions,
        "version bigint, created_at timestamp, rows bigint, fragments bigint, bytes bigint",
    ),
}


def register_functions(spark: SparkSession) -> None:
    for name, (function, columns) in FUNCTIONS.items():
        made = udtf(function, returnType=columns)
        spark.udtf.register(name, cast(UserDefinedTableFunction, made))
