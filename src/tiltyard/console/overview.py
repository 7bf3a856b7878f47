"""The pages about the whole catalog: the overview with its figures, events, and the doctor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from tiltyard import formatting
from tiltyard.access import Principal
from tiltyard.catalog import names
from tiltyard.catalog.names import TableId
from tiltyard.console import charts
from tiltyard.console.background import CachedQuery
from tiltyard.console.page_request import PageRequest
from tiltyard.lifecycle.trash import DroppedTable
from tiltyard.maintenance.doctor import Finding, Severity
from tiltyard.maintenance.inventory import TableInventory
from tiltyard.namespace import DirectoryNamespace

FIGURES_MAX_AGE = timedelta(seconds=60)
FINDINGS_MAX_AGE = timedelta(minutes=5)
MAX_EVENTS = 200
MAX_FINDINGS = 300
EXPIRY_DAYS = 14


# -- figures


@dataclass(frozen=True, slots=True)
class Figures:
    """The numbers of a catalog at one moment. `orphans` is None for a principal who does not see
    the whole catalog."""

    tables: Mapping[TableId, TableInventory]
    trash: tuple[DroppedTable, ...]
    orphans: int | None
    orphan_bytes: int

    @property
    def live_bytes(self) -> int:
        return sum(table.live_bytes for table in self.tables.values())

    @property
    def old_bytes(self) -> int:
        """The bytes that only older versions need."""
        return sum(table.old_version_bytes for table in self.tables.values())

    @property
    def trash_bytes(self) -> int:
        return sum(dropped.bytes or 0 for dropped in self.trash)

    @property
    def versions(self) -> int:
        return sum(table.versions for table in self.tables.values())

    @property
    def rows(self) -> int:
        return sum(table.rows for table in self.tables.values())

    @property
    def broken(self) -> list[TableId]:
        """Tables that can't be read."""
        return [id for id, table in self.tables.items() if table.error]

    def largest(self, limit: int = 8) -> list[tuple[TableId, TableInventory]]:
        """The largest tables that have data."""
        by_size = sorted(self.tables.items(), key=lambda item: (-item[1].bytes, item[0]))
        return [(id, table) for id, table in by_size[:limit] if table.versions]

    def expiring(self) -> list[DroppedTable]:
        """Dropped tables that will expire, soonest first."""
        expiring = [dropped for dropped in self.trash if dropped.expires_at and not dropped.held]
        return sorted(expiring, key=lambda dropped: (dropped.expires_at, dropped.id))

    def expiring_by_day(self, now: datetime, days: int = EXPIRY_DAYS) -> list[int]:
        """How many dropped tables expire today, tomorrow and so on; the overdue count today."""
        counts = [0] * days
        for dropped in self.expiring():
            assert dropped.expires_at is not None
            day = max(0, (dropped.expires_at.date() - now.date()).days)
            if day < days:
                counts[day] += 1
        return counts

    def visible_to(self, principal: Principal) -> Figures:
        """The figures of what the principal sees."""
        if principal.sees(()):
            return self
        return replace(
            self,
            tables={id: table for id, table in self.tables.items() if principal.sees(id)},
            trash=tuple(dropped for dropped in self.trash if principal.sees(dropped.id)),
            orphans=None,
            orphan_bytes=0,
        )


def count_figures(catalog: DirectoryNamespace) -> Figures:
    """Read everything: a listing of each table, and a few requests for each version."""
    tables = catalog.maintenance.inventory_all_tables()
    orphans = list(catalog.health.find_orphans())
    return Figures(
        tables={tuple(names.parse_dotted(table.table)): table for table in tables},
        trash=tuple(catalog.list_trash(with_bytes=True)),
        orphans=len(orphans),
        orphan_bytes=sum(orphan.bytes for orphan in orphans),
    )


class OverviewPage:
    """The figures of a catalog, counted in the background and kept for a minute."""

    def __init__(self) -> None:
        self.figures = CachedQuery(count_figures, FIGURES_MAX_AGE)

    async def show(self, request: PageRequest) -> Response:
        result = await self.figures.result(request.catalog)
        if result is None:
            return request.render("overview.html", figures=None, is_counting=True)
        figures, now = result.value.visible_to(request.principal), datetime.now(UTC)
        by_day = figures.expiring_by_day(now)
        expiring = formatting.counted(sum(by_day), "dropped table")
        return request.render(
            "overview.html",
            figures=figures,
            counted_at=result.at,
            is_counting=self.figures.is_running,
            shares=_byte_shares(figures),
            days=charts.columns(
                [(count, _day_title(now, day, count)) for day, count in enumerate(by_day)],
                f"{expiring} expire in the next {EXPIRY_DAYS} days.",
            ),
        )

    async def count_again(self, request: PageRequest) -> Response:
        await self.figures.result(request.catalog, refresh=True)
        return request.redirect("")


def _byte_shares(figures: Figures) -> str:
    parts = [
        ("live", figures.live_bytes),
        ("old", figures.old_bytes),
        ("trash", figures.trash_bytes),
        ("orphan", figures.orphan_bytes),
    ]
    text = ", ".join(f"{formatting.size(value)} {kind}" for kind, value in parts)
    return charts.shares(parts, f"Bytes: {text}")


def _day_title(now: datetime, day: int, count: int) -> str:
    title = "today" if day == 0 else f"{now.date() + timedelta(days=day):%d %B}"
    return f"{title}: {formatting.counted(count, 'table')}"


# -- events


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of the page of events."""

    at: datetime
    who: str
    what: str
    target: str
    outcome: str
    succeeded: bool = True


async def events(request: PageRequest) -> Response:
    """Changes through this server, drops, and what recoveries did."""
    of_catalog = await request.run(_catalog_events, request.catalog, request.principal)
    rows = [*of_catalog, *_server_events(request)]
    rows.sort(key=lambda row: (row.at, row.target), reverse=True)
    return request.render("events.html", events=rows[:MAX_EVENTS])


def _server_events(request: PageRequest) -> Iterator[EventRow]:
    """An admin of the whole catalog sees the changes of everybody, others only their own."""
    sees_others = request.sees_all and request.has_role("admin")
    for event in request.state.audit.recent(MAX_EVENTS):
        if sees_others or event.who == request.principal.name:
            succeeded = event.outcome == "done"
            yield EventRow(event.at, event.who, event.what, event.target, event.outcome, succeeded)


def _catalog_events(catalog: DirectoryNamespace, principal: Principal) -> list[EventRow]:
    drops = [
        EventRow(
            dropped.dropped_at,
            dropped.dropped_by or "somebody",
            "drop table",
            names.dotted(dropped.id),
            dropped.reason or "in the trash",
        )
        for dropped in catalog.list_trash()
        if principal.sees(dropped.id)
    ]
    recoveries = [
        EventRow(
            recovered.at,
            recovered.by,
            f"recover {recovered.kind}",
            ", ".join(map(names.dotted, recovered.tables)),
            recovered.detail or recovered.outcome,
        )
        for recovered in catalog.health.list_recovered(most=MAX_EVENTS)
        if all(map(principal.sees, recovered.tables))
    ]
    return drops + recoveries


# -- the doctor


def _examine(catalog: DirectoryNamespace) -> list[Finding]:
    return catalog.health.doctor()


class DoctorPage:
    """What is wrong in the catalog, with the command that repairs each finding."""

    def __init__(self) -> None:
        self._findings = CachedQuery(_examine, FINDINGS_MAX_AGE)

    async def show(self, request: PageRequest) -> Response:
        result = await self._findings.result(request.catalog)
        findings = result.value if result else []
        counts = Counter(finding.severity for finding in findings)
        return request.render(
            "doctor.html",
            result=result,
            findings=findings[:MAX_FINDINGS],
            is_running=self._findings.is_running,
            counts=[(severity, counts[severity]) for severity in Severity],
        )

    async def examine(self, request: PageRequest) -> Response:
        await self._findings.result(request.catalog, refresh=True)
        return request.redirect("doctor")
