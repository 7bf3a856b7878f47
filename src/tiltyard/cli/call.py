"""One run of a command: the options that every command shares, and what they open.

`verb` turns a function into a command. The shared options may stand before the noun or after the
verb; those after the verb win.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from tiltyard.cli import failures
from tiltyard.cli.options import PROFILE_VARIABLE, ROOT_VARIABLE, Mode, Options
from tiltyard.cli.output import Format, Output, make_output

if TYPE_CHECKING:
    from tiltyard.namespace import DirectoryNamespace
    from tiltyard.settings import Settings


@dataclass(frozen=True)
class Call:
    """What a verb gets to work with."""

    options: Options
    out: Output

    @functools.cached_property
    def settings(self) -> Settings:
        from tiltyard.settings import Settings

        found = self.options.sources()
        return Settings.from_properties({name: value for name, (value, _) in found.items()})

    @functools.cached_property
    def catalog(self) -> DirectoryNamespace:
        from tiltyard.namespace import DirectoryNamespace

        return DirectoryNamespace(**self.settings.as_properties())


def _shared(
    *,
    root: Annotated[
        str | None,
        typer.Option(
            "--root",
            envvar=ROOT_VARIABLE,
            metavar="PATH|URI",
            help="The catalog's directory: a path, or a URI like s3://bucket/prefix.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar=PROFILE_VARIABLE,
            metavar="NAME",
            help="A catalog that tiltyard.toml or your own configuration names.",
        ),
    ] = None,
    mode: Annotated[
        Mode | None,
        typer.Option("--mode", help="How the catalog keeps its names.", show_default=False),
    ] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "-p",
            "--property",
            metavar="NAME=VALUE",
            help="A property of the catalog, like storage.region=eu-west-1. May be repeated.",
        ),
    ] = None,
    format: Annotated[
        Format | None,
        typer.Option("-o", "--output", help="How to print data.  [default: table]"),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print data and errors only.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print the log, and where an error came from.")
    ] = False,
    no_input: Annotated[
        bool, typer.Option("--no-input", help="Never ask; fail where a question would come.")
    ] = False,
) -> None:
    """Only its parameters are used."""


@functools.cache
def shared_parameters(*, repeated: bool = False) -> tuple[inspect.Parameter, ...]:
    """The shared options as parameters of a command.

    Where they are repeated, after a verb, help does not show them again, and they must not read
    the environment: it would win over an option before the noun.
    """
    found = tuple(inspect.signature(_shared, eval_str=True).parameters.values())
    return tuple(map(_hidden, found)) if repeated else found


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, option = get_args(parameter.annotation)
    hidden = copy(option)
    hidden.hidden, hidden.envvar = True, None
    return parameter.replace(annotation=Annotated[kind, hidden])


Verb = Callable[..., None]

EPILOG = "Options that every command takes, like --root and -o: see tiltyard --help."


def verb(app: typer.Typer, name: str) -> Callable[[Verb], Verb]:
    """Make a function a command: it gets a `Call` first, then its own arguments by name.

    An option of its own hides the shared one of that name, which then stands before the noun.
    """

    def decorate(function: Verb) -> Verb:
        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        taken = {item.name for item in own}
        shared = [
            parameter
            for parameter in shared_parameters(repeated=True)
            if parameter.name not in taken
        ]

        def run(context: typer.Context, **arguments: Any) -> None:
            given = {item.name: arguments.pop(item.name) for item in shared}
            _run(context.obj.overridden(given), lambda call: function(call, **arguments))

        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (context, *own, *shared)
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        app.command(name, cls=Page, help=inspect.getdoc(function), epilog=EPILOG)(run)
        return function

    return decorate


def _run(options: Options, work: Callable[[Call], None]) -> None:
    if options.verbose:
        logging.basicConfig(level=logging.INFO)
        logging.getLogger("tiltyard").setLevel(logging.DEBUG)
    else:
        level = logging.ERROR if options.quiet else logging.WARNING
        logging.basicConfig(level=level, format="warning: %(message)s")
        # Lance warns about things that are as they should be: a new table "does not exist".
        os.environ.setdefault("LANCE_LOG", "error")
    call = Call(options, make_output(options.format, quiet=options.quiet))
    try:
        work(call)
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        raise typer.Exit(failures.report_stop()) from None
    except Exception as error:
        raise typer.Exit(failures.report(error, verbose=options.verbose)) from None


# -- pages of help

# What a newcomer needs first, then what keeps a catalog well, then Spark and servers.
ORDER = (
    *("table", "trash", "ns", "optimize", "cleanup"),
    *("doctor", "recover", "repair", "orphans", "snapshot", "manage", "migrate"),
    *("jobs", "sql", "serve", "keys", "config", "completion"),
)
# `TABLE <list[str]>`; `[x>=1]`, `[default: 10; x>=1]`; and that an argument is needed is in the
# first line.
_TYPE = re.compile(r" <[^|>]*>")
_RANGE = re.compile(r"  \[x>=\d+\]|; x>=\d+|x>=\d+; |  \[required\]")


class Front(TyperGroup):
    """Commands as `ORDER` has them, and not those with verbs behind all others."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=ORDER.index)


class Page(TyperCommand):
    """One verb's page."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """`TABLE...` and not `{TABLE}...`."""
        return [re.sub(r"^\{(.*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            found = [
                (_TYPE.sub("", name), _RANGE.sub("", text.replace("; required]", "]")))
                for param in self.get_params(ctx)
                if param.param_type_name == kind
                for name, text in [param.get_help_record(ctx) or ("", "")]
                if name
            ]
            if found:
                with formatter.section(title):
                    formatter.write_dl(found)
