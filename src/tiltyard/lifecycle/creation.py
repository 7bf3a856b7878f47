"""Creating a table, or replacing what it holds, wherever it lies.

Data files come first, under names that only we can have made. At a V1 location the marker and one
strict commit then decide (`recreation`); in a directory of its own the row does. The loser of a
race removes its own files and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tiltyard import names
from tiltyard.catalog.base import Catalog, CreateMode, CreateTarget, Table, already_exists
from tiltyard.catalog.pylance import LostRaceError
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
)
from tiltyard.lifecycle.files import Files
from tiltyard.lifecycle.markers import Markers
from tiltyard.lifecycle.recreation import Recreation, Seen
from tiltyard.lifecycle.trash import DropTerms
from tiltyard.names import TableId
from tiltyard.store import NotThere, Retry, Store


@dataclass(frozen=True, slots=True)
class Created:
    """A table, and the version that the caller can read now."""

    table: Table
    version: int


class Creation:
    """Creates tables in one catalog."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        catalog: Catalog,
        files: Files,
        recreation: Recreation,
        markers: Markers,
        retry: Retry,
    ) -> None:
        self._markers = markers
        self._store = store
        self._clock = clock
        self._catalog = catalog
        self._files = files
        self._recreation = recreation
        self._retry = retry

    def create(
        self, table: TableId, rows: Any, mode: CreateMode, properties: Mapping[str, str]
    ) -> Created:
        """One to three requests to look, then what the data needs, its commit, and the row's."""
        self._store.require_conditions()
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

    def create_at(self, target: CreateTarget, rows: Any, seen: Seen | None = None) -> Created:
        """Write the first version where it was to go, if what was `seen` there is as it was.

        TableAlreadyExistsError if another was first.
        """
        version = self._first_version(target.table, rows, seen)
        if not target.exists:
            self._publish(target.table)
        elif not names.is_marked(
            target.table.id, target.table.location
        ):  # else the marker has said so
            self._must_still_be(target.table)
        return Created(replace(target.table, only_declared=False), version)

    def _first_version(self, table: Table, rows: Any, seen: Seen | None) -> int:
        if names.is_marked(table.id, table.location):
            return self._recreation.create(table.id[0], rows, seen)
        try:
            staged = self._files.stage(table.location, rows, 0)
        except LostRaceError as lost:
            raise already_exists(table.id) from lost
        try:
            return self._files.commit(staged, self._clock.token(12))
        except LostRaceError as lost:
            self._files.discard(staged)
            raise already_exists(table.id) from lost

    def _must_still_be(self, found: Table) -> None:
        """Guard C: a table that was dropped while it was written was not."""
        now = self._catalog.find(found.id)
        if (now.location, now.managed) != (found.location, found.managed):
            raise ConcurrentModificationError(
                f"table {names.display(found.id)} was replaced by another meanwhile"
            )

    def _publish(self, placed: Table) -> None:
        try:
            self._catalog.publish(placed)
        except (TableAlreadyExistsError, NamespaceAlreadyExistsError, NamespaceNotFoundError):
            if names.is_marked(placed.id, placed.location):
                terms = DropTerms(0, "tiltyard", "its name was taken while it was created")
                self._markers.drop(placed.id[0], terms)
            else:  # fresh, so everything in it is ours
                self._store.delete_many(each.key for each in self._store.walk(placed.location))
            raise

    def _create_again(self, table: Table, rows: Any, mode: CreateMode) -> Created:
        if mode is CreateMode.CREATE:
            raise already_exists(table.id)
        if mode is CreateMode.EXIST_OK:
            newest = self._catalog.latest(table)
            return Created(table, newest.version if newest else 0)
        for attempt in range(self._retry.attempts):
            version = self._overwrite(table, rows)
            if version is not None:
                self._must_still_be(table)
                return Created(table, version)
            self._retry.pause(attempt)
        raise ConcurrentModificationError(
            f"could not overwrite table {names.display(table.id)}: "
            f"others committed first, {self._retry.attempts} times"
        )

    def _overwrite(self, table: Table, rows: Any) -> int | None:
        newest = self._catalog.latest(table)
        if newest is None:  # declared, or purged meanwhile: then nothing may be written there
            self._must_still_be(table)
        try:
            staged = self._files.stage(table.location, rows, newest.version if newest else 0)
        except (NotThere, LostRaceError):  # the version went, or came, while we looked
            return None
        try:
            return self._files.commit(staged, self._clock.token(12))
        except LostRaceError:
            self._files.discard(staged)  # and write again: names on a list must not come back
            return None
