"""The page of the trash, and its actions: drop, restore, hold, release and purge."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from lance_namespace import DropTableRequest
from starlette.responses import Response

from tiltyard import formatting
from tiltyard.catalog import names
from tiltyard.console.page_request import PageRequest
from tiltyard.errors import InvalidInputError, InvalidTableStateError
from tiltyard.lifecycle.purge import PurgeOutcome
from tiltyard.lifecycle.trash import DroppedTable

MAX_SHOWN = 200


async def show_trash(request: PageRequest) -> Response:
    """The dropped tables, last drop first. A size takes a listing, so a large trash shows none."""
    trash = await request.run(request.catalog.list_trash)
    has_sizes = len(trash) <= MAX_SHOWN
    if has_sizes:
        trash = await request.run(request.catalog.list_trash, with_bytes=True)
    visible = [dropped for dropped in reversed(trash) if request.principal.sees(dropped.id)]
    return request.render(
        "trash.html",
        trash=visible[:MAX_SHOWN],
        count=len(visible),
        bytes=sum(dropped.bytes or 0 for dropped in visible) if has_sizes else None,
        held=sum(dropped.held for dropped in visible),
        time_left=partial(_time_left, datetime.now(UTC)),
    )


def _time_left(now: datetime, dropped: DroppedTable) -> float:
    """The share of its time in the trash that a table still has."""
    if dropped.expires_at is None or dropped.expires_at <= now:
        return 0.0
    return (dropped.expires_at - now) / (dropped.expires_at - dropped.dropped_at)


async def drop(request: PageRequest) -> Response:
    identifier = _table_id(request)
    await request.run(
        request.catalog.drop_table,
        DropTableRequest(id=identifier),
        ttl=request.field("ttl") or None,
        reason=request.field("reason") or None,
    )
    return request.redirect("trash", f"Table {request.target} is in the trash.")


async def restore(request: PageRequest) -> Response:
    """Restore a table, under another id if the form has one."""
    identifier, new_id = _table_id(request), request.field("as")
    as_id = request.table_id("as") if new_id and new_id != request.target else None
    await request.run(
        request.catalog.undrop_table,
        identifier,
        generation=_generation(request),
        as_id=as_id,
        keep_newer=request.field("keep_newer") == "yes",
    )
    restored = names.dotted(as_id or identifier)
    former = f", which was {request.target}," if as_id else ""
    return request.redirect("table", f"Table {restored}{former} is back.", id=restored)


async def hold(request: PageRequest) -> Response:
    identifier = _table_id(request)
    await request.run(request.catalog.hold_table, identifier, generation=_generation(request))
    return request.redirect("trash", f"Table {request.target} is held until it is released.")


async def release(request: PageRequest) -> Response:
    identifier = _table_id(request)
    await request.run(request.catalog.release_table, identifier, generation=_generation(request))
    return request.redirect("trash", f"Table {request.target} is no longer held.")


async def purge(request: PageRequest) -> Response:
    """Delete one dropped table for good, if its id was typed."""
    identifier = _table_id(request)
    if request.field("typed") != request.target:
        raise InvalidInputError(
            "that is not its name, so nothing was done", hint=f"type {request.target}"
        )
    receipt = await request.run(
        request.catalog.purge_table, identifier, generation=_generation(request)
    )
    if receipt.outcome is not PurgeOutcome.PURGED:
        raise InvalidTableStateError(f"table {request.target} was not purged: {receipt.error}")
    objects = formatting.counted(receipt.objects, "object")
    size = formatting.size(receipt.bytes)
    return request.redirect("trash", f"Purged {request.target}: {objects}, {size}.")


def _table_id(request: PageRequest) -> list[str]:
    """The table of a form, which becomes the target in the audit log."""
    identifier = request.table_id()
    request.target = names.dotted(identifier)
    return identifier


def _generation(request: PageRequest) -> str | None:
    return request.field("generation") or None
