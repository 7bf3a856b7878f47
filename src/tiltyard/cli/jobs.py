"""`tiltyard jobs`: work on the tables of a whole catalog, done by Spark on this machine or on a
cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import arguments, jobs_data, maintenance, profiles, spark, trash
from tiltyard.cli import cleanup as cleanup_verb
from tiltyard.cli.arguments import Apply, Name, OlderDrops, Yes
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import Exit, UsageError
from tiltyard.cli.job_flags import check_names, running, with_job_flags
from tiltyard.cli.output import Field, Format
from tiltyard.cli.terminal import bar, confirm
from tiltyard.job_options import CleanupJob, IndexJob, OptimizeJob, PurgeJob

if TYPE_CHECKING:
    from tiltyard.lifecycle.purge import Receipt
    from tiltyard.spark.jobs.maintain import MaintainStep

app = typer.Typer(
    help="Look after a whole catalog with Spark, here or on a cluster.", no_args_is_help=True
)
jobs_data.add_to(app)


@verb(app, "optimize")
@with_job_flags
def optimize(call: Call, options: OptimizeJob, master: spark.Master = None) -> None:
    """Join small files of tables, and bring new rows into indexes.

    Like `tiltyard optimize`, with as many tables at a time as Spark has cores; the work of a table
    that is too big for one of them is shared by all.
    """
    with spark.errors("optimize the tables"):
        from tiltyard.spark.jobs.job import choose_tables
        from tiltyard.spark.jobs.optimize import run, table_options

    rules = table_options(options)
    check_names(call, options.tables, options.namespace)
    with running(call, "optimize the tables", master, "Optimizing") as (session, progress):
        tables = choose_tables(call.catalog, options.namespace, options.tables)
        work = dict.fromkeys(tables, rules)
        rows = run(session, call.catalog, work, replace(options, progress=progress))
    if options.dry_run:
        _show_plan(call, rows)
    else:
        maintenance.show_optimized(call, rows)


@verb(app, "cleanup")
@with_job_flags
def cleanup(
    call: Call,
    options: CleanupJob,
    apply: Apply = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Delete old versions of tables; a dry run without --apply.

    Like `tiltyard cleanup`, with as many tables at a time as Spark has cores.
    """
    with spark.errors("clean up the tables"):
        from tiltyard.spark.jobs.cleanup import policy_of, run
        from tiltyard.spark.jobs.job import choose_tables, parts_of

    policy = policy_of(options)
    check_names(call, options.tables, options.namespace)
    with running(call, "clean up the tables", master, "Cleaning up") as (session, progress):
        options = replace(options, progress=progress)
        tables = choose_tables(call.catalog, options.namespace, options.tables)
        plan = replace(options, dry_run=True, max_bytes=None)
        rows = run(session, call.catalog, dict.fromkeys(tables, policy), plan)
        going = [row.table for row in rows if not row.is_nothing]
        if apply and going:
            cleanup_verb.ask(call, going, yes=yes)
            work = {tuple(parts_of(table)): policy for table in going}
            done = {row.table: row for row in run(session, call.catalog, work, options)}
            rows = [done.get(row.table, row) for row in rows]
    cleanup_verb.show_cleaned(call, rows, apply=apply)


@verb(app, "purge")
@with_job_flags
def purge(
    call: Call,
    older_than: OlderDrops = None,
    *,
    options: PurgeJob,
    apply: Apply = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Delete dropped tables for good; a dry run without --apply.

    Like `tiltyard trash purge`; what is deleted is deleted by Spark, and the receipts stay in the
    catalog, below __audit.
    """
    if options.tables and older_than:
        raise UsageError(
            "--older-than chooses tables by their age, so no table can be named beside it"
        )
    if older_than is not None:
        options = replace(options, older_than=trash.cutoff(older_than))
    arguments.parse_ids([str(table) for table in options.tables or ()])
    with running(call, "purge the trash", master, "Purging") as (session, progress):
        from tiltyard.spark.jobs.purge import choose_dropped, run

        dropped = choose_dropped(call.catalog, options)
        if apply and dropped:
            trash.ask(call, dropped, yes=yes)
        options = replace(options, dry_run=not apply, progress=progress)
        receipts = run(session, call.catalog, dropped, options)
    _show_purged(call, receipts, apply=apply, named=bool(options.tables))


@verb(app, "index")
@with_job_flags
def index(
    call: Call,
    table: Name,
    options: IndexJob,
    master: spark.Master = None,
) -> None:
    """Build an index with all cores of Spark, in one commit.

    If the table has an index of that name, nothing is done.
    """
    parts = arguments.parse_id(table)
    check_names(call, [table])
    with running(call, "build the index", master, "Building") as (session, progress):
        from tiltyard.spark.jobs.indexes import request, run

        wanted = request(parts, options)
        row = asdict(run(session, call.catalog, wanted, options.max_tasks, progress))
    shown = {"rows_indexed": formatting.number, "committed": formatting.yes_or_no}
    call.out.record([Field(name, shown.get(name, formatting.plain)) for name in row], row)
    maintenance.end_with([row])


@verb(app, "maintain")
def maintain(
    call: Call,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            metavar="FILE",
            help="The policy.  [default: tiltyard.toml, here or above]",
            show_default=False,
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it. Without it you only see what would be done.")
    ] = False,
    yes: Yes = False,
    master: spark.Master = None,
) -> None:
    """Do all that a catalog needs; a dry run without --apply.

    Recover, optimize, index, cleanup, purge and orphans, in this order, as a policy file says.
    Without one, tables are optimized, what has expired in the trash is purged, and orphans are
    counted.
    """
    with spark.errors("maintain the catalog"):
        from tiltyard.spark.jobs.maintain import policy_of, run, summary

        rules = policy_of(policy or profiles.project_file())
    if apply:
        confirm(call, "maintain the catalog", call.settings.root, yes=yes)
    with (
        spark.running(call, "maintain the catalog", master) as session,
        bar(call, "Maintaining") as show,
    ):

        def report(step: str, done: int, total: int) -> None:
            if show is not None:
                show(done, total, f"{step}: {done} of {total}")

        steps = run(session, call.catalog, rules, dry_run=not apply, progress=report)
    _show_steps(call, steps)
    call.out.say(summary(steps, dry_run=not apply))
    if any(step.failed for step in steps):
        raise typer.Exit(Exit.PARTLY if any(step.looked_at for step in steps) else Exit.FAILED)


# -- what is shown


def _show_plan(call: Call, planned: Sequence[Any]) -> None:
    rows = [asdict(row) for row in planned]
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
        call.out.rows([Field(name) for name in maintenance.OPTIMIZED], rows)
    call.out.say(f"Would write {total} of {formatting.counted(len(shown), 'table')} again.")
    maintenance.end_with(rows)


def _show_purged(call: Call, receipts: Sequence[Receipt], *, apply: bool, named: bool) -> None:
    if not receipts:
        call.out.summary("Nothing to purge.", trash.RECEIPT, [])
        return
    trash.show_receipts(call, receipts, named=named)
    if not apply:
        call.out.say(trash.NOT_DONE)


def _show_steps(call: Call, steps: Sequence[MaintainStep]) -> None:
    rows = [asdict(step) for step in steps]
    fields = [
        Field("step"),
        Field("looked_at", formatting.number, right=True, title="looked at"),
        Field("changed", formatting.number, right=True),
        Field("failed", formatting.number, right=True),
        Field("bytes", formatting.size, right=True, title="size"),
        Field("seconds", lambda value: f"{value:.1f} s", right=True, title="time"),
        Field("done", formatting.plain),
    ]
    if call.options.format is Format.TABLE:
        call.out.rows(fields, rows)
        for step in steps:
            for error in step.errors:
                call.out.say(f"{step.step}: {error}")
    else:
        call.out.rows([*fields, Field("errors")], rows)
