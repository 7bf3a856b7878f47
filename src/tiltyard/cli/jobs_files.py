"""`tiltyard jobs ingest` and `export`: files into tables, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments, maintenance, spark
from tiltyard.cli.arguments import DryRun
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import UsageError
from tiltyard.cli.jobs_options import Bytes, Inside, Tables, Tasks, checked, running
from tiltyard.cli.options import parse_pairs
from tiltyard.cli.output import Field, Row

if TYPE_CHECKING:
    from tiltyard.spark.jobs.ingest import Ingested

FileFormat = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="parquet, csv, json or arrow."),
]


def add_to(app: typer.Typer) -> None:
    verb(app, "ingest")(ingest)
    verb(app, "export")(export)


# -- ingest


def _from_here(path: str) -> str:
    """A path as one would type it."""
    return path.removeprefix(f"{Path.cwd()}/")


_INGESTED = [
    Field("table"),
    Field("source", _from_here),
    Field("action"),
    Field("rows", formatting.number, right=True),
    Field("rejected", formatting.number, right=True),
    Field("bytes", formatting.size, right=True, title="size"),
    Field("version", right=True),
    Field("error", title="why", none=""),
]


def ingest(
    call: Call,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE=PATH", help="A table, and a file, a folder or a pattern for it."
        ),
    ],
    file_format: FileFormat = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="OLD=NEW", help="A column's name in the table. May be repeated."
        ),
    ] = None,
    missing: Annotated[
        str, typer.Option("--missing", metavar="null|error", help="Columns that a file lacks.")
    ] = "null",
    extra: Annotated[
        str, typer.Option("--extra", metavar="error|ignore", help="Columns that the table lacks.")
    ] = "error",
    delimiter: Annotated[
        str, typer.Option("--delimiter", metavar="CHARACTER", help="What is between CSV values.")
    ] = ",",
    rejects: Annotated[
        str | None,
        typer.Option("--rejects", metavar="TABLE", help="For bad records; else TABLE_rejects."),
    ] = None,
    max_rejects: Annotated[
        int | None,
        typer.Option("--max-rejects", metavar="N", min=0, help="The most bad records of a file."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Load files once more that were loaded before.")
    ] = False,
    max_tasks: Tasks = None,
    max_bytes: Bytes = None,
    dry_run: DryRun = False,
    master: spark.Master = None,
) -> None:
    """Load files into tables, each file once.

    Files that were loaded before are left alone, so the same command can run every hour. A record
    that does not fit goes to the table of rejects with the reason. People see what was done; -o
    csv, json or jsonl print all files.
    """
    paths = _by_table(sources)
    how: dict[str, Any] = {
        "format": file_format,
        "columns": parse_pairs(columns, "--column"),
        "missing": missing,
        "extra": extra,
        "delimiter": delimiter,
        "rejects": rejects,
    }
    if max_rejects is not None:
        how["max_rejects"] = max_rejects
    limits: dict[str, Any] = {"max_tasks": max_tasks, "max_bytes": max_bytes}
    with running(call, "load the files", master, "Loading") as (session, told):
        from tiltyard.spark.jobs.ingest import Source, run

        wanted = {table: Source(found, **how) for table, found in paths.items()}
        report = run(
            session, call.catalog, wanted, again=again, dry_run=dry_run, progress=told, **limits
        )
    _show_ingested(call, report)


def _show_ingested(call: Call, report: Sequence[Ingested]) -> None:
    rows = [{**asdict(each), "action": each.action.value} for each in report]
    loaded = formatting.counted(sum(each.rows for each in report), "row")
    rejected = formatting.number(sum(each.rejected for each in report))
    shown = [row for row in rows if row["action"] != "present"]
    said = f"Files: {_counted(rows)}; {loaded}, {rejected} rejected."
    call.out.summary(said, _INGESTED, rows, shown)
    maintenance.end_with(rows)


def _by_table(sources: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in sources:
        table, equals, path = each.partition("=")
        if not equals or not table or not path:
            raise UsageError(f"a source is TABLE=PATH, not {each!r}", "like users=/data/users")
        found.setdefault(arguments.shown_id(arguments.parse_id(table)), []).append(path)
    return found


# -- export

_EXPORTED = [
    Field("table"),
    Field("path"),
    Field("action"),
    Field("version", right=True),
    Field("rows", formatting.number, right=True),
    Field("files", formatting.number, right=True),
    Field("bytes", formatting.size, right=True, title="size"),
    Field("error", title="why", none=""),
]


def export(
    call: Call,
    destination: Annotated[str, typer.Argument(metavar="FOLDER", help="A path, or a URI.")],
    tables: Tables = None,
    inside: Inside = None,
    file_format: FileFormat = None,
    versions: Annotated[
        list[str] | None,
        typer.Option("--version", metavar="TABLE=N", help="A table's version; else the latest."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another export of a table.")
    ] = False,
    max_tasks: Tasks = None,
    dry_run: DryRun = False,
    master: spark.Master = None,
) -> None:
    """Write tables into files, a folder for each.

    A folder is complete when it has a file _SUCCESS, which names the others. One that has the table
    at the same version is left alone.
    """
    checked(call, tables, inside)
    pinned = _versions(versions)
    with running(call, "export the tables", master, "Exporting") as (session, told):
        from tiltyard.spark.jobs.choosing import choose
        from tiltyard.spark.jobs.export import run

        report = run(
            session,
            call.catalog,
            destination,
            choose(call.catalog, inside, tables or None),
            format=file_format or "parquet",
            versions=pinned,
            overwrite=overwrite,
            max_tasks=max_tasks,
            dry_run=dry_run,
            progress=told,
        )
    rows = [{**asdict(each), "action": each.action.value} for each in report]
    said = f"Tables: {_counted(rows)}." if rows else "No tables."
    call.out.summary(said, _EXPORTED, rows, rows)
    maintenance.end_with(rows)


def _versions(given: Sequence[str] | None) -> dict[str, int]:
    found = {}
    for table, version in parse_pairs(list(given or ()), "--version").items():
        if not version.isdecimal():
            raise UsageError(f"--version takes TABLE=N, not {table}={version}")
        found[table] = int(version)
    return found


def _counted(rows: Iterable[Row]) -> str:
    """How many there are of each action: 2 loaded, 1 present."""
    counts = Counter(row["action"] for row in rows)
    return ", ".join(
        f"{formatting.number(count)} {action}" for action, count in sorted(counts.items())
    )
