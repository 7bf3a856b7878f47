"""The first page: how much there is, where it lies, and what goes next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.responses import Response

from tiltyard import formatting
from tiltyard.console import charts
from tiltyard.console.background import Background
from tiltyard.console.figures import Figures, count
from tiltyard.console.visit import Visit

FRESH = timedelta(seconds=60)


def counting() -> Background[Figures]:
    """The figures of one catalog, counted when a page asks for them."""
    return Background(count, FRESH)


class Overview:
    """Shows the figures of a catalog, and has them counted."""

    def __init__(self, figures: Background[Figures]) -> None:
        self._figures = figures

    async def show(self, visit: Visit) -> Response:
        kept = await self._figures.soon(visit.catalog)
        if kept is None:
            return visit.show("overview.html", figures=None, is_counting=True)
        figures, now = kept.value.seen_by(visit.principal), datetime.now(UTC)
        by_day = figures.expiring_by_day(now)
        return visit.show(
            "overview.html",
            figures=figures,
            counted_at=kept.at,
            is_counting=self._figures.is_running,
            shares=_shares(figures),
            days=charts.columns(
                [(each, _day(now, place, each)) for place, each in enumerate(by_day)],
                f"{formatting.counted(sum(by_day), 'dropped table')} expire in the next 14 days.",
            ),
        )

    async def count_again(self, visit: Visit) -> Response:
        await self._figures.soon(visit.catalog, again=True)
        return visit.go("")


def _shares(figures: Figures) -> str:
    parts = [
        ("live", figures.live_bytes),
        ("old", figures.old_bytes),
        ("trash", figures.trash_bytes),
        ("orphan", figures.orphan_bytes),
    ]
    told = ", ".join(f"{formatting.size(value)} {kind}" for kind, value in parts)
    return charts.shares(parts, f"Bytes: {told}")


def _day(now: datetime, place: int, count: int) -> str:
    day = now.date() + timedelta(days=place)
    shown = "today" if place == 0 else f"{day:%d %B}"
    return f"{shown}: {formatting.counted(count, 'table')}"
