"""`tiltyard jobs ingest`, `export`, `inventory`, `orphans`, `migrate`: jobs over files and over all
that is in a catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments, maintenance, spark
from tiltyard.cli.arguments import Apply, Yes
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import UsageError
from tiltyard.cli.job_flags import check_names, running, with_job_flags
from tiltyard.cli.output import Field, Format, Row
from tiltyard.cli.terminal import confirm_all
from tiltyard.job_options import (
    ExportJob,
    IngestJob,
    InventoryJob,
    MigrateJob,
    OrphansJob,
    SourceOptions,
)

if TYPE_CHECKING:
    from tiltyard.spark.jobs.ingest_plan import Ingested


def add_to(app: typer.Typer) -> None:
    verb(app, "ingest")(ingest)
    verb(app, "export")(export)
    verb(app, "inventory")(inventory)
    verb(app, "orphans")(orphans)
    verb(app, "migrate")(migrate_tables)


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


@with_job_flags
def ingest(
    call: Call,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE=PATH", help="A table, and a file, a folder or a pattern for it."
        ),
    ],
    source: SourceOptions,
    options: IngestJob,
    master: spark.Master = None,
) -> None:
    """Load files into tables, each file once.

    Files that were loaded before are left alone, so the same command can run every hour. A record
    that does not fit goes to the table of rejects with the reason. People see what was done; -o
    csv, json or jsonl print all files.
    """
    paths = _by_table(sources)
    with running(call, "load the files", master, "Loading") as (session, progress):
        from tiltyard.spark.jobs.ingest import run
        from tiltyard.spark.jobs.ingest_plan import Source

        tables = {table: Source(files, **vars(source)) for table, files in paths.items()}
        report = run(session, call.catalog, tables, replace(options, progress=progress))
    _show_ingested(call, report)


def _show_ingested(call: Call, report: Sequence[Ingested]) -> None:
    rows = [{**asdict(row), "action": row.action.value} for row in report]
    loaded = formatting.counted(sum(row.rows for row in report), "row")
    rejected = formatting.number(sum(row.rejected for row in report))
    shown = [row for row in rows if row["action"] != "present"]
    summary = f"Files: {_counted(rows)}; {loaded}, {rejected} rejected."
    call.out.summary(summary, _INGESTED, rows, shown)
    maintenance.end_with(rows)


def _by_table(sources: Sequence[str]) -> dict[str, list[str]]:
    by_table: dict[str, list[str]] = {}
    for source in sources:
        table, equals, path = source.partition("=")
        if not equals or not table or not path:
            raise UsageError(f"a source is TABLE=PATH, not {source!r}", "like users=/data/users")
        by_table.setdefault(arguments.shown_id(arguments.parse_id(table)), []).append(path)
    return by_table


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


@with_job_flags
def export(
    call: Call,
    destination: Annotated[str, typer.Argument(metavar="FOLDER", help="A path, or a URI.")],
    options: ExportJob,
    master: spark.Master = None,
) -> None:
    """Write tables into files, a folder for each.

    A folder is complete when it has a file _SUCCESS, which names the others. One that has the table
    at the same version is left alone.
    """
    check_names(call, options.tables, options.namespace)
    with running(call, "export the tables", master, "Exporting") as (session, progress):
        from tiltyard.spark.jobs.export import run

        report = run(session, call.catalog, destination, replace(options, progress=progress))
    rows = [{**asdict(row), "action": row.action.value} for row in report]
    summary = f"Tables: {_counted(rows)}." if rows else "No tables."
    call.out.summary(summary, _EXPORTED, rows, rows)
    maintenance.end_with(rows)


def _counted(rows: Iterable[Row]) -> str:
    """How many there are of each action: 2 loaded, 1 present."""
    counts = Counter(row["action"] for row in rows)
    return ", ".join(
        f"{formatting.number(count)} {action}" for action, count in sorted(counts.items())
    )


# -- inventory

_SIZES = ("bytes", "live_bytes", "old_version_bytes", "trash_bytes", "orphan_bytes")
_PEOPLE = [
    Field("table"),
    Field("rows", formatting.number, right=True),
    Field("fragments", formatting.number, right=True),
    Field("versions", formatting.number, right=True),
    Field("bytes", formatting.size, right=True, title="size"),
    Field("live_bytes", formatting.size, right=True, title="live"),
    Field("old_version_bytes", formatting.size, right=True, title="old"),
    Field("trash_bytes", formatting.size, right=True, title="trash"),
    Field("orphan_bytes", formatting.size, right=True, title="orphans"),
    Field("small_file_score", lambda share: f"{share:.0%}", right=True, title="small"),
    Field("index_coverage", lambda share: f"{share:.0%}", right=True, title="indexed"),
    Field("last_write_at", formatting.age, title="written"),
    Field("error", title="why", none=""),
]
_VERSION = [
    Field("table"),
    Field("version", right=True),
    Field("rows", formatting.number, right=True),
    Field("fragments", formatting.number, right=True),
    Field("files", formatting.number, right=True),
    Field("bytes", formatting.size, right=True, title="size"),
    Field("created_at", formatting.age, title="created"),
    Field("error", title="why", none=""),
]


@with_job_flags
def inventory(call: Call, options: InventoryJob, master: spark.Master = None) -> None:
    """Count rows, fragments and bytes, and tell whose the bytes are.

    Bytes are live if the latest version needs them, old if only others do, orphans if none does and
    they are a week old. Dropped tables are trash. -o csv, json or jsonl print everything.
    """
    check_names(call, options.tables, options.namespace)
    with running(call, "count the tables", master, "Counting") as (session, progress):
        from tiltyard.spark.jobs.inventory import run, run_versions

        options = replace(options, progress=progress)
        if options.versions:
            rows = [asdict(row) for row in run_versions(session, call.catalog, options)]
        else:
            counted = run(session, call.catalog, options)
            rows = [{**asdict(row), "state": row.state.value} for row in counted]
    if options.versions:
        call.out.rows(_VERSION, rows)
    else:
        _show_inventory(call, rows)
    maintenance.end_with(rows)


def _show_inventory(call: Call, rows: Sequence[Mapping[str, Any]]) -> None:
    if call.options.format is not Format.TABLE:
        call.out.rows([Field(name) for name in rows[0]] if rows else _PEOPLE, rows)
        return
    call.out.rows(_PEOPLE, rows)
    total = {name: formatting.size(sum(row[name] for row in rows)) for name in _SIZES}
    call.out.say(
        f"{formatting.counted(len(rows), 'table')}, {total['bytes']}: {total['live_bytes']} live, "
        f"{total['old_version_bytes']} of old versions, {total['trash_bytes']} in the trash, "
        f"{total['orphan_bytes']} orphans."
    )


# -- orphans

_ORPHAN = [
    Field("path"),
    Field("kind"),
    Field("bytes", formatting.size, right=True, title="size"),
    Field("modified_at", formatting.age, title="written"),
    Field("why"),
    Field("action"),
    Field("error", none=""),
]


@with_job_flags
def orphans(
    call: Call,
    options: OrphansJob,
    listing: Annotated[
        str | None,
        typer.Option(
            "--inventory",
            metavar="PATH",
            help="Parquet files with path, size and modified, in place of a listing.",
        ),
    ] = None,
    apply: Apply = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Find what nothing refers to; a dry run without --apply.

    Like `tiltyard orphans`, for any number of files: listings and what versions refer to are joined
    by Spark. Right before files are deleted, their tables are looked at once more.
    """
    with running(call, "look for orphans", master, "Looking") as (session, progress):
        from tiltyard.spark.jobs.orphans import run

        inventory = None if listing is None else session.read.parquet(listing)
        options = replace(options, inventory=inventory, progress=progress)
        report = run(session, call.catalog, replace(options, dry_run=True, even_if_young=False))
        going = [row.path for row in report if row.error is None and row.kind != "table"]
        if apply and going:
            confirm_all(call, "delete for good", going, yes=yes)
            report = run(session, call.catalog, options)
    rows = [{**asdict(row), "action": row.action.value} for row in report]
    orphan_rows = [row for row in report if row.error is None]
    size = formatting.size(sum(row.bytes for row in orphan_rows))
    removed = sum(row["action"] == "removed" for row in rows)
    summary = (
        f"{formatting.counted(len(orphan_rows), 'orphan')}, {size}" if orphan_rows else "No orphans"
    )
    summary += f"; removed {formatting.number(removed)}." if apply else "."
    call.out.summary(summary, _ORPHAN, rows, rows)
    maintenance.end_with(rows)


# -- migrate


@with_job_flags
def migrate_tables(call: Call, options: MigrateJob, master: spark.Master = None) -> None:
    """Give every table directory at the root a row in the manifest.

    Like `tiltyard migrate`, for any number of tables: Spark looks at them.
    """
    with running(call, "migrate the tables", master, "Looking at tables") as (session, progress):
        from tiltyard.spark.jobs.migrate import run

        report = run(session, call.catalog, replace(options, progress=progress))
    maintenance.show_migrated(call, report, dry_run=options.dry_run)
