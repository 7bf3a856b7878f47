"""Creating a table, or replacing what it holds.

Data files come first, under names that only we can have made. Then the table's arbiter and one
strict commit decide. The loser of a race removes its own files and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tiltyard.catalog import names
from tiltyard.catalog.base import CreateMode, CreateTarget, Table, already_exists
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.marker import NONCE_DIGITS
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.errors import (
    ConcurrentModificationError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
)
from tiltyard.lifecycle.arbiter import Arbiters
from tiltyard.lifecycle.recreation import Files
from tiltyard.store import NotThere


@dataclass(frozen=True, slots=True)
class Created:
    """A table, and the version that the caller can read now."""

    table: Table
    version: int


class Creation:
    """Creates tables in one catalog."""

    def __init__(self, context: CatalogContext, arbiters: Arbiters, files: Files) -> None:
        self._context = context
        self._catalog = context.catalog
        self._retry = context.retry
        self._arbiters = arbiters
        self._files = files

    def create(
        self, table: TableId, rows: Any, mode: CreateMode, properties: Mapping[str, str]
    ) -> Created:
        """One to three requests to look, then what the data needs, its commit, and the row's."""
        self._context.store.require_conditions()
        target = self._catalog.create_target(table, properties)
        if target.exists and not self._catalog.is_only_declared(target.table):
            return self._create_again(target.table, rows, mode)
        try:
            return self.create_at(target, rows)
        except TableAlreadyExistsError:
            winner = self._catalog.holder(table)
            if mode is CreateMode.CREATE or winner is None:
                raise
            return self._create_again(winner, rows, mode)

    def create_at(
        self, target: CreateTarget, rows: Any, guard: TableGuard | None = None
    ) -> Created:
        """Write the first version where it was to go, if the state there is what the guard tells.

        TableAlreadyExistsError if another was first.
        """
        arbiter = self._arbiters.arbiter_for(target.table)
        version = arbiter.create(target, rows, guard)
        if not target.exists:
            try:
                self._catalog.publish(target.table)
            except (TableAlreadyExistsError, NamespaceAlreadyExistsError, NamespaceNotFoundError):
                arbiter.withdraw(target.table)
                raise
        return Created(replace(target.table, only_declared=False), version)

    def _create_again(self, table: Table, rows: Any, mode: CreateMode) -> Created:
        if mode is CreateMode.CREATE:
            raise already_exists(table.id)
        if mode is CreateMode.EXIST_OK:
            newest = self._catalog.latest(table)
            return Created(table, newest.version if newest else 0)
        for _ in self._retry:
            version = self._overwrite(table, rows)
            if version is not None:
                return Created(table, version)
        raise ConcurrentModificationError(
            f"could not overwrite table {names.display(table.id)}: "
            f"others committed first, {self._retry.attempts} times"
        )

    def _overwrite(self, table: Table, rows: Any) -> int | None:
        """Write the next version of a table; None if another process wrote it."""
        guard = TableGuard.of(self._context, table)
        newest = self._catalog.latest(table)
        if newest is None:  # declared, or purged meanwhile: then nothing may be written there
            guard.require_same(self._context)
        try:
            staged = self._files.stage(table.location, rows, newest.version if newest else 0)
        except (NotThere, LostRaceError):  # the version went, or came, while we looked
            return None
        try:
            version = self._files.commit(staged, self._context.clock.token(NONCE_DIGITS))
        except LostRaceError:
            self._files.discard(staged)  # and write again: names on a list must not come back
            return None
        guard.require_same(self._context)  # Guard C
        return version
