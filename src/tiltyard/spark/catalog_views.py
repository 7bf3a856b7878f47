"""Temporary views of the tables of a namespace, for SQL typed by hand.

A view shows the version that its table has when the view is made, and `REFRESH TABLE` does not move
it: attaching again does. Views are for reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import lance_namespace as api
from pyspark.sql import SparkSession

from tiltyard import names
from tiltyard.errors import InvalidInputError, TableNotFoundError, TableSchemaValidationError
from tiltyard.spark.options import Options
from tiltyard.spark.scan import Scan
from tiltyard.spark.table import frame
from tiltyard.spark.target import Target
from tiltyard.spark.types import quoted

OPENING_THREADS = 8


@dataclass(frozen=True, slots=True)
class Attached:
    """A table and its view; a table that Spark can't show has a reason instead of a version."""

    table: str
    view: str
    version: int | None
    reason: str | None = None


def attach(
    spark: SparkSession, root: str, *, namespace: str = "", prefix: str = "", **properties: Any
) -> list[Attached]:
    """Make a view of every table in a namespace and below it, of the whole catalog by default.

    The view of a.b.users is a_b_users, after the prefix, and without the names of `namespace`.
    Two tables that would share a view are refused before any view is made. Properties are those
    of the catalog.
    """
    options = Options({"root": root, **properties})
    inside = names.parse_namespace_id(names.parse_dotted(namespace))
    targets = _targets(options, inside)
    views = _views(targets, len(inside), prefix)
    with ThreadPoolExecutor(OPENING_THREADS) as pool:
        scans = list(pool.map(lambda target: _planned(target, options), targets))
    attached = []
    for target, view, planned in zip(targets, views, scans, strict=True):
        assert target.id is not None
        name = names.dotted(target.id)
        if isinstance(planned, str):
            attached.append(Attached(name, view, None, planned))
            continue
        frame(spark, planned, few=False).createOrReplaceTempView(quoted(view))
        attached.append(Attached(name, view, planned.snapshot.at.version))
    return attached


def _targets(options: Options, inside: names.NamespaceId) -> list[Target]:
    catalog = Target.in_catalog(options, "any").namespace()
    if inside:
        catalog.namespace_exists(api.NamespaceExistsRequest(id=list(inside)))
    found = catalog.list_all_tables(api.ListTablesRequest(id=[])).tables
    ids = [names.split_object_id(each) for each in found]
    return [
        Target.in_catalog(options, names.dotted(each))
        for each in ids
        if each[: len(inside)] == inside
    ]


def _views(targets: Sequence[Target], depth: int, prefix: str) -> list[str]:
    views = [prefix + "_".join((target.id or ())[depth:]) for target in targets]
    sharing = defaultdict(list)
    for target, view in zip(targets, views, strict=True):
        sharing[view.lower()].append(target.name)  # Spark's names have no case
    for view, tables in sharing.items():
        if len(tables) > 1:
            raise InvalidInputError(
                f"tables {' and '.join(tables)} would both be the view {view!r}",
                hint="attach their namespaces one by one, each with a prefix",
            )
    return views


def _planned(target: Target, options: Options) -> Scan | str:
    try:
        return Scan.plan(target, options)
    except (TableNotFoundError, TableSchemaValidationError) as reason:
        return str(reason)
