"""`tiltyard migrate`: from directories to rows of the manifest, with a bar for those who watch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli import identifiers, words
from tiltyard.cli.call import Call
from tiltyard.cli.output import Field

if TYPE_CHECKING:
    from tiltyard.catalog.migration import Migrated

Progress = Callable[[int, int], None]

FIELDS = [Field("table"), Field("location"), Field("action"), Field("reason")]


def migrate(
    call: Call,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what would be done.")
    ] = False,
) -> None:
    """Give every table directory at the root a row in the manifest.

    No data moves, and a second run finds nothing to do. People see a summary and the tables that
    were left out; -o csv, json or jsonl print every directory and what became of it.
    """
    with _bar(call) as progress:
        report = call.catalog.migrate(dry_run=dry_run, progress=progress)
    rows = [
        {
            "table": identifiers.shown([each.table]),
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
    added = words.counted(counts["added"], "table")
    return (
        f"{'Would add' if dry_run else 'Added'} {added}; "
        f"{words.number(counts['present'])} already there, "
        f"{words.number(counts['skipped'])} skipped."
    )


@contextmanager
def _bar(call: Call) -> Iterator[Progress | None]:
    """A bar on standard error, if that is a terminal. It moves before the total is known."""
    from rich.console import Console

    console = Console(stderr=True)
    if call.options.quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import Progress as Bar

    with Bar(console=console, transient=True) as bar:
        task = bar.add_task("Looking at tables", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
