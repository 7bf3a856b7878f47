"""Writing the first version of a table, or replacing what it holds.

Data files come first, under names that only we can have made; one strict commit then decides. The
loser of a race removes its own files and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from tiltyard import names
from tiltyard.catalog.base import Catalog, CreateMode, Table, already_exists
from tiltyard.catalog.pylance import Lance, LostRaceError, discard
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
)
from tiltyard.names import TableId
from tiltyard.store import Retry, Store

# Lance takes buffers as they are and panics over a decimal that is not aligned; the bytes of a
# request may lie anywhere.
_ALIGNED = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.At64Byte)


@dataclass(frozen=True, slots=True)
class Created:
    """A table, and the version that the caller can read now."""

    table: Table
    version: int


class TableWriter:
    """Creates tables in one catalog."""

    def __init__(self, catalog: Catalog, store: Store, lance: Lance, retry: Retry) -> None:
        self._catalog = catalog
        self._store = store
        self._lance = lance
        self._retry = retry

    def create(
        self, table: TableId, rows: pa.Table, mode: CreateMode, properties: Mapping[str, str]
    ) -> Created:
        """Two requests to look, then what Lance needs for the data and one commit."""
        check_schema(rows.schema)
        self._store.require_conditions()
        existing = self._catalog.occupant(table)
        if existing is not None and not self._catalog.is_only_declared(existing):
            return self._create_again(existing, rows, mode)
        placed = existing or self._catalog.place(table, properties)
        try:
            version = self._first_version(placed, rows)
            if existing is None:
                self._publish(placed)
        except TableAlreadyExistsError:
            winner = self._catalog.occupant(table)
            if mode is CreateMode.CREATE or winner is None:
                raise
            return self._create_again(winner, rows, mode)
        return Created(replace(placed, only_declared=False), version)

    def _first_version(self, placed: Table, rows: pa.Table) -> int:
        try:
            staged = self._lance.stage(placed.location, rows)
        except LostRaceError as lost:
            raise already_exists(placed.id) from lost
        try:
            return self._lance.commit(staged).version
        except LostRaceError as lost:
            discard(self._store, staged)
            raise already_exists(placed.id) from lost

    def _publish(self, placed: Table) -> None:
        try:
            self._catalog.publish(placed)
        except (TableAlreadyExistsError, NamespaceAlreadyExistsError, NamespaceNotFoundError):
            if names.is_hashed_directory(placed.location):  # fresh, so everything in it is ours
                self._store.delete_many(each.key for each in self._store.walk(placed.location))
            raise

    def _create_again(self, table: Table, rows: pa.Table, mode: CreateMode) -> Created:
        if mode is CreateMode.CREATE:
            raise already_exists(table.id)
        if mode is CreateMode.EXIST_OK:
            return Created(table, self._lance.open(table.location).version)
        for attempt in range(self._retry.attempts):
            present = self._lance.open(table.location)
            staged = self._lance.stage(table.location, rows, present)
            try:
                return Created(table, self._lance.commit(staged, present).version)
            except LostRaceError:
                discard(self._store, staged)  # and write again: names on a list must not come back
                self._retry.pause(attempt)
        raise ConcurrentModificationError(
            f"could not overwrite table {names.display(table.id)}: "
            f"others committed first, {self._retry.attempts} times"
        )


def read_ipc(data: bytes) -> pa.Table:
    """The rows of an Arrow IPC stream or file."""
    if not data:
        raise InvalidInputError(
            "no data was given", hint="pass an Arrow IPC stream; an empty one carries the schema"
        )
    try:
        source = pa.BufferReader(data)
        if data[:6] == b"ARROW1":
            return pa.ipc.open_file(source, options=_ALIGNED).read_all()
        return pa.ipc.open_stream(source, options=_ALIGNED).read_all()
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise InvalidInputError(f"the data is not an Arrow IPC stream: {error}") from error


def check_schema(schema: pa.Schema) -> None:
    """Refuse what Lance accepts and then can't read."""
    if not schema.names:
        raise InvalidInputError("a table needs at least one column")
    if "" in schema.names:
        raise InvalidInputError("a column needs a name")
    if len(set(schema.names)) < len(schema.names):
        raise InvalidInputError("two columns can't have the same name")
