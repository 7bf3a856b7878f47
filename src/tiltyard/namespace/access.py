"""Opening the tables of a catalog, to read them or to change them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tiltyard.catalog import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES, is_missing
from tiltyard.errors import TableNotFoundError, TableVersionNotFoundError, TiltyardError
from tiltyard.maintenance.recovery import Recovery
from tiltyard.tables import describe, refs
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.table_versions import TableVersions

if TYPE_CHECKING:
    import lance


class NoDataYetError(TableVersionNotFoundError):
    """The table has a name and a location, and no version."""


class CommitClients:
    """What the commits to tables go through, so that each is published as a version or refused."""

    def __init__(self, context: CatalogContext, versions: TableVersions) -> None:
        self._context = context
        self._versions = versions

    def of(self, table: Table) -> CommitClient:
        """The client for one table. No request."""
        context = self._context
        return CommitClient(table, self._versions, context.lance, context.settings.root)

    def at(self, location: str) -> CommitClient | None:
        """The client for the table at a location, if its versions are rows of the manifest."""
        manifest = self._context.manifest
        if not manifest.known().managed:
            return None
        table = manifest.table_at(location)
        return self.of(table) if table is not None and table.managed else None


class TableAccess:
    """Finds and opens the tables of one catalog."""

    def __init__(
        self,
        context: CatalogContext,
        versions: TableVersions,
        clients: CommitClients,
        recovery: Recovery,
    ) -> None:
        self._context = context
        self._versions = versions
        self._clients = clients
        self._recovery = recovery

    def find(self, id: Sequence[str] | None) -> Table:
        """The table of an id. TableNotFoundError, InvalidInputError."""
        return self._context.catalog.find(names.parse_table_id(id))

    def uri(self, table: Table) -> str:
        """The address of a table as Lance takes it."""
        return names.uri(self._context.settings.root, table.location)

    def open(self, table: Table, at: describe.At = describe.LATEST) -> lance.LanceDataset:
        """A table to read, at the version that is meant: as its rows in the manifest have it, or
        its files."""
        if not table.managed or table.becoming_managed:
            return describe.open_at(self._context.lance, table, at)
        shown = functools.cache(
            lambda: frozenset(file.version for file in self._versions.visible(table.id))
        )
        return describe.open_at(
            self._context.lance,
            table,
            at,
            opening=self._clients.of(table).open,
            shows=lambda version: version in shown(),
        )

    def read(self, table: Table, at: describe.At = describe.LATEST) -> lance.LanceDataset:
        """The same; NoDataYetError for a table that is only declared."""
        try:
            return self.open(table, at)
        except TableNotFoundError as error:
            raise self._missing(table, error) from error

    @contextmanager
    def change(self, table: Table, branch: str | None = None) -> Iterator[lance.LanceDataset]:
        """The latest version of a branch, open for one change. A refused commit raises the error
        for which it was refused.

        What crashes have left is ended first, once in the life of a catalog object.
        """
        self._context.store.require_conditions()
        self.before_write([table.id])
        client = self._clients.of(table)
        with client.raising_refusals():
            try:
                dataset = client.open()
            except FAILURES as error:
                if is_missing(error):
                    raise self._missing(table, no_such_table(table.id)) from error
                raise
            yield refs.on_branch(dataset, table, branch_of(branch))

    def before_write(self, tables: Sequence[TableId]) -> None:
        """End what crashes have left, once, and refuse tables for which that failed."""
        if self._context.settings.recover_on_write:
            self._recovery.before_write(tables)

    def _missing(self, table: Table, error: TiltyardError) -> TiltyardError:
        """What to say of a table that the catalog has and Lance does not find."""
        catalog = self._context.catalog
        if not catalog.is_only_declared(catalog.find(table.id)):
            return error
        return NoDataYetError(
            f"table {names.display(table.id)} is declared and holds no data yet",
            hint="insert rows, or create it",
        )


def branch_of(name: str | None) -> str | None:
    """The main branch has no name in Lance's files; in requests it may have one."""
    return None if name == refs.MAIN else name
