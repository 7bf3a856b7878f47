"""The command's front: which nouns there are, the options before them, and how a run ends."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from typer.main import get_command

from tiltyard.cli import (
    cleanup,
    configuration,
    data,
    failures,
    health,
    jobs,
    maintenance,
    ns,
    serve,
    spark,
    table,
    table_lifecycle,
    trash,
    versions,
)
from tiltyard.cli.call import Front, shared_parameters, verb
from tiltyard.cli.options import PROFILE_VARIABLE, ROOT_VARIABLE, Options

HELP = """A catalog for Lance tables in a directory, on a disk or in a bucket.

A table's id is its namespace path and its name, joined by dots: prod.users. A part that contains a
dot itself goes in double quotes: 'prod."v1.2"'; a double quote inside them is written twice.
"""

EPILOG = (
    "The options above may also follow the verb. "
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 failed in part, 4 not found, 5 conflict, "
    "130 stopped by hand."
)

app = typer.Typer(
    cls=Front,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: it fits any terminal, and rich takes longer than the rest
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(table.app, name="table")
app.add_typer(trash.app, name="trash")
app.add_typer(ns.app, name="ns")
app.add_typer(configuration.app, name="config")
app.add_typer(jobs.app, name="jobs")
app.add_typer(serve.app, name="keys")
verb(app, "migrate")(maintenance.migrate)
verb(app, "doctor")(health.doctor)
verb(app, "recover")(health.recover)
verb(app, "repair")(health.repair)
verb(app, "orphans")(health.orphans)
verb(app, "manage")(versions.manage)
verb(app, "snapshot")(versions.snapshot)
verb(app, "optimize")(maintenance.optimize)
verb(app, "cleanup")(cleanup.cleanup)
verb(app, "sql")(spark.sql)
verb(app, "completion")(configuration.completion)
verb(app, "serve")(serve.serve)
data.add_to(table.app)
table_lifecycle.add_to(table.app)
versions.add_to(table.app)


@functools.cache
def front() -> Any:
    """The command with all of its verbs, as the parser has it: built once."""
    return get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    configuration.prepare()
    try:
        status = front().main(args=arguments, prog_name="tiltyard", standalone_mode=False)
    except typer.Abort:
        return failures.Exit.FAILED
    except BrokenPipeError:
        # The reader has seen enough. Python would complain once more while it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failures.Exit.FAILED
    except Exception as error:
        if not hasattr(error, "format_message"):  # what all errors of the parser have in common
            raise
        return failures.report_usage(error)
    return status if isinstance(status, int) else failures.Exit.OK


def _show_version(wanted: bool) -> None:
    if wanted:
        from tiltyard import __version__

        print(f"tiltyard {__version__}")
        raise typer.Exit


def _is_from_environment(context: typer.Context, option: str) -> bool:
    source = context.get_parameter_source(option)
    return source is not None and source.name == "ENVIRONMENT"


def _front(context: typer.Context, **given: Any) -> None:
    given.pop("version")
    options = Options().overridden(given)
    if _is_from_environment(context, "root"):
        options = replace(options, root_from=ROOT_VARIABLE)
    if _is_from_environment(context, "profile"):
        options = replace(options, profile_from=PROFILE_VARIABLE)
    context.obj = options


_VERSION = Annotated[
    bool,
    typer.Option(
        "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
    ),
]
_PARAMETERS = [
    inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
    *shared_parameters(),
    inspect.Parameter(
        "version", inspect.Parameter.KEYWORD_ONLY, annotation=_VERSION, default=False
    ),
]
_front.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
_front.__annotations__ = {item.name: item.annotation for item in _PARAMETERS}
app.callback(cls=Front, help=HELP, epilog=EPILOG)(_front)
