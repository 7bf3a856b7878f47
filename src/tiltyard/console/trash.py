"""The trash: what was dropped, and what can be done about it. And the way into it."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from lance_namespace import DropTableRequest
from starlette.responses import Response

from tiltyard import formatting, names
from tiltyard.console.visit import Visit
from tiltyard.errors import InvalidInputError, InvalidTableStateError
from tiltyard.lifecycle.purge import PurgeOutcome
from tiltyard.lifecycle.trash import DroppedTable

MOST_SHOWN = 200


async def trash(visit: Visit) -> Response:
    """What was dropped, last first. A size takes a listing, so a large trash shows none."""
    found = await visit.ask(visit.catalog.list_trash)
    if len(found) <= MOST_SHOWN:
        found = await visit.ask(visit.catalog.list_trash, with_bytes=True)
    seen = [each for each in reversed(found) if visit.principal.sees(each.id)]
    return visit.show(
        "trash.html",
        dropped=seen[:MOST_SHOWN],
        count=len(seen),
        bytes=sum(each.bytes or 0 for each in seen) if len(found) <= MOST_SHOWN else None,
        held=sum(each.held for each in seen),
        left=partial(_left, datetime.now(UTC)),
    )


async def drop(visit: Visit) -> Response:
    identifier = _named(visit)
    await visit.ask(
        visit.catalog.drop_table,
        DropTableRequest(id=identifier),
        ttl=visit.said("ttl") or None,
        reason=visit.said("reason") or None,
    )
    return visit.go("trash", f"Table {visit.target} is in the trash.")


async def restore(visit: Visit) -> Response:
    """Bring a table back, under another name if one was given."""
    identifier, target = _named(visit), visit.said("as")
    as_id = visit.table("as") if target and target != visit.target else None
    await visit.ask(
        visit.catalog.undrop_table,
        identifier,
        generation=_generation(visit),
        as_id=as_id,
        keep_newer=visit.said("keep_newer") == "yes",
    )
    shown = names.dotted(as_id or identifier)
    former = f", which was {visit.target}," if as_id else ""
    return visit.go("table", f"Table {shown}{former} is back.", id=shown)


async def hold(visit: Visit) -> Response:
    await visit.ask(visit.catalog.hold_table, _named(visit), generation=_generation(visit))
    return visit.go("trash", f"Table {visit.target} is held until it is released.")


async def release(visit: Visit) -> Response:
    await visit.ask(visit.catalog.release_table, _named(visit), generation=_generation(visit))
    return visit.go("trash", f"Table {visit.target} is no longer held.")


async def purge(visit: Visit) -> Response:
    """Delete one dropped table for good, if its name was typed."""
    identifier = _named(visit)
    if visit.said("typed") != visit.target:
        raise InvalidInputError(
            "that is not its name, so nothing was done", hint=f"type {visit.target}"
        )
    receipt = await visit.ask(visit.catalog.purge_table, identifier, generation=_generation(visit))
    if receipt.outcome is not PurgeOutcome.PURGED:
        raise InvalidTableStateError(f"table {visit.target} was not purged: {receipt.error}")
    objects = formatting.counted(receipt.objects, "object")
    return visit.go("trash", f"Purged {visit.target}: {objects}, {formatting.size(receipt.bytes)}.")


def _left(now: datetime, dropped: DroppedTable) -> float:
    """The share of its time in the trash that a table still has."""
    if dropped.expires_at is None or dropped.expires_at <= now:
        return 0.0
    return (dropped.expires_at - now) / (dropped.expires_at - dropped.dropped_at)


def _named(visit: Visit) -> list[str]:
    """The table that a form is about."""
    identifier = visit.table()
    visit.target = names.dotted(identifier)
    return identifier


def _generation(visit: Visit) -> str | None:
    return visit.said("generation") or None
