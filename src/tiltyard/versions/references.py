"""Changing what refers to the versions of a table: tags, branches, and restoring a version.

A collector moves the boundary, reads tags and branches, and deletes. So whoever writes a reference
looks at the boundary after that: either the collector sees the reference, or it is seen here that
the version was given up. Guard C of docs/design/versions.md holds here as for commits: a reference
counts if its table is still the same after it was written. Otherwise it is removed again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

import lance

from tiltyard.catalog import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.names import TableId
from tiltyard.errors import TableVersionNotFoundError, TiltyardError
from tiltyard.tables import refs
from tiltyard.tables.refs import Point
from tiltyard.versions.branches import Branches
from tiltyard.versions.table_versions import TableVersions


class OpensTables(Protocol):
    """How tables are opened."""

    def read(self, table: Table) -> lance.LanceDataset:
        """The latest version of a table, to read it."""

    def change(
        self, table: Table, branch: str | None = None
    ) -> AbstractContextManager[lance.LanceDataset]:
        """The latest version of a branch, open for one change. A refused commit raises the error
        for which it was refused."""


class References:
    """Creates, moves and deletes tags and branches, and restores versions."""

    def __init__(
        self,
        context: CatalogContext,
        versions: TableVersions,
        branches: Branches,
        access: OpensTables,
    ) -> None:
        self._context = context
        self._versions = versions
        self._branches = branches
        self._access = access

    # -- tags

    def create_tag(self, table_id: TableId, tag: str, point: Point) -> None:
        """Give a version a name; it is kept as long as it has one. TableTagAlreadyExistsError,
        TableVersionNotFoundError."""
        guard = TableGuard.take(self._context, table_id)
        dataset = self._access.read(guard.table)
        self._require_version(guard.table, point)
        refs.create_tag(dataset, guard.table, tag, point)
        self._confirm(guard, point, lambda: dataset.tags.delete(tag))

    def update_tag(self, table_id: TableId, tag: str, point: Point) -> None:
        """Let a tag name another version. TableTagNotFoundError, TableVersionNotFoundError."""
        guard = TableGuard.take(self._context, table_id)
        dataset = self._access.read(guard.table)
        before = refs.tagged(dataset, guard.table, tag)
        self._require_version(guard.table, point)
        dataset.tags.update(tag, point.reference)
        self._confirm(guard, point, lambda: dataset.tags.update(tag, before.reference))

    def delete_tag(self, table_id: TableId, tag: str) -> None:
        """Remove a name; the version stays until versions are deleted. TableTagNotFoundError."""
        table = self._context.catalog.find(table_id)
        dataset = self._access.read(table)
        refs.tagged(dataset, table, tag)
        dataset.tags.delete(tag)

    # -- branches

    def create_branch(
        self, table_id: TableId, name: str, *, version: int | None, origin: str | None
    ) -> None:
        """Let a branch begin at a version of another one, its latest if none is given. No data is
        copied. TableBranchAlreadyExistsError, TableVersionNotFoundError."""
        guard = TableGuard.take(self._context, table_id)
        with self._access.change(guard.table, origin) as dataset:
            base = Point(dataset.version if version is None else version, origin)
            self._require_version(guard.table, base)
            refs.must_be_free(dataset, guard.table, name)
            self._versions.begin_branch(guard.table, name)
            self._branches.create(
                guard.table, name, dataset, lambda: refs.create_branch(dataset, name, base)
            )
            self._confirm(guard, base, lambda: self._delete_branch(guard.table, name, dataset))

    def delete_branch(self, table_id: TableId, name: str) -> None:
        """Remove a branch with its versions, unless a tag or another branch refers to them."""
        table = self._context.catalog.find(table_id)
        self._delete_branch(table, name, self._access.read(table))

    def _delete_branch(self, table: Table, name: str, dataset: lance.LanceDataset) -> None:
        self._branches.delete(
            table, name, dataset, lambda: refs.delete_branch(dataset, table, name)
        )

    # -- restoring

    def restore(self, table_id: TableId, version: int, branch: str | None) -> lance.LanceDataset:
        """Make an older version the latest one again; what came since stays in the history.

        It is a commit, with the guards of every commit. TableVersionNotFoundError.
        """
        table = self._context.catalog.find(table_id)
        with self._access.change(table, branch) as dataset:
            self._versions.describe(table_id, version, branch)
            return self._context.lance.restore(dataset, version)

    # -- the guard

    def _require_version(self, table: Table, point: Point) -> None:
        """TableBranchNotFoundError, TableVersionNotFoundError."""
        if point.branch is not None:
            refs.must_have_branch(self._access.read(table), table, point.branch)
        self._versions.describe(table.id, point.version, point.branch)

    def _confirm(self, guard: TableGuard, point: Point, undo: Callable[[], None]) -> None:
        """After a reference was written: whether it counts. `undo` it if not."""
        try:
            self._require_shown(self._guard_c(guard), point)
        except TiltyardError:
            undo()
            raise

    def _guard_c(self, guard: TableGuard) -> Table:
        """Guard C: the table was not dropped or replaced meanwhile. One request."""
        table = guard.table_now(self._context)
        if table is None:
            raise no_such_table(guard.table.id)
        return table

    def _require_shown(self, table: Table, point: Point) -> None:
        """The version was not given up before the reference was there."""
        if not self._versions.shows(table, point.version, point.branch):
            raise TableVersionNotFoundError(
                f"version {point.version} of table {names.display(table.id)} was deleted meanwhile",
                hint="choose another version",
            )
