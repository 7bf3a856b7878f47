"""Namespaces and the tables below one, or those whose id has a text in it."""

from __future__ import annotations

from collections.abc import Sequence

import lance_namespace as api
from starlette.responses import Response

from tiltyard import names
from tiltyard.console.background import Background
from tiltyard.console.figures import Figures
from tiltyard.console.visit import Visit
from tiltyard.maintenance import concurrent
from tiltyard.maintenance.inventory import TableInventory
from tiltyard.names import NamespaceId, TableId
from tiltyard.namespace import DirectoryNamespace

MOST_SHOWN = 200


class Listing:
    """Lists tables, with the numbers that the last count has of each."""

    def __init__(self, figures: Background[Figures]) -> None:
        self._figures = figures

    async def show(self, visit: Visit) -> Response:
        wanted = visit.said("q")
        inside = names.parse_namespace_id(names.parse_dotted(visit.said("in")))
        if not inside:
            inside = visit.principal.prefix
        visit.principal.require_sight(inside)
        namespaces, found = await visit.ask(_below, visit.catalog, inside, wanted)
        return visit.show(
            "tables.html",
            inside=inside,
            wanted=wanted,
            namespaces=namespaces,
            tables=self._with_figures(found[:MOST_SHOWN]),
            left=max(0, len(found) - MOST_SHOWN),
        )

    def _with_figures(
        self, tables: Sequence[TableId]
    ) -> list[tuple[TableId, TableInventory | None]]:
        last = self._figures.last
        known = last.value.tables if last else {}
        return [(each, known.get(each)) for each in tables]


def _below(
    catalog: DirectoryNamespace, inside: NamespaceId, wanted: str
) -> tuple[list[str], list[TableId]]:
    """The namespaces right below one, and all tables anywhere below it. A search wants no
    namespaces."""
    below = [] if wanted else _namespaces(catalog, inside)
    every = catalog.list_all_tables(api.ListTablesRequest(id=[])).tables
    tables = concurrent.tables_of(every, inside)
    return below, [each for each in tables if wanted.lower() in names.dotted(each).lower()]


def _namespaces(catalog: DirectoryNamespace, inside: NamespaceId) -> list[str]:
    found = catalog.list_namespaces(api.ListNamespacesRequest(id=list(inside)))
    return list(found.namespaces)
