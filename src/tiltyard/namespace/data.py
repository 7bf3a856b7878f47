"""How operations on the data of a table open it, to read or to change it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tiltyard import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.pylance import FAILURES, is_missing
from tiltyard.errors import TableNotFoundError, TableVersionNotFoundError, TiltyardError
from tiltyard.namespace.rooms import Rooms
from tiltyard.tables import describe, refs

if TYPE_CHECKING:
    import lance


class DataOperations(Rooms):
    """What the families of operations on rows, columns, indexes and references share."""

    def _found(self, id: Sequence[str] | None) -> Table:
        return self._catalog.find(names.parse_table_id(id))

    def _read(
        self, id: Sequence[str] | None, version: int | None = None, branch: str | None = None
    ) -> lance.LanceDataset:
        """A table at its latest version, of the main branch, or another."""
        return self._read_found(self._found(id), describe.At(version, branch=branch_of(branch)))

    def _read_found(self, table: Table, at: describe.At = describe.LATEST) -> lance.LanceDataset:
        try:
            return self._open(table, at)
        except TableNotFoundError as error:
            raise self._missing(table, error) from error

    @contextmanager
    def _change(
        self, id: Sequence[str] | None, branch: str | None = None
    ) -> Iterator[lance.LanceDataset]:
        """A branch of a table, open for one change. A refused commit says why it was."""
        self._store.require_conditions()
        table = self._found(id)
        self._before_write([table.id])
        client = self._client(table)
        with client.plainly():
            try:
                dataset = client.open()
            except FAILURES as error:
                if is_missing(error):
                    raise self._missing(table, no_such_table(table.id)) from error
                raise
            yield refs.on_branch(dataset, table, branch_of(branch))

    def _missing(self, table: Table, error: TiltyardError) -> TiltyardError:
        """What to say of a table that the catalog knows and Lance does not find."""
        if not self._catalog.is_only_declared(self._catalog.find(table.id)):
            return error
        return NoDataYetError(
            f"table {names.display(table.id)} is declared and holds no data yet",
            hint="insert rows, or create it",
        )


class NoDataYetError(TableVersionNotFoundError):
    """The table has a name and a place, and no version."""


def branch_of(name: str | None) -> str | None:
    """The main branch has no name in Lance's files; in requests it may."""
    return None if name == refs.MAIN else name
