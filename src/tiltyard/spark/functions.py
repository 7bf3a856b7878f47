"""Table functions for SQL that read the catalog: its tables, its trash, the versions of a table.

SELECT * FROM tiltyard_tables('s3://bucket/lake')
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import lance_namespace as api
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf
from pyspark.sql.udtf import UserDefinedTableFunction

from tiltyard import names
from tiltyard.namespace import DirectoryNamespace
from tiltyard.spark.target import Target


class _Tables:
    def eval(self, root: str) -> Iterator[tuple[Any, ...]]:
        for found in _catalog(root).list_all_tables(api.ListTablesRequest(id=[])).tables:
            parts = names.split_object_id(found)
            yield names.dotted(parts), list(parts[:-1]), parts[-1]


class _Trash:
    def eval(self, root: str) -> Iterator[tuple[Any, ...]]:
        for each in _catalog(root).list_trash():
            yield (
                names.dotted(each.id),
                each.generation,
                each.location,
                each.state,
                each.dropped_at,
                each.expires_at,
                each.dropped_by,
                each.reason,
                each.version,
                each.held,
                each.restorable,
            )


class _Versions:
    def eval(self, root: str, table: str) -> Iterator[tuple[Any, ...]]:
        target = Target.in_catalog({"root": root}, table)
        assert target.id is not None
        for each in target.namespace().versions.history(target.id):
            yield each.version, each.created_at, each.rows, each.fragments, each.bytes


def _catalog(root: str) -> DirectoryNamespace:
    return Target.in_catalog({"root": root}, "any").namespace()


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
