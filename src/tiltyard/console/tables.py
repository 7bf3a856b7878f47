"""The pages about tables: the list, and one with its schema, versions and first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import lance_namespace as api
import pyarrow as pa
from starlette.responses import Response

from tiltyard import formatting
from tiltyard.catalog import names
from tiltyard.catalog.names import NamespaceId, TableId
from tiltyard.console import charts
from tiltyard.console.background import CachedQuery
from tiltyard.console.overview import Figures
from tiltyard.console.page_request import PageRequest
from tiltyard.errors import TiltyardError
from tiltyard.maintenance import context
from tiltyard.maintenance.doctor import MANY_VERSIONS
from tiltyard.namespace import DirectoryNamespace
from tiltyard.tables.describe import Version

MAX_TABLES = 200
MAX_VERSIONS = 50
FIRST_ROWS = 10


# -- the list


class TableListPage:
    """The namespaces and tables below a namespace, or the tables whose id contains a text."""

    def __init__(self, figures: CachedQuery[Figures]) -> None:
        self._figures = figures

    async def show(self, request: PageRequest) -> Response:
        text = request.field("q")
        namespace = names.parse_namespace_id(names.parse_dotted(request.field("in")))
        namespace = namespace or request.principal.prefix
        request.principal.require_visible(namespace)
        namespaces, tables = await request.run(_list, request.catalog, namespace, text)
        last = self._figures.last
        inventory = last.value.tables if last else {}
        return request.render(
            "tables.html",
            namespace=namespace,
            text=text,
            namespaces=namespaces,
            tables=[(table, inventory.get(table)) for table in tables[:MAX_TABLES]],
            left=max(0, len(tables) - MAX_TABLES),
        )


def _list(
    catalog: DirectoryNamespace, namespace: NamespaceId, text: str
) -> tuple[list[str], list[TableId]]:
    """The namespaces directly below one, and all tables below it. A search has no namespaces."""
    namespaces: list[str] = []
    if not text:
        request = api.ListNamespacesRequest(id=list(namespace))
        namespaces = list(catalog.list_namespaces(request).namespaces)
    every_table = catalog.list_all_tables(api.ListTablesRequest(id=[])).tables
    tables = context.tables_of(every_table, namespace)
    return namespaces, [table for table in tables if text.lower() in names.dotted(table).lower()]


# -- one table


@dataclass(frozen=True)
class TableView:
    """A table as its page shows it. What can't be read is empty, and `error` says why."""

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
    error: str | None = None

    @property
    def latest(self) -> Version | None:
        return self.history[-1] if self.history else None

    @property
    def advice(self) -> list[str]:
        """The maintenance that would help the table."""
        advice = []
        if self.stats is not None and self.stats.fragment_stats.num_small_fragments > 1:
            advice.append("Its small fragments can be joined: optimize it.")
        if len(self.history) > MANY_VERSIONS:
            advice.append("It has many versions: clean up the old ones.")
        return advice

    def tags_of(self, version: int) -> list[str]:
        return [name for name, tag in self.tags.items() if tag.version == version]


async def show_table(request: PageRequest) -> Response:
    identifier = request.table_id()
    view = await request.run(_view, request.catalog, identifier)
    timeline = charts.timeline(
        [(version.created_at, version.rows, _version_title(version)) for version in view.history],
        f"Rows over {formatting.counted(len(view.history), 'version')}",
    )
    return request.render(
        "table.html",
        id=identifier,
        view=view,
        timeline=timeline,
        recent=list(reversed(view.history))[:MAX_VERSIONS],
        left=max(0, len(view.history) - MAX_VERSIONS),
    )


def _version_title(version: Version) -> str:
    rows = formatting.counted(version.rows, "row")
    return f"Version {version.version}: {rows}, {version.created_at:%Y-%m-%d %H:%M} UTC"


def _view(catalog: DirectoryNamespace, identifier: list[str]) -> TableView:
    table = catalog.describe_table(api.DescribeTableRequest(id=identifier, check_declared=True))
    entry: dict[str, Any] = {
        "location": table.location or "",
        "properties": dict(table.properties or {}),
        "declared_only": bool(table.is_only_declared),
    }
    if table.is_only_declared:
        return TableView(**entry)
    try:
        return TableView(**entry, **_content(catalog, identifier))
    except TiltyardError as error:
        return TableView(**entry, error=str(error))


def _content(catalog: DirectoryNamespace, identifier: list[str]) -> dict[str, Any]:
    detail = catalog.describe_table(
        api.DescribeTableRequest(id=identifier, load_detailed_metadata=True)
    )
    dataset = catalog.open_table(identifier)
    rows = dataset.to_table(limit=FIRST_ROWS, columns=_shown_columns(dataset.schema))
    return {
        "columns": [
            (column.name, formatting.type_name(column.type), column.nullable)
            for column in (detail.var_schema.fields if detail.var_schema else ())
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
        "numeric": frozenset(column.name for column in rows.schema if _is_number(column.type)),
    }


def _is_number(type: pa.DataType) -> bool:
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(is_kind(type) for is_kind in numbers)


def _shown_columns(schema: pa.Schema) -> list[str]:
    """All but binary columns, whose values could exceed the memory of the server."""
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return [column.name for column in schema if not any(is_kind(column.type) for is_kind in binary)]
