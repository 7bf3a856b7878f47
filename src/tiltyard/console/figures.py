"""The numbers about a whole catalog, counted in one place for every page that shows some.

Each table's come from its inventory, which looks into it; so pages have this done in the
background.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from tiltyard import names
from tiltyard.access import Principal
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.inventory import TableInventory
from tiltyard.names import TableId
from tiltyard.namespace import DirectoryNamespace

Ranked = tuple[TableId, TableInventory]


@dataclass(frozen=True, slots=True)
class Figures:
    """A catalog at one moment. Orphans are None for whoever does not see the whole of it."""

    tables: Mapping[TableId, TableInventory]
    trash: tuple[DroppedTable, ...]
    orphans: int | None
    orphan_bytes: int

    @property
    def live_bytes(self) -> int:
        return sum(each.live_bytes for each in self.tables.values())

    @property
    def old_bytes(self) -> int:
        """What only older versions need."""
        return sum(each.old_version_bytes for each in self.tables.values())

    @property
    def trash_bytes(self) -> int:
        return sum(each.bytes or 0 for each in self.trash)

    @property
    def versions(self) -> int:
        return sum(each.versions for each in self.tables.values())

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.tables.values())

    @property
    def broken(self) -> list[TableId]:
        """Tables that can't be read."""
        return [id for id, each in self.tables.items() if each.error]

    def largest(self, most: int = 8) -> list[Ranked]:
        ordered = sorted(self.tables.items(), key=lambda each: (-each[1].bytes, each[0]))
        return [each for each in ordered[:most] if each[1].versions]

    def expiring(self) -> list[DroppedTable]:
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
            tables={id: each for id, each in self.tables.items() if principal.sees(id)},
            trash=tuple(each for each in self.trash if principal.sees(each.id)),
            orphans=None,
            orphan_bytes=0,
        )


def count(catalog: DirectoryNamespace) -> Figures:
    """Look at everything: a listing of each table, and a few requests for each version."""
    tables = catalog.maintenance.inventory_all_tables()
    orphans = list(catalog.health.find_orphans())
    return Figures(
        tables={tuple(names.parse_dotted(each.table)): each for each in tables},
        trash=tuple(catalog.list_trash(with_bytes=True)),
        orphans=len(orphans),
        orphan_bytes=sum(each.bytes for each in orphans),
    )
