"""`tiltyard optimize` and `tiltyard cleanup`: looking after tables, one or all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import words
from tiltyard.cli import identifiers, lives
from tiltyard.cli.call import Call
from tiltyard.cli.confirm import confirm, confirm_all
from tiltyard.cli.failures import Exit, UsageError
from tiltyard.cli.output import Field, Format
from tiltyard.cli.progress import bar

if TYPE_CHECKING:
    from tiltyard.maintenance.cleanup import Cleaned
    from tiltyard.maintenance.optimize import Optimized

Tables = Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="The tables.")]
All = Annotated[bool, typer.Option("--all", help="Every table of the catalog, or of --in.")]
Inside = Annotated[
    str | None,
    typer.Option("--in", metavar="NAMESPACE", help="With --all: the tables of a namespace only."),
]

TABLE = Field("table")
WARNING = Field("warning", words.value, none="")
ERROR = Field("error", title="why", none="")

OPTIMIZED = (
    "table",
    "fragments_removed",
    "fragments_added",
    "files_before",
    "files_after",
    "bytes_before",
    "bytes_after",
    "bytes_rewritten",
    "version",
    "committed",
    "skipped",
    "warning",
    "error",
)
CLEANED = (
    "table",
    "versions_removed",
    "files_removed",
    "bytes_removed",
    "versions_kept",
    "kept",
    "warning",
    "error",
)


def optimize(
    call: Call,
    tables: Tables = None,
    every: All = False,
    inside: Inside = None,
    target_rows: Annotated[
        int | None,
        typer.Option("--target-rows", metavar="ROWS", help="Join fragments up to this size."),
    ] = None,
) -> None:
    """Join small files of tables, and bring new rows into indexes.

    Rows that are only marked as deleted leave the files. No other row changes, and a table with
    nothing to do gets no new version. People see the tables that were changed, and those that
    could not be; -o csv, json or jsonl print all of them.
    """
    from tiltyard.maintenance.optimize import OptimizeOptions

    chosen = _chosen(tables, inside, every=every)
    options = OptimizeOptions(target_rows_per_fragment=target_rows)
    with bar(call, "Optimizing") as show:
        found = call.catalog.optimize_all_tables(
            **chosen, options=options, progress=None if show is None else _progress(show)
        )
    show_optimized(call, found)


def show_optimized(call: Call, found: Sequence[Optimized]) -> None:
    """Print what became of tables, and end the command by it."""
    rows = [asdict(each) for each in found]
    people = [
        TABLE,
        Field("fragments_removed", words.number, right=True, title="fragments"),
        Field("fragments_added", words.number, right=True, title="now"),
        Field("files_before", words.number, right=True, title="files"),
        Field("files_after", words.number, right=True, title="now"),
        Field("bytes_after", words.size, right=True, title="size"),
    ]
    _show(call, people, OPTIMIZED, rows, lambda row: row["committed"] or row["skipped"])
    call.out.say(_said_of_optimized(found))
    end(rows)


def cleanup(
    call: Call,
    tables: Tables = None,
    every: All = False,
    inside: Inside = None,
    keep: Annotated[
        int, typer.Option("--keep", metavar="N", help="How many of the newest versions stay.")
    ] = 10,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="TIME", help="Only what is older than this, like 7d."),
    ] = None,
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
            help="Allow --keep 1 or 2: what a crash left half done may not be undone then.",
        ),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Delete. Without it you only see what would go.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --apply: do not ask.")] = False,
) -> None:
    """Delete old versions of tables; a dry run without --apply.

    A version goes if it is not among the newest --keep and older than --older-than; the files that
    only it had go with it. The latest, tagged versions and those at which a branch begins always
    stay; so does what was the latest a short while ago. On a terminal you are asked to type the
    table's name, or the number of several.
    """
    from tiltyard.maintenance.policy import CleanupPolicy

    chosen = _chosen(tables, inside, every=every)
    policy = CleanupPolicy(
        keep,
        None if older_than is None else lives.duration("--older-than", older_than),
        None if min_age is None else lives.duration("--min-age", min_age),
        below_floor,
        allow_young,
    )
    found = _clean_up(call, policy, chosen, dry_run=True)
    going = [each.table for each in found if not each.is_nothing]
    if apply and going:
        ask(call, going, yes=yes)
        chosen = {"tables": [identifiers.parse(each) for each in going]}
        done = {each.table: each for each in _clean_up(call, policy, chosen, dry_run=False)}
        found = [done.get(each.table, each) for each in found]
    show_cleaned(call, found, apply=apply)


def show_cleaned(call: Call, found: Sequence[Cleaned], *, apply: bool) -> None:
    """Print what became of tables, or would, and end the command by it."""
    rows = [asdict(each) for each in found]
    people = [
        TABLE,
        Field("versions_removed", words.number, right=True, title="versions"),
        Field("files_removed", words.number, right=True, title="files"),
        Field("bytes_removed", words.size, right=True, title="size"),
        Field("kept", words.plain, title="kept"),
    ]
    _show(call, people, CLEANED, rows, lambda row: row["versions_removed"] or row["files_removed"])
    call.out.say(_said_of_cleaned(found, apply=apply))
    end(rows)


# -- what they share


def _chosen(tables: Sequence[str] | None, inside: str | None, *, every: bool) -> dict[str, Any]:
    """Which tables are meant, as the catalog takes it."""
    if bool(tables) == every:
        raise UsageError("name tables, or say --all", "and not both")
    if inside is not None and not every:
        raise UsageError("--in says which tables --all means", "leave it out, or say --all")
    if tables:
        return {"tables": identifiers.parse_all(tables)}
    return {"namespace": None if inside is None else identifiers.parse(inside)}


def _clean_up(
    call: Call, policy: Any, chosen: Mapping[str, Any], *, dry_run: bool
) -> list[Cleaned]:
    with bar(call, "Looking at versions" if dry_run else "Cleaning up") as show:
        return call.catalog.cleanup_all_tables(
            policy,
            **chosen,
            dry_run=dry_run,
            progress=None if show is None else _progress(show),
        )


def _progress(show: Callable[[int, int, str], None]) -> Callable[[Any, int, int], None]:
    return lambda row, done, total: show(done, total, f"{done} of {total} tables")


def ask(call: Call, names: Sequence[str], *, yes: bool) -> None:
    """The question before old versions go."""
    if len(names) == 1:
        confirm(call, "delete old versions of table", names[0], yes=yes)
    else:
        confirm_all(call, "delete old versions of the tables", names, yes=yes)


def _show(
    call: Call,
    people: Sequence[Field],
    programs: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    is_noteworthy: Callable[[Mapping[str, Any]], object],
) -> None:
    """People see what was done and what went wrong; programs see everything."""
    if call.options.format is not Format.TABLE:
        call.out.rows([Field(each) for each in programs], rows)
        return
    shown = [row for row in rows if is_noteworthy(row) or row["error"] or row["warning"]]
    if shown:
        rare = (Field("skipped", none=""), WARNING, ERROR)
        there = [each for each in rare if any(row.get(each.name) for row in shown)]
        call.out.rows([*people, *there], shown)


def _said_of_optimized(found: Sequence[Optimized]) -> str:
    done = sum(each.committed for each in found)
    failed = sum(each.error is not None for each in found)
    before = sum(each.files_before for each in found if each.committed)
    after = sum(each.files_after for each in found if each.committed)
    said = f"Optimized {words.counted(done, 'table')}"
    said += f": {words.number(before)} files became {words.number(after)}" if done else ""
    left = len(found) - done - failed
    rest = [f"{words.number(left)} had nothing to do"] if left else []
    rest += [f"{words.number(failed)} failed"] if failed else []
    return "; ".join([said, *rest]) + "."


def _said_of_cleaned(found: Sequence[Cleaned], *, apply: bool) -> str:
    versions = words.counted(sum(each.versions_removed for each in found), "version")
    files = words.counted(sum(each.files_removed for each in found), "file")
    size = words.size(sum(each.bytes_removed for each in found))
    failed = sum(each.error is not None for each in found)
    if not failed and all(each.is_nothing for each in found):
        return "There is nothing to clean up."
    said = f"{'Removed' if apply else 'Would remove'} {versions} and {files}, {size}"
    said += f"; {words.number(failed)} failed." if failed else "."
    return said if apply else f"{said} Nothing was deleted; --apply does it."


def end(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table that failed makes the run one that failed in part."""
    failed = sum(row["error"] is not None for row in rows)
    if failed:
        raise typer.Exit(Exit.PARTLY if failed < len(rows) else Exit.FAILED)
