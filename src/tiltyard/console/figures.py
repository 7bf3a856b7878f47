"""The numbers about a whole catalog, counted in one place for every page that shows some.

Counting looks into each table, so pages have it done in the background.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

from lance_namespace import ListTablesRequest

from tiltyard import names
from tiltyard.access import Principal
from tiltyard.errors import TableNotFoundError, TableVersionNotFoundError, TiltyardError
from tiltyard.lifecycle.trash import Trashed
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace

LOOKING_THREADS = 4


@dataclass(frozen=True, slots=True)
class TableFigures:
    """One table. What has no version yet has no numbers; what can't be read says why."""

    id: TableId
    rows: int = 0
    fragments: int = 0
    versions: int = 0
    bytes: int = 0
    written_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """A catalog at one moment. Orphans are None for whoever does not see the whole of it."""

    tables: tuple[TableFigures, ...]
    trash: tuple[Trashed, ...]
    orphans: int | None
    orphan_bytes: int

    @property
    def live_bytes(self) -> int:
        return sum(each.bytes for each in self.tables)

    @property
    def trash_bytes(self) -> int:
        return sum(each.bytes or 0 for each in self.trash)

    @property
    def versions(self) -> int:
        return sum(each.versions for each in self.tables)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.tables)

    @property
    def broken(self) -> list[TableFigures]:
        return [each for each in self.tables if each.error]

    def largest(self, most: int = 8) -> list[TableFigures]:
        ordered = sorted(self.tables, key=lambda each: (-each.bytes, each.id))
        return [each for each in ordered[:most] if each.bytes]

    def expiring(self) -> list[Trashed]:
        """What the trash loses next, soonest first."""
        coming = [each for each in self.trash if each.expires_at and not each.held]
        return sorted(coming, key=lambda each: (each.expires_at, each.id))

    def expiring_by_day(self, now: datetime, days: int = 14) -> list[int]:
        """How many dropped tables have their end today, tomorrow and so on; the overdue today."""
        counts = [0] * days
        for each in self.expiring():
            assert each.expires_at is not None
            day = max(0, (each.expires_at.date() - now.date()).days)
            if day < days:
                counts[day] += 1
        return counts

    def seen_by(self, principal: Principal) -> Figures:
        """Only what lies in somebody's namespace."""
        if principal.sees(()):
            return self
        return replace(
            self,
            tables=tuple(each for each in self.tables if principal.sees(each.id)),
            trash=tuple(each for each in self.trash if principal.sees(each.id)),
            orphans=None,
            orphan_bytes=0,
        )


def count(catalog: DirectoryNamespace) -> Figures:
    """Look at everything: a handful of requests for each table."""
    listed = catalog.list_all_tables(ListTablesRequest(id=[])).tables
    with ThreadPoolExecutor(LOOKING_THREADS) as pool:
        looked = pool.map(lambda each: _of_table(catalog, names.split_object_id(each)), listed)
        tables = tuple(each for each in looked if each is not None)
    orphans = list(catalog.find_orphans())
    return Figures(
        tables=tables,
        trash=tuple(catalog.list_trash(with_bytes=True)),
        orphans=len(orphans),
        orphan_bytes=sum(each.bytes for each in orphans),
    )


def _of_table(catalog: DirectoryNamespace, table: TableId) -> TableFigures | None:
    try:
        history = catalog.table_history(table)
    except TableVersionNotFoundError:
        return TableFigures(table)
    except TableNotFoundError:  # dropped since it was listed, or only declared
        return TableFigures(table) if _is_there(catalog, table) else None
    except TiltyardError as problem:
        return TableFigures(table, error=str(problem))
    if not history:
        return TableFigures(table)
    last = history[-1]
    return TableFigures(table, last.rows, last.fragments, len(history), last.bytes, last.created_at)


def _is_there(catalog: DirectoryNamespace, table: Sequence[str]) -> bool:
    return catalog.table_status(table).state.value == "exists"
