"""`tiltyard jobs`: work on a whole catalog, done by Spark on this machine or on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments, jobs_files, jobs_survey, maintenance, spark, trash
from tiltyard.cli import cleanup as cleanup_verb
from tiltyard.cli.arguments import (
    Apply,
    Dropped,
    DryRun,
    Name,
    OlderDrops,
    OlderVersions,
    TargetRows,
    Yes,
    duration,
)
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import UsageError
from tiltyard.cli.jobs_options import Bytes, Inside, Tables, Tasks, checked, running
from tiltyard.cli.output import Field, Format

if TYPE_CHECKING:
    from tiltyard.lifecycle.purge import Receipt

app = typer.Typer(
    help="Look after a whole catalog with Spark, here or on a cluster.", no_args_is_help=True
)
jobs_files.add_to(app)
jobs_survey.add_to(app)


@verb(app, "optimize")
def optimize(
    call: Call,
    tables: Tables = None,
    inside: Inside = None,
    target_rows: TargetRows = None,
    split_above: Annotated[
        int | None,
        typer.Option(
            "--split-above", metavar="BYTES", min=1, help="Share out tables above this size."
        ),
    ] = None,
    max_tasks: Tasks = None,
    max_bytes: Bytes = None,
    dry_run: DryRun = False,
    master: spark.Master = None,
) -> None:
    """Join small files of tables, and bring new rows into indexes.

    Like `tiltyard optimize`, with as many tables at a time as Spark has cores; the work of a table
    that is too big for one of them is shared by all.
    """
    from tiltyard.maintenance.optimize import OptimizeOptions

    options = OptimizeOptions(target_rows_per_fragment=target_rows)
    checked(call, tables, inside)
    with running(call, "optimize the tables", master, "Optimizing") as (session, told):
        from tiltyard.spark.jobs.choosing import choose
        from tiltyard.spark.jobs.optimize import SPLIT_ABOVE, run

        found = run(
            session,
            call.catalog,
            dict.fromkeys(choose(call.catalog, inside, tables or None), options),
            split_above=split_above or SPLIT_ABOVE,
            dry_run=dry_run,
            max_tasks=max_tasks,
            max_bytes=max_bytes,
            progress=told,
        )
    if dry_run:
        _show_plan(call, found)
    else:
        maintenance.show_optimized(call, found)


@verb(app, "cleanup")
def cleanup(
    call: Call,
    tables: Tables = None,
    inside: Inside = None,
    keep_versions: Annotated[
        int,
        typer.Option("--keep-versions", metavar="N", help="How many of the newest versions stay."),
    ] = 10,
    older_than: OlderVersions = None,
    max_tasks: Tasks = None,
    max_bytes: Bytes = None,
    apply: Apply = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Delete old versions of tables; a dry run without --apply.

    Like `tiltyard cleanup`, with as many tables at a time as Spark has cores.
    """
    from tiltyard.maintenance.policy import CleanupPolicy

    age = duration("--older-than", older_than)
    policy = CleanupPolicy(keep_versions, age)
    checked(call, tables, inside)
    with running(call, "clean up the tables", master, "Cleaning up") as (session, told):
        from tiltyard.spark.jobs.choosing import choose, parts_of
        from tiltyard.spark.jobs.cleanup import run

        limits: Any = {"max_tasks": max_tasks, "progress": told}
        work = dict.fromkeys(choose(call.catalog, inside, tables or None), policy)
        found = run(session, call.catalog, work, dry_run=True, **limits)
        going = [each.table for each in found if not each.is_nothing]
        if apply and going:
            cleanup_verb.ask(call, going, yes=yes)
            work = {tuple(parts_of(each)): policy for each in going}
            rows = run(session, call.catalog, work, max_bytes=max_bytes, **limits)
            done = {each.table: each for each in rows}
            found = [done.get(each.table, each) for each in found]
    cleanup_verb.show_cleaned(call, found, apply=apply)


@verb(app, "purge")
def purge(
    call: Call,
    tables: Dropped = None,
    older_than: OlderDrops = None,
    max_tasks: Tasks = None,
    max_bytes: Bytes = None,
    apply: Apply = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Delete dropped tables for good; a dry run without --apply.

    Like `tiltyard trash purge`; what is deleted is deleted by Spark, and the receipts stay in the
    catalog, below __audit.
    """
    if tables and older_than:
        raise UsageError(
            "--older-than chooses tables by their age, so no table can be named beside it"
        )
    before = None if older_than is None else trash.cutoff(older_than)
    arguments.parse_ids(tables or [])
    with running(call, "purge the trash", master, "Purging") as (session, told):
        from tiltyard.spark.jobs.purge import chosen, run

        dropped = chosen(call.catalog, tables or None, before)
        if apply and dropped:
            trash.ask(call, dropped, yes=yes)
        receipts = run(
            session,
            call.catalog,
            dropped,
            dry_run=not apply,
            max_tasks=max_tasks,
            max_bytes=max_bytes,
            progress=told,
        )
    _show_purged(call, receipts, apply=apply, named=bool(tables))


@verb(app, "index")
def index(
    call: Call,
    table: Name,
    column: Annotated[str, typer.Argument(metavar="COLUMN", help="The column.")],
    kind: Annotated[
        str, typer.Option("--type", metavar="TYPE", help="Like BTREE, INVERTED or IVF_PQ.")
    ] = "BTREE",
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="By default COLUMN_idx.")
    ] = None,
    max_tasks: Tasks = None,
    master: spark.Master = None,
) -> None:
    """Build an index with all cores of Spark, in one commit.

    If the table has an index of that name, nothing is done.
    """
    parts = arguments.parse_id(table)
    checked(call, [table], None)
    with running(call, "build the index", master, "Building") as (session, told):
        from tiltyard.spark.jobs.indexes import request, run

        asked = request(parts, column, kind, name, {})
        row = asdict(run(session, call.catalog, asked, max_tasks, told))
    shown = {"rows_indexed": formatting.number, "committed": formatting.yes_or_no}
    call.out.record([Field(each, shown.get(each, formatting.plain)) for each in row], row)
    maintenance.end_with([row])


# -- what they share


def _show_plan(call: Call, found: Sequence[Any]) -> None:
    rows = [asdict(each) for each in found]
    people = [
        Field("table"),
        Field("fragments_removed", formatting.number, right=True, title="fragments"),
        Field("bytes_rewritten", formatting.size, right=True, title="size"),
        Field("error", title="why", none=""),
    ]
    shown = [row for row in rows if row["bytes_rewritten"] or row["error"]]
    total = formatting.size(sum(row["bytes_rewritten"] for row in rows))
    if call.options.format is Format.TABLE:
        call.out.rows(people, shown)
    else:
        call.out.rows([Field(each) for each in maintenance.OPTIMIZED], rows)
    call.out.say(f"Would write {total} of {formatting.counted(len(shown), 'table')} again.")
    maintenance.end_with(rows)


def _show_purged(call: Call, receipts: Sequence[Receipt], *, apply: bool, named: bool) -> None:
    if not receipts:
        call.out.summary("Nothing to purge.", trash.RECEIPT, [])
        return
    trash.show_receipts(call, receipts, named=named)
    if not apply:
        call.out.say(trash.NOT_DONE)
