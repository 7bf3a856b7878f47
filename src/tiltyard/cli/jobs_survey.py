"""`tiltyard jobs inventory`, `orphans`, `migrate`: jobs over all that lies in a catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import maintenance, migrate, spark
from tiltyard.cli.arguments import Apply, DryRun, EvenIfYoung, OlderOrphans, Yes, duration
from tiltyard.cli.call import Call, verb
from tiltyard.cli.jobs_options import Inside, Tables, Tasks, checked, running
from tiltyard.cli.output import Field, Format
from tiltyard.cli.terminal import confirm_all


def add_to(app: typer.Typer) -> None:
    verb(app, "inventory")(inventory)
    verb(app, "orphans")(orphans)
    verb(app, "migrate")(migrate_tables)


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


def inventory(
    call: Call,
    tables: Tables = None,
    inside: Inside = None,
    versions: Annotated[
        bool, typer.Option("--versions", help="One row for each version instead.")
    ] = False,
    max_tasks: Tasks = None,
    master: spark.Master = None,
) -> None:
    """Count rows, fragments and bytes, and tell whose the bytes are.

    Bytes are live if the latest version needs them, old if only others do, orphans if none does and
    they are a week old. Dropped tables are trash. -o csv, json or jsonl print everything.
    """
    checked(call, tables, inside)
    with running(call, "count the tables", master, "Counting") as (session, told):
        from tiltyard.spark.jobs.choosing import choose
        from tiltyard.spark.jobs.inventory import run, run_versions

        chosen = choose(call.catalog, inside, tables or None)
        limits: dict[str, Any] = {"max_tasks": max_tasks, "progress": told}
        if versions:
            every = run_versions(session, call.catalog, chosen, **limits)
            rows = [asdict(each) for each in every]
        else:
            trashed = [] if tables or inside else call.catalog.list_trash()
            found = run(session, call.catalog, [*chosen, *trashed], **limits)
            rows = [{**asdict(each), "state": each.state.value} for each in found]
    if versions:
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


def orphans(
    call: Call,
    older_than: OlderOrphans = None,
    even_if_young: EvenIfYoung = False,
    listing: Annotated[
        str | None,
        typer.Option(
            "--inventory",
            metavar="PATH",
            help="Parquet files with path, size and modified, in place of a listing.",
        ),
    ] = None,
    max_tasks: Tasks = None,
    apply: Apply = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Find what nothing refers to; a dry run without --apply.

    Like `tiltyard orphans`, for any number of files: listings and what versions refer to are joined
    by Spark. Right before files are deleted, their tables are looked at once more.
    """
    age = duration("--older-than", older_than)
    with running(call, "look for orphans", master, "Looking") as (session, told):
        from tiltyard.spark.jobs.orphans import run

        options: dict[str, Any] = {"older_than": age, "max_tasks": max_tasks, "progress": told}
        if listing is not None:
            options["inventory"] = session.read.parquet(listing)
        found = run(session, call.catalog, dry_run=True, **options)
        going = [each.path for each in found if each.error is None and each.kind != "table"]
        if apply and going:
            confirm_all(call, "delete for good", going, yes=yes)
            found = run(session, call.catalog, even_if_young=even_if_young, **options)
    rows = [{**asdict(each), "action": each.action.value} for each in found]
    every = [each for each in found if each.error is None]
    size = formatting.size(sum(each.bytes for each in every))
    gone = sum(row["action"] == "removed" for row in rows)
    said = f"{formatting.counted(len(every), 'orphan')}, {size}" if every else "No orphans"
    said += f"; removed {formatting.number(gone)}." if apply else "."
    call.out.summary(said, _ORPHAN, rows, rows)
    maintenance.end_with(rows)


# -- migrate


def migrate_tables(
    call: Call, max_tasks: Tasks = None, dry_run: DryRun = False, master: spark.Master = None
) -> None:
    """Give every table directory at the root a row in the manifest.

    Like `tiltyard migrate`, for any number of tables: Spark looks at them.
    """
    with running(call, "migrate the tables", master, "Looking at tables") as (session, told):
        from tiltyard.spark.jobs.migrate import run

        report = run(session, call.catalog, dry_run=dry_run, max_tasks=max_tasks, progress=told)
    migrate.show_migrated(call, report, dry_run=dry_run)
