"""`tiltyard optimize`: tables that are fast to read, one or all of them, or the catalog itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments
from tiltyard.cli.arguments import DryRun, TargetRows, duration
from tiltyard.cli.call import Call
from tiltyard.cli.failures import Exit, UsageError, as_typed
from tiltyard.cli.output import Field, Format
from tiltyard.cli.terminal import bar

if TYPE_CHECKING:
    from tiltyard.catalog.migration import Migrated
    from tiltyard.maintenance.optimize import Optimized

Tables = Annotated[list[str] | None, typer.Argument(metavar="TABLE", help="The tables.")]
All = Annotated[bool, typer.Option("--all", help="Every table of the catalog, or of --in.")]
Inside = Annotated[
    str | None,
    typer.Option("--in", metavar="NAMESPACE", help="With --all: the tables of a namespace only."),
]

TABLE = Field("table")
WARNING = Field("warning", formatting.value, none="")
ERROR = Field("error", as_typed, title="why", none="")

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


def optimize(
    call: Call,
    tables: Tables = None,
    every: All = False,
    inside: Inside = None,
    target_rows: TargetRows = None,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="The catalog's own table, and its old versions.")
    ] = False,
    min_age: Annotated[
        str | None,
        typer.Option(
            "--min-age",
            metavar="TIME",
            help="With --catalog: versions that were replaced later than that stay; 7d if not "
            "said, a day at least.",
        ),
    ] = None,
) -> None:
    """Join small files of tables, and bring new rows into indexes.

    Rows that are only marked as deleted leave the files. No other row changes, and a table with
    nothing to do gets no new version. People see the tables that were changed, and those that
    could not be; -o csv, json or jsonl print all of them.

    With --catalog this is done for the catalog's own table, and versions of it go that were
    replaced long ago.
    """
    from tiltyard.maintenance.optimize import OptimizeOptions

    if min_age is not None and not catalog:
        raise UsageError("--min-age is about --catalog", "tables: see cleanup")
    if catalog:
        if tables or every or inside or target_rows is not None:
            raise UsageError("--catalog means no table", "optimize tables with another command")
        _optimize_catalog(call, min_age)
        return
    chosen = chosen_tables(tables, inside, every=every)
    options = OptimizeOptions(target_rows_per_fragment=target_rows)
    if only := only_table(chosen):
        show_optimized(call, [call.catalog.maintenance.optimize_table(only, options=options)])
        return
    with bar(call, "Optimizing") as show:
        found = call.catalog.maintenance.optimize_all_tables(
            **chosen, options=options, progress=None if show is None else as_progress(show)
        )
    show_optimized(call, found)


def show_optimized(call: Call, found: Sequence[Optimized]) -> None:
    """Print what became of tables, and end the command by it."""
    rows = [asdict(each) for each in found]
    people = [
        TABLE,
        Field("fragments_removed", formatting.number, right=True, title="fragments"),
        Field("fragments_added", formatting.number, right=True, title="now"),
        Field("files_before", formatting.number, right=True, title="files"),
        Field("files_after", formatting.number, right=True, title="now"),
        Field("bytes_after", formatting.size, right=True, title="size"),
    ]
    show_rows(call, people, OPTIMIZED, rows, lambda row: row["committed"] or row["skipped"])
    call.out.say(_said_of_optimized(found))
    end_with(rows)


def _optimize_catalog(call: Call, min_age: str | None) -> None:
    from tiltyard.maintenance.optimize_catalog import DEFAULT_MIN_AGE

    age = DEFAULT_MIN_AGE if min_age is None else duration("--min-age", min_age)
    done = call.catalog.maintenance.optimize_catalog(min_age=age)
    said = [
        f"{formatting.counted(done.fragments_before, 'fragment')} became "
        f"{formatting.number(done.fragments_after)}"
        if done.committed
        else "There was nothing to join"
    ]
    if done.versions_removed or done.files_removed:
        versions = formatting.counted(done.versions_removed, "version")
        files = formatting.counted(done.files_removed, "file")
        said.append(f"removed {versions} and {files}, {formatting.size(done.bytes_removed)}")
    call.out.done(f"{'; '.join(said)}.", asdict(done))


# -- what the commands over tables share


def chosen_tables(
    tables: Sequence[str] | None, inside: str | None, *, every: bool
) -> dict[str, Any]:
    """Which tables are meant, as the catalog takes it."""
    if bool(tables) == every:
        raise UsageError("name tables, or say --all", "and not both")
    if inside is not None and not every:
        raise UsageError("--in says which tables --all means", "leave it out, or say --all")
    if tables:
        return {"tables": arguments.parse_ids(tables)}
    return {"namespace": None if inside is None else arguments.parse_id(inside)}


def only_table(chosen: Mapping[str, Any]) -> list[str] | None:
    """The table, if one was named. Its error is that of the command then, and not a row."""
    tables: list[list[str]] = chosen.get("tables", [])
    return tables[0] if len(tables) == 1 else None


def as_progress(show: Callable[[int, int, str], None]) -> Callable[[Any, int, int], None]:
    return lambda row, done, total: show(done, total, "tables")


def show_rows(
    call: Call,
    people: Sequence[Field],
    programs: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    is_noteworthy: Callable[[Mapping[str, Any]], object],
) -> None:
    """People see what was done and what went wrong; programs see everything."""
    if call.options.format is not Format.TABLE:
        call.out.rows([Field(program) for program in programs], rows)
        return
    shown = [row for row in rows if is_noteworthy(row) or row["error"] or row["warning"]]
    if shown:
        rare = (Field("skipped", none=""), WARNING, ERROR)
        there = [item for item in rare if any(row.get(item.name) for row in shown)]
        call.out.rows([*people, *there], shown)


def _said_of_optimized(found: Sequence[Optimized]) -> str:
    done = sum(each.committed for each in found)
    failed = sum(row.error is not None for row in found)
    before = sum(each.files_before for each in found if each.committed)
    after = sum(each.files_after for each in found if each.committed)
    said = f"Optimized {formatting.counted(done, 'table')}"
    said += f": {formatting.number(before)} files became {formatting.number(after)}" if done else ""
    left = len(found) - done - failed
    rest = [f"{formatting.number(left)} had nothing to do"] if left else []
    rest += [f"{formatting.number(failed)} failed"] if failed else []
    return "; ".join([said, *rest]) + "."


def end_with(rows: Sequence[Mapping[str, Any]]) -> None:
    """A table that failed makes the run one that failed in part."""
    failed = sum(row["error"] is not None for row in rows)
    if failed:
        raise typer.Exit(Exit.PARTLY if failed < len(rows) else Exit.FAILED)


# -- the verb migrate

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
            "table": arguments.shown_id([table.table]),
            "location": table.location,
            "action": table.action.value,
            "reason": table.reason,
        }
        for table in report
    ]
    noteworthy = [row for row in rows if row["reason"] is not None]
    call.out.summary(_summary(report, dry_run=dry_run), FIELDS, rows, noteworthy)


def _summary(report: Sequence[Migrated], *, dry_run: bool) -> str:
    counts = Counter(row.action.value for row in report)
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
