"""`tiltyard cleanup`: old versions of tables, shown or deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import Apply, OlderVersions, Yes, duration
from tiltyard.cli.call import Call
from tiltyard.cli.maintenance import (
    TABLE,
    All,
    Inside,
    Tables,
    as_progress,
    chosen_tables,
    end_with,
    only_table,
    show_rows,
)
from tiltyard.cli.output import Field
from tiltyard.cli.terminal import bar, confirm, confirm_all

if TYPE_CHECKING:
    from tiltyard.maintenance.cleanup import Cleaned

CLEANED = (
    "table",
    "versions_removed",
    "files_removed",
    "bytes_removed",
    "versions_kept",
    "kept",
    "skipped",
    "warning",
    "error",
)


def cleanup(
    call: Call,
    tables: Tables = None,
    every: All = False,
    inside: Inside = None,
    keep_versions: Annotated[
        int,
        typer.Option("--keep-versions", metavar="N", help="How many of the newest versions stay."),
    ] = 10,
    older_than: OlderVersions = None,
    min_age: Annotated[
        str | None,
        typer.Option("--min-age", metavar="TIME", help="What is younger stays in any case."),
    ] = None,
    allow_young: Annotated[
        bool, typer.Option("--allow-young", help="Allow a --min-age below the catalog's.")
    ] = False,
    below_floor: Annotated[
        bool,
        typer.Option(
            "--allow-below-recovery-floor",
            help="Allow --keep-versions 1 or 2: what a crash left half done may not be undone "
            "then.",
        ),
    ] = False,
    branches: Annotated[
        bool,
        typer.Option(
            "--branches",
            help="Versions of branches, too. Only if nobody removes a branch meanwhile and uses "
            "its name again.",
        ),
    ] = False,
    apply: Apply = False,
    yes: Yes = False,
) -> None:
    """Delete old versions of tables; a dry run without --apply.

    A version goes if it is older than --older-than and not among the newest --keep-versions; the
    files that only it had go with it. The latest, tagged versions and those at which a branch
    begins always stay; so does what was the latest a short while ago. On a terminal you are asked
    to type the table's name, or the number of several.
    """
    from tiltyard.maintenance.policy import CleanupPolicy

    chosen = chosen_tables(tables, inside, every=every)
    policy = CleanupPolicy(
        keep_versions,
        duration("--older-than", older_than),
        duration("--min-age", min_age),
        below_floor,
        allow_young,
        branches,
    )
    if only := only_table(chosen):
        found = [call.catalog.maintenance.cleanup_table(only, policy, dry_run=True)]
    else:
        found = _clean_up(call, policy, chosen, dry_run=True)
    going = [row.table for row in found if not row.is_nothing]
    if apply and going:
        ask(call, going, yes=yes)
        chosen = {"tables": [arguments.parse_id(table) for table in going]}
        done = {row.table: row for row in _clean_up(call, policy, chosen, dry_run=False)}
        found = [done.get(row.table, row) for row in found]
    show_cleaned(call, found, apply=apply)


def show_cleaned(call: Call, found: Sequence[Cleaned], *, apply: bool) -> None:
    """Print what became of tables, or would, and end the command by it."""
    rows = [asdict(each) for each in found]
    people = [
        TABLE,
        Field("versions_removed", formatting.number, right=True, title="versions"),
        Field("files_removed", formatting.number, right=True, title="files"),
        Field("bytes_removed", formatting.size, right=True, title="size"),
        Field("kept", formatting.plain, title="kept"),
    ]
    show_rows(call, people, CLEANED, rows, _is_noteworthy)
    call.out.say(_said_of_cleaned(found, apply=apply))
    end_with(rows)


def _is_noteworthy(row: Mapping[str, Any]) -> bool:
    return bool(row["versions_removed"] or row["files_removed"] or row["skipped"])


def _clean_up(
    call: Call, policy: Any, chosen: Mapping[str, Any], *, dry_run: bool
) -> list[Cleaned]:
    with bar(call, "Looking at versions" if dry_run else "Cleaning up") as show:
        return call.catalog.maintenance.cleanup_all_tables(
            policy,
            **chosen,
            dry_run=dry_run,
            progress=None if show is None else as_progress(show),
        )


def ask(call: Call, names: Sequence[str], *, yes: bool) -> None:
    """The question before old versions go."""
    if len(names) == 1:
        confirm(call, "delete old versions of table", names[0], yes=yes)
    else:
        confirm_all(call, "delete old versions of the tables", names, yes=yes)


def _said_of_cleaned(found: Sequence[Cleaned], *, apply: bool) -> str:
    versions = formatting.counted(sum(row.versions_removed for row in found), "version")
    files = formatting.counted(sum(each.files_removed for each in found), "file")
    size = formatting.size(sum(each.bytes_removed for each in found))
    failed = sum(row.error is not None for row in found)
    if not failed and all(each.is_nothing for each in found):
        return "There is nothing to clean up."
    said = f"{'Removed' if apply else 'Would remove'} {versions} and {files}, {size}"
    said += f"; {formatting.number(failed)} failed." if failed else "."
    return said if apply else f"{said} Nothing was deleted; --apply does it."
