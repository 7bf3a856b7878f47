"""What is amiss in the catalog, and the command that mends each finding."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from starlette.responses import Response

from tiltyard.console.background import Background
from tiltyard.console.visit import Visit
from tiltyard.maintenance.findings import Finding, Severity
from tiltyard.namespace import DirectoryNamespace

FRESH = timedelta(minutes=5)
MOST_SHOWN = 300


class Doctor:
    """Has a catalog examined, and shows the findings."""

    def __init__(self) -> None:
        self._findings: Background[list[Finding]] = Background(_examine, FRESH)

    async def show(self, visit: Visit) -> Response:
        kept = await self._findings.soon(visit.catalog)
        counts = Counter(each.severity for each in kept.value) if kept else Counter[Severity]()
        return visit.show(
            "doctor.html",
            kept=kept,
            findings=kept.value[:MOST_SHOWN] if kept else [],
            is_running=self._findings.is_running,
            counts=[(each, counts[each]) for each in Severity],
        )

    async def examine(self, visit: Visit) -> Response:
        await self._findings.soon(visit.catalog, again=True)
        return visit.go("doctor")


def _examine(catalog: DirectoryNamespace) -> list[Finding]:
    return catalog.health.doctor()
