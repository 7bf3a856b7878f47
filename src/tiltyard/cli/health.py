"""`tiltyard recover`, `orphans` and `doctor`: looking after a catalog."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import identifiers
from tiltyard.cli.call import Call
from tiltyard.cli.confirm import confirm, confirm_all
from tiltyard.cli.failures import Exit
from tiltyard.cli.flags import Apply, EvenIfYoung, OlderOrphans, duration
from tiltyard.cli.output import Field
from tiltyard.cli.progress import bar

if TYPE_CHECKING:
    from tiltyard.maintenance.orphan import Orphan

# -- recover

_RECOVERED = [Field(each) for each in ("operation", "kind", "outcome", "tables", "detail")]


def recover(
    call: Call,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Leave what began later to its owner; a minute if not said.",
        ),
    ] = None,
) -> None:
    """End what a crash interrupted.

    Batches of versions, renames, and creates over dropped tables: all of it is done then, or
    nothing. The exit status is 3 if something could not be ended.
    """
    patience = duration("--older-than", older_than)
    report = call.catalog.health.recover(older_than=patience)
    rows = [
        {
            "operation": each.operation or None,
            "kind": each.kind,
            "outcome": each.outcome.value,
            "tables": ", ".join(map(identifiers.shown, each.tables)),
            "detail": each.detail,
        }
        for each in report
    ]
    counts = Counter(each.outcome.value for each in report)
    said = ", ".join(f"{formatting.number(count)} {how}" for how, count in sorted(counts.items()))
    call.out.summary(f"Ended: {said}." if said else "Nothing to recover.", _RECOVERED, rows, rows)
    if counts["failed"] or counts["refused"]:
        raise typer.Exit(Exit.PARTLY)


# -- orphans

_ORPHAN = [
    Field("path"),
    Field("kind"),
    Field("bytes", formatting.size, right=True, title="size"),
    Field("modified_at", formatting.age, title="written"),
    Field("why"),
    Field("outcome"),
]


def orphans(
    call: Call,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Only the files of these tables."),
    ] = None,
    older_than: OlderOrphans = None,
    apply: Apply = False,
    even_if_young: EvenIfYoung = False,
    adopt: Annotated[
        str | None,
        typer.Option(
            "--adopt", metavar="DIRECTORY", help="Put a table without a name into the trash."
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --apply or --adopt: do not ask.")
    ] = False,
) -> None:
    """Remove what nothing refers to; a dry run without --apply.

    Files, directories, notes of writes that are over. Before anything is deleted, what refers to
    files is read once more. Tables without a name are only shown; --adopt puts one into the trash.
    """
    if adopt is not None:
        _adopt(call, adopt, yes=yes)
        return
    wanted = identifiers.parse_all(tables or []) or None
    floor = duration("--older-than", older_than)
    found = list(call.catalog.health.find_orphans(wanted, older_than=floor))
    gone: set[str] = set()
    removable = [each for each in found if each.kind.is_removable]
    if apply and removable:
        confirm_all(call, "delete for good", [each.path for each in removable], yes=yes)
        removed = call.catalog.health.remove_orphans(
            removable, older_than=floor, even_if_young=even_if_young
        )
        gone = {each.path for each in removed}
    rows = [_orphan_row(each, gone, apply=apply) for each in found]
    size = formatting.size(sum(each.bytes for each in found))
    said = f"{formatting.counted(len(found), 'orphan')}, {size}" if found else "No orphans"
    told = f"; removed {formatting.number(len(gone))}." if apply else "."
    call.out.summary(said + told, _ORPHAN, rows, rows)


def _adopt(call: Call, directory: str, *, yes: bool) -> None:
    confirm(call, "put into the trash what lies in", directory, yes=yes)
    shown = identifiers.shown(call.catalog.health.adopt_orphan(directory))
    call.out.done(
        f"{directory} is in the trash as {shown}.", {"directory": directory, "table": shown}
    )


def _orphan_row(orphan: Orphan, gone: set[str], *, apply: bool) -> dict[str, Any]:
    outcome = "removed" if orphan.path in gone else "kept" if apply else "found"
    return {
        "path": orphan.path,
        "kind": orphan.kind.value,
        "bytes": orphan.bytes,
        "modified_at": orphan.modified_at,
        "why": orphan.why,
        "outcome": outcome,
    }


# -- doctor

_FINDING = [Field(each) for each in ("severity", "what", "where", "message", "mend")]


def doctor(call: Call) -> None:
    """Tell what is amiss in the catalog.

    Each finding has the command that mends it. Nothing is changed. The exit status is 1 if there is
    an error among the findings.
    """
    with bar(call, "Looking at tables") as show:
        found = call.catalog.health.doctor(
            progress=None if show is None else lambda done, total: show(done, total, "")
        )
    rows = [
        {
            "severity": each.severity.value,
            "what": each.what,
            "where": each.where,
            "message": each.message,
            "mend": each.mend,
        }
        for each in found
    ]
    counts = Counter(each.severity.value for each in found)
    said = ", ".join(formatting.counted(count, how) for how, count in counts.items())
    call.out.summary(f"Found {said}." if said else "Nothing is amiss.", _FINDING, rows, rows)
    if counts["error"]:
        raise typer.Exit(Exit.FAILED)
