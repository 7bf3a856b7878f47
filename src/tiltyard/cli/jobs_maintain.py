"""`tiltyard jobs maintain`: the whole round over a catalog, and a report of a few lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard import formatting
from tiltyard.cli import profiles, spark
from tiltyard.cli.arguments import Yes
from tiltyard.cli.call import Call, verb
from tiltyard.cli.failures import Exit
from tiltyard.cli.output import Field, Format
from tiltyard.cli.terminal import bar, confirm

if TYPE_CHECKING:
    from tiltyard.spark.jobs.maintain import Step


def add_to(app: typer.Typer) -> None:
    verb(app, "maintain")(maintain)


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

        def told(step: str, done: int, total: int) -> None:
            if show is not None:
                show(done, total, f"{step}: {done} of {total}")

        steps = run(session, call.catalog, rules, dry_run=not apply, progress=told)
    _show_steps(call, steps)
    call.out.say(summary(steps, dry_run=not apply))
    failed = sum(each.failed for each in steps)
    if failed:
        raise typer.Exit(Exit.PARTLY if any(each.looked_at for each in steps) else Exit.FAILED)


def _show_steps(call: Call, steps: Sequence[Step]) -> None:
    rows = [asdict(each) for each in steps]
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
        for each in steps:
            for error in each.errors:
                call.out.say(f"{each.step}: {error}")
    else:
        call.out.rows([*fields, Field("errors")], rows)
