"""`tiltyard recover`, `orphans` and `doctor`: looking after a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import Apply, EvenIfYoung, Name, OlderOrphans, Yes, duration
from tiltyard.cli.call import Call
from tiltyard.cli.failures import Exit, UsageError
from tiltyard.cli.output import Field
from tiltyard.cli.terminal import bar, confirm, confirm_all

if TYPE_CHECKING:
    from tiltyard.maintenance.orphan_candidates import Orphan

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
            "operation": receipt.operation or None,
            "kind": receipt.kind,
            "outcome": receipt.outcome.value,
            "tables": ", ".join(map(arguments.shown_id, receipt.tables)),
            "detail": receipt.detail,
        }
        for receipt in report
    ]
    counts = Counter(receipt.outcome.value for receipt in report)
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
    wanted = arguments.parse_ids(tables or []) or None
    floor = duration("--older-than", older_than)
    found = list(call.catalog.health.find_orphans(wanted, older_than=floor))
    gone: set[str] = set()
    removable = [item for item in found if item.kind.is_removable]
    if apply and removable:
        confirm_all(call, "delete for good", [file.path for file in removable], yes=yes)
        removed = call.catalog.health.remove_orphans(
            removable, older_than=floor, even_if_young=even_if_young
        )
        gone = {file.path for file in removed}
    rows = [_orphan_row(each, gone, apply=apply) for each in found]
    size = formatting.size(sum(row.bytes for row in found))
    said = f"{formatting.counted(len(found), 'orphan')}, {size}" if found else "No orphans"
    told = f"; removed {formatting.number(len(gone))}." if apply else "."
    call.out.summary(said + told, _ORPHAN, rows, rows)


def _adopt(call: Call, directory: str, *, yes: bool) -> None:
    confirm(call, "put into the trash what lies in", directory, yes=yes)
    shown = arguments.shown_id(call.catalog.health.adopt_orphan(directory))
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
            "severity": finding.severity.value,
            "what": finding.what,
            "where": finding.where,
            "message": finding.message,
            "mend": finding.mend,
        }
        for finding in found
    ]
    counts = Counter(finding.severity.value for finding in found)
    said = ", ".join(formatting.counted(count, how) for how, count in counts.items())
    call.out.summary(f"Found {said}." if said else "Nothing is amiss.", _FINDING, rows, rows)
    if counts["error"]:
        raise typer.Exit(Exit.FAILED)


# -- repair

_FIELDS = [Field("table"), Field("action"), Field("what")]

Deed = tuple[str, str]


def repair(
    call: Call,
    table: Name,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Versions that others wrote past the catalog count.")
    ] = False,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="They do not count; their numbers are never used again."),
    ] = False,
    branches: Annotated[
        bool, typer.Option("--branches", help="Remove branches that the catalog does not know.")
    ] = False,
    scrub: Annotated[
        bool, typer.Option("--scrub", help="Delete versions behind the boundary.")
    ] = False,
    auto_cleanup: Annotated[
        bool,
        typer.Option("--no-auto-cleanup", help="Lance no longer deletes versions on its own."),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Mend. Without it you only see what would be done.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Mend what the doctor found; a dry run without --apply.

    Without another option: versions of a managed table that others wrote past the catalog are taken
    in, if they leave every row as it was. On a terminal you are asked to type the table's name.
    """
    identifier = arguments.parse_id(table)
    shown = arguments.shown_id(identifier)
    if adopt and discard:
        raise UsageError("versions can't be adopted and discarded both")
    if apply:
        confirm(call, "repair table", shown, yes=yes)
    deeds: list[Deed] = []
    if branches:
        deeds += _branches(call, identifier, apply=apply)
    if scrub:
        stale = call.catalog.versions.scrub(identifier, dry_run=not apply)
        deeds += [("delete", f"version {each}") for each in stale]
    if auto_cleanup:
        settings = call.catalog.health.stop_auto_cleanup(identifier, dry_run=not apply)
        deeds += [("remove", f"setting {setting}") for setting in settings]
    if adopt or discard or not (branches or scrub or auto_cleanup):
        repaired = call.catalog.health.repair_table(
            identifier, adopt=adopt, discard=discard, dry_run=not apply
        )
        word = {"adopted": "adopt", "discarded": "discard"}.get(repaired.action, "")
        deeds += [(word, f"version {version}") for version in repaired.versions]
    rows = [{"table": shown, "action": _told(deed, apply), "what": what} for deed, what in deeds]
    call.out.summary(_said(len(rows), apply=apply), _FIELDS, rows, rows)


def _branches(call: Call, identifier: Sequence[str], *, apply: bool) -> Iterator[Deed]:
    for branch in call.catalog.health.reconcile_branches(identifier, dry_run=not apply):
        yield ("keep" if branch.reason else "remove"), f"branch {branch.branch}"


_DONE = {
    "adopt": "adopted",
    "discard": "discarded",
    "remove": "removed",
    "delete": "deleted",
    "keep": "kept",
}


def _told(deed: str, apply: bool) -> str:
    return _DONE[deed] if apply else f"would {deed}"


def _said(count: int, *, apply: bool) -> str:
    if not count:
        return "Nothing to mend."
    if apply:
        return f"Mended {formatting.counted(count, 'thing')}."
    return f"Would mend {formatting.counted(count, 'thing')}. Nothing was changed; --apply does it."
