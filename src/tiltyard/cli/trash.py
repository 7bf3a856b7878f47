"""`tiltyard trash`: what was dropped, bringing it back, and deleting it for good."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.cli import identifiers, lives, words
from tiltyard.cli.call import Call, verb
from tiltyard.cli.confirm import confirm, confirm_all
from tiltyard.cli.failures import Exit, UsageError
from tiltyard.cli.output import Field, Format
from tiltyard.cli.progress import bar

if TYPE_CHECKING:
    from tiltyard.lifecycle.purge import PurgePlan, Receipt
    from tiltyard.lifecycle.trash import Trashed

app = typer.Typer(
    help="See what was dropped, bring it back, or delete it for good.", no_args_is_help=True
)

TABLE = Field("table")
GENERATION = Field("generation")
DROPPED = Field("dropped_at", words.age, title="dropped")
EXPIRES = Field("expires_at", words.until, title="expires", none="never")
SIZE = Field("bytes", words.size, right=True, title="size")


@verb(app, "list")
def list_(
    call: Call,
    with_bytes: Annotated[
        bool, typer.Option("--bytes", help="How much room each takes; lists its files.")
    ] = False,
) -> None:
    """List the dropped tables, oldest drop first.

    Generations are shown where one name was dropped several times; -o json always has them.
    """
    found = call.catalog.list_trash(with_bytes=with_bytes)
    rows = [_row(each) for each in found]
    if call.options.format is not Format.TABLE:
        call.out.rows([Field(each) for each in _EXACT], rows)
        return
    call.out.rows(
        [
            TABLE,
            *([GENERATION] if _has_namesakes(found) else []),
            DROPPED,
            Field("dropped_by", title="by"),
            Field("reason", words.value),
            EXPIRES,
            *([SIZE] if with_bytes else []),
            Field("held", words.yes_or_no),
            Field("restorable", words.yes_or_no),
        ],
        rows,
    )


@verb(app, "purge")
def purge(
    call: Call,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Dropped tables; none means what has expired."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="What was dropped longer ago than this, like 7d, instead of what has expired.",
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete. Without it you only see what would go.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply: do not ask.")] = False,
) -> None:
    """Delete dropped tables for good; a dry run unless you say --apply.

    On a terminal you are asked to type the table's name, or the number of several. What somebody
    brought back or held meanwhile is left alone.
    """
    plan = _plan(call, tables or [], older_than)
    if not plan.tables:
        call.out.summary("Nothing to purge.", _RECEIPT, [])
        return
    total = f"{words.counted(len(plan.tables), 'table')}, {words.size(plan.bytes)}"
    if not apply:
        rows = [_row(each) | {"outcome": "planned"} for each in plan.tables]
        people = [TABLE, GENERATION, DROPPED, EXPIRES, SIZE]
        call.out.rows(people if call.options.format is Format.TABLE else _RECEIPT, rows)
        call.out.say(f"Would purge {total}. Nothing was deleted; --apply does it.")
        return
    _ask(call, plan, yes=yes)
    receipts = _apply(call, plan)
    people = [*_RECEIPT_FOR_PEOPLE, *([_WHY] if any(each.error for each in receipts) else [])]
    call.out.rows(
        people if call.options.format is Format.TABLE else _RECEIPT,
        [_receipt_row(each) for each in receipts],
    )
    _end(call, receipts, named=bool(tables))


verb(app, "restore")(lives.undrop)


# -- purging


def _plan(call: Call, tables: Sequence[str], older_than: str | None) -> PurgePlan:
    """What to delete. A table that was named and is held is refused before anything is asked."""
    from tiltyard.errors import InvalidTableStateError

    wanted = identifiers.parse_all(tables)
    cutoff = None if older_than is None else _cutoff(older_than)
    if wanted and cutoff:
        raise UsageError(
            "--older-than chooses tables by their age, so no table can be named beside it"
        )
    plan = call.catalog.plan_purge(wanted or None, deleted_before=cutoff)
    held = [identifiers.shown(each.id) for each in plan.tables if each.held]
    if held:
        raise InvalidTableStateError(
            f"table '{held[0]}' is held", hint=f"tiltyard table release {held[0]}"
        )
    return plan


def _cutoff(older_than: str) -> datetime:
    from tiltyard.settings import duration

    seconds = duration(lives.duration("--older-than", older_than))
    if seconds is None:
        raise UsageError("--older-than takes a time, not 'never'", "like 30m, 12h or 7d")
    return datetime.now(UTC) - timedelta(seconds=seconds)


def _ask(call: Call, plan: PurgePlan, *, yes: bool) -> None:
    names = [identifiers.shown(each.id) for each in plan.tables]
    if len(names) == 1:
        confirm(call, "delete for good the table", names[0], yes=yes)
    else:
        confirm_all(call, "delete for good the tables", names, yes=yes)


def _apply(call: Call, plan: PurgePlan) -> list[Receipt]:
    begun, freed = time.monotonic(), 0
    with bar(call, "Purging") as show:

        def progress(receipt: Receipt, done: int, total: int) -> None:
            nonlocal freed
            freed += receipt.bytes
            rate = round(freed / max(time.monotonic() - begun, 0.001))
            if show is not None:
                show(done, total, f"{done} of {total} tables, {words.size(rate)}/s")

        return call.catalog.apply_purge(plan, progress)


def _end(call: Call, receipts: Sequence[Receipt], *, named: bool) -> None:
    """Say what came of it. A table that somebody brought back is only amiss if it was named."""
    counts = Counter(each.outcome.value for each in receipts)
    gone = [each for each in receipts if each.outcome.value == "purged"]
    objects = words.counted(sum(each.objects for each in gone), "object")
    size = words.size(sum(each.bytes for each in gone))
    rest = [
        f"{words.number(counts[each])} {each}" for each in ("skipped", "failed") if counts[each]
    ]
    purged = f"Purged {words.counted(len(gone), 'table')}: {objects}, {size}"
    call.out.say("; ".join([purged, *rest]) + ".")
    amiss = counts["failed"] + (counts["skipped"] if named else 0)
    if amiss:
        raise typer.Exit(Exit.PARTLY if gone else Exit.FAILED)


# -- rows

_EXACT = (
    "table",
    "generation",
    "state",
    "dropped_at",
    "dropped_by",
    "reason",
    "expires_at",
    "version",
    "bytes",
    "held",
    "restorable",
    "location",
)

_RECEIPT = [
    Field(each)
    for each in (
        "table",
        "generation",
        "outcome",
        "objects",
        "bytes",
        "at",
        "by",
        "location",
        "error",
    )
]
_RECEIPT_FOR_PEOPLE = [
    TABLE,
    GENERATION,
    Field("outcome"),
    Field("objects", words.number, right=True),
    SIZE,
]
_WHY = Field("error", title="why", none="")


def _row(dropped: Trashed) -> dict[str, Any]:
    exact = {name: getattr(dropped, name) for name in _EXACT if name != "table"}
    return {"table": identifiers.shown(dropped.id), **exact}


def _receipt_row(receipt: Receipt) -> dict[str, Any]:
    return {
        "table": identifiers.shown(receipt.id),
        "generation": receipt.generation,
        "outcome": receipt.outcome.value,
        "objects": receipt.objects,
        "bytes": receipt.bytes,
        "at": receipt.at,
        "by": receipt.by,
        "location": receipt.location,
        "error": receipt.error,
    }


def _has_namesakes(found: Sequence[Trashed]) -> bool:
    return len({each.id for each in found}) < len(found)
