"""The verbs of managed versions: `manage` and `snapshot`, and hiding one version of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import DryRun, Name
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import as_typed
from tiltyard.cli.output import Field
from tiltyard.cli.terminal import bar

if TYPE_CHECKING:
    from tiltyard.versions.management import ManagedTable

MANAGED = [Field("table"), Field("versions"), Field("added", right=True), Field("reason", as_typed)]
SNAPSHOT = [Field("table"), Field("version", right=True), Field("location")]

Number = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The number of the version.")]


def manage(
    call: Call,
    dry_run: DryRun = False,
) -> None:
    """Keep the versions of tables as rows of the manifest.

    Several tables can then be committed at once, versions be hidden, and the catalog be read as it
    was. Lance's own clients can use such a catalog through tiltyard only, and there is no way
    back. A second run does what is left, and takes in versions that were written past the catalog.
    People see a summary and the tables that were left out; -o csv, json or jsonl print all.
    """
    with bar(call, "Looking at tables") as show:
        report = call.catalog.versions.manage(
            dry_run=dry_run,
            progress=None if show is None else lambda done, total: show(done, total, ""),
        )
    rows = [
        {
            "table": arguments.shown_id(table.id),
            "versions": table.versions.value,
            "added": table.added,
            "reason": table.reason,
        }
        for table in report
    ]
    noteworthy = [row for row in rows if row["reason"] is not None]
    call.out.summary(_summary(report, dry_run=dry_run), MANAGED, rows, noteworthy)


def _summary(report: Sequence[ManagedTable], *, dry_run: bool) -> str:
    left = [each for each in report if each.reason is not None]
    managed = formatting.counted(len(report) - len(left), "table")
    added = formatting.counted(sum(each.added for each in report), "version")
    said = f"Would manage {managed}" if dry_run else f"Managed {managed}"
    return f"{said}, {added} new; {formatting.number(len(left))} left out."


def snapshot(
    call: Call,
    version: Annotated[
        int | None,
        typer.Argument(metavar="VERSION", min=1, help="Of the catalog; none means the latest."),
    ] = None,
    managed_only: Annotated[
        bool, typer.Option("--managed-only", help="Leave out tables whose versions are files.")
    ] = False,
) -> None:
    """List which version each table had, all at once.

    The versions of the catalog are those of its manifest: every change of it is one.
    """
    taken = call.catalog.versions.snapshot(version, managed_only=managed_only)
    call.out.rows(
        SNAPSHOT,
        (
            {
                "table": arguments.shown_id(each.id),
                "version": each.version,
                "location": each.location,
            }
            for each in taken
        ),
    )
    call.out.say(f"Version {taken.version} of the catalog, {taken.taken_at:%Y-%m-%d %H:%M:%S} UTC.")


def add_to(app: typer.Typer) -> None:
    """The verbs that belong to `tiltyard table`."""
    verb(app, "hide-version")(hide_version)
    verb(app, "show-version")(show_version)


def hide_version(
    call: Call,
    table: Name,
    version: Number,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why, for whoever asks.")
    ] = None,
) -> None:
    """Keep readers from one version of a table.

    It is not deleted, and show-version brings it back. The latest can't be hidden.
    """
    identifier = arguments.parse_id(table)
    call.catalog.versions.hide(identifier, version, reason=reason)
    _tell(call, identifier, version, hidden=True)


def show_version(call: Call, table: Name, version: Number) -> None:
    """Let readers see a version again that was hidden."""
    identifier = arguments.parse_id(table)
    call.catalog.versions.show(identifier, version)
    _tell(call, identifier, version, hidden=False)


def _tell(call: Call, identifier: Sequence[str], version: int, *, hidden: bool) -> None:
    shown = arguments.shown_id(identifier)
    call.out.done(
        f"Version {version} of table {shown} is {'hidden' if hidden else 'shown'}.",
        {"table": shown, "version": version, "hidden": hidden},
    )
