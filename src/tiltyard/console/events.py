"""What happened lately: changes through this server, drops, and what recoveries did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from starlette.responses import Response

from tiltyard import names
from tiltyard.access import Principal
from tiltyard.console.visit import Visit
from tiltyard.namespace import DirectoryNamespace

MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Happening:
    """One line of the page."""

    at: datetime
    who: str
    what: str
    target: str
    outcome: str
    went_well: bool = True


async def events(visit: Visit) -> Response:
    kept = await visit.ask(_of_catalog, visit.catalog, visit.principal)
    everything = [*kept, *_of_server(visit)]
    everything.sort(key=lambda each: (each.at, each.target), reverse=True)
    return visit.show("events.html", events=everything[:MOST_SHOWN])


def _of_server(visit: Visit) -> Iterator[Happening]:
    """Admins of the whole catalog see what everybody did, others what they did themselves."""
    sees_others = visit.sees_all and visit.may("admin")
    for each in visit.state.audit.recent(MOST_SHOWN):
        if sees_others or each.who == visit.principal.name:
            done = each.outcome == "done"
            yield Happening(each.at, each.who, each.what, each.target, each.outcome, done)


def _of_catalog(catalog: DirectoryNamespace, principal: Principal) -> list[Happening]:
    dropped = [
        Happening(
            each.dropped_at,
            each.dropped_by or "somebody",
            "drop table",
            names.dotted(each.id),
            each.reason or "in the trash",
        )
        for each in catalog.list_trash()
        if principal.sees(each.id)
    ]
    recovered = [
        Happening(
            each.at,
            each.by,
            f"recover {each.kind}",
            ", ".join(map(names.dotted, each.tables)),
            each.detail or each.outcome,
        )
        for each in catalog.health.list_recovered(most=MOST_SHOWN)
        if all(map(principal.sees, each.tables))
    ]
    return dropped + recovered
