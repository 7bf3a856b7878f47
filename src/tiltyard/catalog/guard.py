"""Whether a table is still the one that somebody began to work on.

Between finding a table and reporting a change of it, others may drop it, rename it, or create
another under its name. Whoever changes a table takes a guard first and asks it again at the end
(Guard C in docs/design/versions.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.catalog import marker, names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.errors import ConcurrentModificationError
from tiltyard.store import Tag


@dataclass(frozen=True, slots=True)
class TableGuard:
    """A table as it was found, and the state of what decides about it. Pickles.

    At `<name>.lance` the marker decides: its `tag` changes with every drop, undrop, rename and
    re-creation, and numbers up to its `floor` are those of earlier tables. Any other directory is
    never used again, so there the location tells.
    """

    table: Table
    tag: Tag | None = None
    floor: int = 0

    @classmethod
    def take(cls, context: CatalogContext, table: TableId) -> TableGuard:
        """Find a table. The marker is read first: whoever changes the table after that is noticed.

        What finding the table takes, and one request more for a root table.
        """
        present = marker.read(context.store, table[0]) if len(table) == 1 else marker.ABSENT
        return cls(context.catalog.find(table), present.tag, present.floor)

    @classmethod
    def of(cls, context: CatalogContext, table: Table) -> TableGuard:
        """Guard a table that was found a moment ago. TableNotFoundError if its marker hides it now.

        One request at `<name>.lance`, none elsewhere.
        """
        if not table.has_marker:
            return cls(table)
        present = marker.read(context.store, table.id[0])
        if present.hides:
            raise no_such_table(table.id, hint=marker.why_hidden(present))
        return cls(table, present.tag, present.floor)

    def table_now(self, context: CatalogContext) -> Table | None:
        """The table as it is now; None if another has its name. TableNotFoundError.

        What finding the table takes; at `<name>.lance` one request, of the marker alone.
        """
        if self.table.has_marker:
            is_same = marker.read(context.store, self.table.id[0]).tag == self.tag
            return self.table if is_same else None
        table = context.catalog.find(self.table.id)
        return table if table.location == self.table.location else None

    def still_same(self, context: CatalogContext) -> bool:
        """Whether the table exists as it was found, and keeps its versions as it did then.

        TableNotFoundError. The requests of `table_now`.
        """
        table = self.table_now(context)
        return table is not None and table.managed == self.table.managed

    def require_same(self, context: CatalogContext) -> None:
        """ConcurrentModificationError if the table was replaced since it was found, or changed its
        state; TableNotFoundError if it is not there. The requests of `table_now`, if it is the
        same."""
        if self.still_same(context):
            return
        context.catalog.find(self.table.id)
        raise ConcurrentModificationError(
            f"table {names.display(self.table.id)} was dropped or changed its state meanwhile",
            hint="look at the table before trying again",
        )
