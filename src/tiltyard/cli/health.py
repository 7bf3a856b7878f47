"""`tiltyard recover`, `repair`, `orphans` and `doctor`: looking after a catalog."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import words
from tiltyard.cli import identifiers, lives
from tiltyard.cli.call import Call
from tiltyard.cli.confirm import confirm, confirm_all
from tiltyard.cli.failures import Exit, UsageError
from tiltyard.cli.output import Field
from tiltyard.cli.progress import bar

if TYPE_CHECKING:
    from tiltyard.maintenance.orphan import Orphan

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


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
    patience = None if older_than is None else lives.duration("--older-than", older_than)
    report = call.catalog.recover(older_than=patience)
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
    said = ", ".join(f"{words.number(count)} {how}" for how, count in sorted(counts.items()))
    call.out.summary(f"Ended: {said}." if said else "Nothing to recover.", _RECOVERED, rows, rows)
    if counts["failed"] or counts["refused"]:
        raise typer.Exit(Exit.PARTLY)


# -- repair

_REPAIRED = [Field("table"), Field("action"), Field("what")]


def repair(
    call: Call,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's id.")],
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Versions that others wrote past the catalog count.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="They do not; their numbers are taken.")
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
    yes: Yes = False,
) -> None:
    """Mend what the doctor has found of one table.

    Without an option: versions of a managed table that others wrote past the catalog are taken in,
    if they leave every row as it was. What changes rows or removes something is asked for.
    """
    identifier = identifiers.parse(table)
    shown = identifiers.shown(identifier)
    if adopt and discard:
        raise UsageError("versions can't be adopted and discarded both")
    rows: list[dict[str, Any]] = []

    def did(action: str, what: str) -> None:
        rows.append({"table": shown, "action": action, "what": what})

    if branches:
        confirm(call, "remove unknown branches of table", shown, yes=yes)
        for each in call.catalog.reconcile_orphaned_branches(identifier):
            did("removed" if each.removed else "kept", f"branch {each.branch}")
    if scrub:
        for version in call.catalog.scrub_versions(identifier):
            did("deleted", f"version {version}")
    if auto_cleanup:
        for key in call.catalog.stop_auto_cleanup(identifier):
            did("removed", f"setting {key}")
    if adopt or discard or not (branches or scrub or auto_cleanup):
        if adopt or discard:
            verb = "adopt" if adopt else "discard"
            confirm(call, f"{verb} what others wrote past the catalog to table", shown, yes=yes)
        repaired = call.catalog.repair_table(identifier, adopt=adopt, discard=discard)
        for version in repaired.versions:
            did(repaired.action.value, f"version {version}")
    said = f"Mended {words.counted(len(rows), 'thing')}." if rows else "Nothing to mend."
    call.out.summary(said, _REPAIRED, rows, rows)


# -- orphans

_ORPHAN = [
    Field("path"),
    Field("kind"),
    Field("bytes", words.size, right=True, title="size"),
    Field("modified_at", words.age, title="written"),
    Field("why"),
    Field("outcome"),
]


def orphans(
    call: Call,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Only the files of these tables."),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only what is older; 7d if not said."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete. Without it you only see what would go.")
    ] = False,
    even_if_young: Annotated[
        bool,
        typer.Option(
            "--even-if-young",
            help="With --remove: also below 7d. Only if nobody writes to the catalog.",
        ),
    ] = False,
    adopt: Annotated[
        str | None,
        typer.Option("--adopt", metavar="DIRECTORY", help="Put a table without a name into trash."),
    ] = None,
    yes: Yes = False,
) -> None:
    """Show what nothing refers to, and remove it.

    Files, directories, notes of writes that are over. Nothing is deleted unless you say --remove,
    and then what refers to files is read once more. Tables without a name are only shown; --adopt
    puts one into the trash.
    """
    if adopt is not None:
        _adopt(call, adopt, yes=yes)
        return
    wanted = identifiers.parse_all(tables or []) or None
    floor = None if older_than is None else lives.duration("--older-than", older_than)
    found = list(call.catalog.find_orphans(wanted, older_than=floor))
    gone: set[str] = set()
    removable = [each for each in found if each.kind.is_removable]
    if remove and removable:
        confirm_all(call, "delete for good", [each.path for each in removable], yes=yes)
        removed = call.catalog.remove_orphans(
            removable, older_than=floor, even_if_young=even_if_young
        )
        gone = {each.path for each in removed}
    rows = [_orphan_row(each, gone, remove=remove) for each in found]
    size = words.size(sum(each.bytes for each in found))
    said = f"{words.counted(len(found), 'orphan')}, {size}" if found else "No orphans"
    told = f"; removed {words.number(len(gone))}." if remove else "."
    call.out.summary(said + told, _ORPHAN, rows, rows)


def _adopt(call: Call, directory: str, *, yes: bool) -> None:
    confirm(call, "put into the trash what lies in", directory, yes=yes)
    shown = identifiers.shown(call.catalog.adopt_orphan(directory))
    call.out.done(
        f"{directory} is in the trash as {shown}.", {"directory": directory, "table": shown}
    )


def _orphan_row(orphan: Orphan, gone: set[str], *, remove: bool) -> dict[str, Any]:
    outcome = "removed" if orphan.path in gone else "kept" if remove else "found"
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
        found = call.catalog.doctor(
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
    said = ", ".join(words.counted(count, how) for how, count in counts.items())
    call.out.summary(f"Found {said}." if said else "Nothing is amiss.", _FINDING, rows, rows)
    if counts["error"]:
        raise typer.Exit(Exit.FAILED)
