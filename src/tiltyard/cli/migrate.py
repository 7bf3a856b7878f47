"""`tiltyard migrate`: from directories to rows of the manifest, with a bar for those who watch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import DryRun
from tiltyard.cli.call import Call
from tiltyard.cli.failures import as_typed
from tiltyard.cli.output import Field
from tiltyard.cli.terminal import bar

if TYPE_CHECKING:
    from tiltyard.catalog.migration import Migrated

FIELDS = [Field("table"), Field("location"), Field("action"), Field("reason", as_typed)]


def migrate(
    call: Call,
    dry_run: DryRun = False,
) -> None:
    """Give every table directory at the root a row in the manifest.

    No data moves, and a second run finds nothing to do. What Lance's own clients hid by a file
    inside a table is noted at the root, so that no listing has to look into tables again; in
    directory mode that is all that is done. People see a summary and the tables that were left
    out; -o csv, json or jsonl print every directory and what became of it.
    """
    with bar(call, "Looking at tables") as show:
        report = call.catalog.maintenance.migrate(
            dry_run=dry_run,
            progress=None if show is None else lambda done, total: show(done, total, ""),
        )
    show_migrated(call, report, dry_run=dry_run)


def show_migrated(call: Call, report: Sequence[Migrated], *, dry_run: bool) -> None:
    """A summary and what is noteworthy to people, every directory to programs."""
    rows = [
        {
            "table": arguments.shown_id([each.table]),
            "location": each.location,
            "action": each.action.value,
            "reason": each.reason,
        }
        for each in report
    ]
    noteworthy = [row for row in rows if row["reason"] is not None]
    call.out.summary(_summary(report, dry_run=dry_run), FIELDS, rows, noteworthy)


def _summary(report: Sequence[Migrated], *, dry_run: bool) -> str:
    counts = Counter(each.action.value for each in report)
    added = formatting.counted(counts["added"], "table")
    said = (
        f"{'Would add' if dry_run else 'Added'} {added}; "
        f"{formatting.number(counts['present'])} already there, "
        f"{formatting.number(counts['skipped'])} skipped."
    )
    if counts["failed"]:
        said += f"\n{formatting.counted(counts['failed'], 'table')} could not be looked at."
    if counts["lifted"]:
        lifted = formatting.counted(counts["lifted"], "table")
        said += f"\n{lifted} deregistered by other clients: noted at the root, so listings see it."
    return said
