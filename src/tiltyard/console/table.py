"""One table: its schema, versions, tags, branches, health and first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import lance_namespace as api
import pyarrow as pa
from starlette.responses import Response

from tiltyard import formatting
from tiltyard.console import charts
from tiltyard.console.visit import Visit
from tiltyard.errors import TiltyardError
from tiltyard.maintenance.checkup import MANY_VERSIONS
from tiltyard.namespace import DirectoryNamespace
from tiltyard.tables.describe import Version

MOST_VERSIONS = 50
FIRST_ROWS = 10


@dataclass(frozen=True)
class TableView:
    """A table as its page shows it. What can't be read leaves its place empty, and says why."""

    location: str
    properties: dict[str, str]
    declared_only: bool = False
    columns: Sequence[tuple[str, str, bool]] = ()
    history: Sequence[Version] = ()
    tags: dict[str, Any] = field(default_factory=dict)
    branches: dict[str, Any] = field(default_factory=dict)
    stats: Any = None
    indexes: Sequence[Any] = ()
    names: Sequence[str] = ()
    rows: Sequence[dict[str, Any]] = ()
    numeric: frozenset[str] = frozenset()
    problem: str | None = None

    @property
    def latest(self) -> Version | None:
        return self.history[-1] if self.history else None

    @property
    def advice(self) -> list[str]:
        """What would help the table."""
        told = []
        if self.stats is not None and self.stats.fragment_stats.num_small_fragments > 1:
            told.append("Its small fragments can be joined: optimize it.")
        if len(self.history) > MANY_VERSIONS:
            told.append("It has many versions: clean up the old ones.")
        return told

    def tags_of(self, version: int) -> list[str]:
        return [name for name, tag in self.tags.items() if tag.version == version]


async def show(visit: Visit) -> Response:
    identifier = visit.table()
    view = await visit.ask(_view, visit.catalog, identifier)
    timeline = charts.timeline(
        [(each.created_at, each.rows, _of_version(each)) for each in view.history],
        f"Rows over {formatting.counted(len(view.history), 'version')}",
    )
    return visit.show(
        "table.html",
        id=identifier,
        view=view,
        timeline=timeline,
        recent=list(reversed(view.history))[:MOST_VERSIONS],
        left=max(0, len(view.history) - MOST_VERSIONS),
    )


def _of_version(version: Version) -> str:
    when: datetime = version.created_at
    rows = formatting.counted(version.rows, "row")
    return f"Version {version.version}: {rows}, {when:%Y-%m-%d %H:%M} UTC"


def _view(catalog: DirectoryNamespace, identifier: list[str]) -> TableView:
    found = catalog.describe_table(api.DescribeTableRequest(id=identifier, check_declared=True))
    known: dict[str, Any] = {
        "location": found.location or "",
        "properties": dict(found.properties or {}),
        "declared_only": bool(found.is_only_declared),
    }
    if found.is_only_declared:
        return TableView(**known)
    try:
        return TableView(**known, **_inside(catalog, identifier))
    except TiltyardError as problem:
        return TableView(**known, problem=str(problem))


def _is_number(kind: pa.DataType) -> bool:
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_so(kind) for is_so in numbers)


def _readable(schema: pa.Schema) -> list[str]:
    """Columns to show rows of: large binary values could be more than the server has room for."""
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return [each.name for each in schema if not any(is_so(each.type) for is_so in binary)]


def _inside(catalog: DirectoryNamespace, identifier: list[str]) -> dict[str, Any]:
    detail = catalog.describe_table(
        api.DescribeTableRequest(id=identifier, load_detailed_metadata=True)
    )
    dataset = catalog.open_table(identifier)
    rows = dataset.to_table(limit=FIRST_ROWS, columns=_readable(dataset.schema))
    return {
        "columns": [
            (each.name, formatting.type_name(each.type), each.nullable)
            for each in (detail.var_schema.fields if detail.var_schema else ())
        ],
        "history": catalog.versions.history(identifier),
        "tags": catalog.list_table_tags(api.ListTableTagsRequest(id=identifier)).tags,
        "branches": catalog.list_table_branches(
            api.ListTableBranchesRequest(id=identifier)
        ).branches,
        "stats": catalog.get_table_stats(api.GetTableStatsRequest(id=identifier)),
        "indexes": catalog.list_table_indices(api.ListTableIndicesRequest(id=identifier)).indexes,
        "names": rows.schema.names,
        "rows": rows.to_pylist(),
        "numeric": frozenset(each.name for each in rows.schema if _is_number(each.type)),
    }
