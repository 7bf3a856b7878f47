"""The verbs by which a table goes and comes back: drop, undrop, and what keeps it from either."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import Name, Names, duration
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import Exit
from tiltyard.cli.output import Field

if TYPE_CHECKING:
    from tiltyard.lifecycle.trash import TableStatus

Generation = Annotated[
    str | None,
    typer.Option("--generation", metavar="G", help="Which drop of it; see trash list."),
]


def add_to(app: typer.Typer) -> None:
    """Make all of these verbs of `table`."""
    verb(app, "drop")(drop)
    verb(app, "undrop")(undrop)
    verb(app, "status")(status)
    verb(app, "hold")(hold)
    verb(app, "release")(release)
    verb(app, "protect")(protect)
    verb(app, "unprotect")(unprotect)


def drop(
    call: Call,
    tables: Names,
    ttl: Annotated[
        str | None,
        typer.Option(
            "--ttl", metavar="TIME", help="How long it can be brought back: 12h, 7d, never."
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; the trash shows it.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", hidden=True)] = False,
) -> None:
    """Put tables into the trash.

    Their data stays, and undrop brings them back, until the trash is purged.
    """
    from lance_namespace import DropTableRequest

    wanted = arguments.parse_ids(tables)
    kept = duration("--ttl", ttl)
    requests = [DropTableRequest(id=each) for each in wanted]
    if len(requests) == 1:
        answers = [call.catalog.drop_table(requests[0], ttl=kept, reason=reason)]
    else:
        answers = call.catalog.drop_tables(requests, ttl=kept, reason=reason)
    lines, rows = [], []
    for identifier, answer in zip(wanted, answers, strict=True):
        shown, now = arguments.shown_id(identifier), call.catalog.table_status(identifier)
        rows.append({"table": shown, "location": answer.location, **_about_the_drop(now)})
        lines.append(_dropped(shown, now))
    lines.append(f"To bring {'it' if len(rows) == 1 else 'one'} back: {_undropping(rows)}")
    fields = [Field(each) for each in ("table", "location", "generation", "expires_at")]
    call.out.summary("\n".join(lines), fields, rows)


def _dropped(shown: str, now: TableStatus) -> str:
    """Somebody may have brought it back, or created it again, since; then that is not our news."""
    if now.generation is None:
        return f"Dropped table {shown}."
    if now.expires_at is None:
        return f"Dropped table {shown}; it stays in the trash."
    return f"Dropped table {shown}; it is in the trash until {now.expires_at:%Y-%m-%d %H:%M} UTC."


def _undropping(rows: Sequence[dict[str, Any]]) -> str:
    return f"tiltyard table undrop {rows[0]['table'] if len(rows) == 1 else 'TABLE'}"


def undrop(
    call: Call,
    table: Name,
    generation: Generation = None,
    as_: Annotated[
        str | None, typer.Option("--as", metavar="NEW", help="Bring it back under another id.")
    ] = None,
    keep_newer: Annotated[
        bool,
        typer.Option("--keep-newer", help="Accept what somebody wrote to it after the drop."),
    ] = False,
) -> None:
    """Bring a dropped table back, as it was.

    Of several drops of one name the last one counts, unless --generation says which. No byte moves,
    also when it gets another id.
    """
    identifier, target = arguments.parse_id(table), arguments.parse_id(as_)
    answer = call.catalog.undrop_table(
        identifier, generation=generation, as_id=target or None, keep_newer=keep_newer
    )
    shown = arguments.shown_id(target or identifier)
    result = {
        "table": shown,
        "location": answer.location,
        "undropped_from": arguments.shown_id(identifier),
    }
    former = f", which was {result['undropped_from']}," if target else ""
    call.out.done(f"Table {shown}{former} is back.", result)


def status(call: Call, table: Name) -> None:
    """Tell whether a table exists, is in the trash, or neither.

    The exit status is 4 if neither: it was purged, or never was.
    """
    identifier = arguments.parse_id(table)
    now = call.catalog.table_status(identifier)
    fields = [
        Field("table"),
        Field("state", lambda state: state.replace("_", " ")),
        Field("deleted_at", formatting.age),
        Field("expires_at", formatting.until),
        Field("generation"),
    ]
    found = {
        "table": arguments.shown_id(identifier),
        "state": now.state.value,
        "deleted_at": now.deleted_at,
        **_about_the_drop(now),
    }
    call.out.record(fields, found)
    if now.state.value == "not_found":
        raise typer.Exit(Exit.NOT_FOUND)


def hold(call: Call, table: Name, generation: Generation = None) -> None:
    """Keep a dropped table from being purged, whatever its time."""
    identifier = arguments.parse_id(table)
    held = call.catalog.hold_table(identifier, generation=generation)
    shown = arguments.shown_id(identifier)
    result = {"table": shown, "generation": held.generation, "held": True}
    call.out.done(f"Table {shown} is held in the trash until it is released.", result)


def release(call: Call, table: Name, generation: Generation = None) -> None:
    """Let a held table be purged again, when its time has come."""
    identifier = arguments.parse_id(table)
    released = call.catalog.release_table(identifier, generation=generation)
    shown = arguments.shown_id(identifier)
    result = {"table": shown, "generation": released.generation, "held": False}
    call.out.done(f"Table {shown} is no longer held.", result)


def protect(call: Call, table: Name) -> None:
    """Keep a table from being dropped."""
    identifier = arguments.parse_id(table)
    call.catalog.protect_table(identifier)
    shown = arguments.shown_id(identifier)
    call.out.done(f"Table {shown} can't be dropped now.", {"table": shown, "protected": True})


def unprotect(call: Call, table: Name) -> None:
    """Allow a protected table to be dropped again."""
    identifier = arguments.parse_id(table)
    call.catalog.unprotect_table(identifier)
    shown = arguments.shown_id(identifier)
    call.out.done(f"Table {shown} can be dropped again.", {"table": shown, "protected": False})


def _about_the_drop(now: TableStatus) -> dict[str, Any]:
    return {"generation": now.generation, "expires_at": now.expires_at}
