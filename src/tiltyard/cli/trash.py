"""`tiltyard trash`: what was dropped, bringing it back, and deleting it for good."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments, table_lifecycle
from tiltyard.cli.arguments import Apply, Dropped, OlderDrops, Yes, duration
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import Exit, UsageError, as_typed
from tiltyard.cli.output import Field, Format
from tiltyard.cli.terminal import bar, confirm, confirm_all

if TYPE_CHECKING:
    from tiltyard.lifecycle.purge import PurgePlan, Receipt
    from tiltyard.lifecycle.trash import DroppedTable

app = typer.Typer(
    help="See what was dropped, bring it back, or delete it for good.", no_args_is_help=True
)

TABLE = Field("table")
GENERATION = Field("generation")
DROPPED = Field("dropped_at", formatting.age, title="dropped")
EXPIRES = Field("expires_at", formatting.until, title="expires", none="never")
SIZE = Field("bytes", formatting.size, right=True, title="size")


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
    people = [
        TABLE,
        *([GENERATION] if _has_namesakes(found) else []),
        DROPPED,
        Field("dropped_by", title="by"),
        Field("reason", formatting.value),
        EXPIRES,
        *([SIZE] if with_bytes else []),
        Field("held", formatting.yes_or_no),
        Field("restorable", formatting.yes_or_no),
    ]
    _show(call, people, [Field(each) for each in _EXACT], rows)


@verb(app, "purge")
def purge(
    call: Call,
    tables: Dropped = None,
    older_than: OlderDrops = None,
    apply: Apply = False,
    yes: Yes = False,
) -> None:
    """Delete dropped tables for good; a dry run unless you say --apply.

    On a terminal you are asked to type the table's name, or the number of several. What somebody
    brought back or held meanwhile is left alone.
    """
    plan = _plan(call, tables or [], older_than)
    if not plan.tables:
        call.out.summary("Nothing to purge.", RECEIPT, [])
        return
    total = f"{formatting.counted(len(plan.tables), 'table')}, {formatting.size(plan.bytes)}"
    if not apply:
        rows = [_row(table) | {"outcome": "planned"} for table in plan.tables]
        said = f"Would purge {total}. {NOT_DONE}"
        _show(call, [TABLE, GENERATION, DROPPED, EXPIRES, SIZE], RECEIPT, rows, said)
        return
    ask(call, plan.tables, yes=yes)
    show_receipts(call, _apply(call, plan), named=bool(tables))


def show_receipts(call: Call, receipts: Sequence[Receipt], *, named: bool) -> None:
    """Print what became of dropped tables, and end the command by it."""
    people = [*_RECEIPT_FOR_PEOPLE, *([_WHY] if any(receipt.error for receipt in receipts) else [])]
    _show(
        call, people, RECEIPT, [_receipt_row(receipt) for receipt in receipts], _summary(receipts)
    )
    counts = Counter(receipt.outcome.value for receipt in receipts)
    # What somebody brought back in the meantime is only amiss if it was named.
    if counts["failed"] or (named and counts["skipped"]):
        raise typer.Exit(Exit.PARTLY if counts["purged"] else Exit.FAILED)


verb(app, "restore")(table_lifecycle.undrop)


# -- purging


def _plan(call: Call, tables: Sequence[str], older_than: str | None) -> PurgePlan:
    """What to delete. A table that was named and is held is refused before anything is asked."""
    from tiltyard.errors import InvalidTableStateError

    wanted = arguments.parse_ids(tables)
    before = None if older_than is None else cutoff(older_than)
    if wanted and before:
        raise UsageError(
            "--older-than chooses tables by their age, so no table can be named beside it"
        )
    plan = call.catalog.plan_purge(wanted or None, deleted_before=before)
    held = [arguments.shown_id(table.id) for table in plan.tables if table.held]
    if held:
        raise InvalidTableStateError(
            f"table '{held[0]}' is held", hint=f"tiltyard table release {held[0]}"
        )
    return plan


def cutoff(older_than: str) -> datetime:
    """The time so long ago."""
    from tiltyard.settings import duration as parsed

    seconds = parsed(duration("--older-than", older_than))
    if seconds is None:
        raise UsageError("--older-than takes a time, not 'never'", "like 30m, 12h or 7d")
    return datetime.now(UTC) - timedelta(seconds=seconds)


def ask(call: Call, tables: Sequence[DroppedTable], *, yes: bool) -> None:
    """The question before dropped tables go for good."""
    names = [arguments.shown_id(table.id) for table in tables]
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
                show(done, total, f"{formatting.size(rate)}/s")

        return call.catalog.apply_purge(plan, progress)


def _summary(receipts: Sequence[Receipt]) -> str:
    counts = Counter(receipt.outcome.value for receipt in receipts)
    objects = formatting.counted(sum(receipt.objects for receipt in receipts), "object")
    size = formatting.size(sum(receipt.bytes for receipt in receipts))
    if counts["planned"]:
        return f"Would purge {formatting.counted(counts['planned'], 'table')}: {objects}, {size}."
    said = [f"Purged {formatting.counted(counts['purged'], 'table')}: {objects}, {size}"]
    left = [each for each in ("skipped", "failed") if counts[each]]
    return "; ".join(said + [f"{formatting.number(counts[each])} {each}" for each in left]) + "."


# -- rows


def _show(
    call: Call,
    people: Sequence[Field],
    programs: Sequence[Field],
    rows: Sequence[Mapping[str, Any]],
    sentence: str = "",
) -> None:
    """People see less than programs do, and a sentence below it."""
    is_for_people = call.options.format is Format.TABLE
    call.out.rows(people if is_for_people else programs, rows)
    if is_for_people and sentence:
        call.out.say(sentence)


NOT_DONE = "Nothing was deleted; --apply does it."

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

RECEIPT = [
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
    Field("objects", formatting.number, right=True),
    SIZE,
]
_WHY = Field("error", as_typed, title="why", none="")


def _row(dropped: DroppedTable) -> dict[str, Any]:
    exact = {name: getattr(dropped, name) for name in _EXACT if name != "table"}
    return {"table": arguments.shown_id(dropped.id), **exact}


def _receipt_row(receipt: Receipt) -> dict[str, Any]:
    return {
        "table": arguments.shown_id(receipt.id),
        "generation": receipt.generation,
        "outcome": receipt.outcome.value,
        "objects": receipt.objects,
        "bytes": receipt.bytes,
        "at": receipt.at,
        "by": receipt.by,
        "location": receipt.location,
        "error": receipt.error,
    }


def _has_namesakes(found: Sequence[DroppedTable]) -> bool:
    return len({table.id for table in found}) < len(found)
