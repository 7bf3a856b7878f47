"""One run of a command: the options that every command shares, and what they open.

`verb` turns a function into a command. The shared options may stand before the noun or after the
verb; those after the verb win.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from tiltyard.cli import failures
from tiltyard.cli.failures import UsageError
from tiltyard.cli.output import Format, Output, make_output

if TYPE_CHECKING:
    from tiltyard.namespace import DirectoryNamespace
    from tiltyard.settings import Settings


class Mode(StrEnum):
    """Where a catalog keeps its names."""

    DIRECTORY = "directory"
    MANIFEST = "manifest"
    COMPATIBLE = "compatible"


_MODE_PROPERTIES = {
    Mode.DIRECTORY: {"manifest_enabled": "false", "dir_listing_enabled": "true"},
    Mode.MANIFEST: {"manifest_enabled": "true", "dir_listing_enabled": "false"},
    Mode.COMPATIBLE: {"manifest_enabled": "true", "dir_listing_enabled": "true"},
}


@dataclass(frozen=True)
class Options:
    """The shared options, as given so far."""

    root: str | None = None
    root_from: str = "--root"
    mode: Mode | None = None
    properties: tuple[str, ...] = ()
    format: Format = Format.TABLE
    quiet: bool = False
    verbose: bool = False
    no_input: bool = False

    def overridden(self, given: Mapping[str, Any]) -> Options:
        """These options and, above them, those of `given` that were set."""
        chosen = {name: value for name, value in given.items() if value}
        if "root" in chosen:
            chosen["root_from"] = "--root"
        chosen["properties"] = (*self.properties, *chosen.get("properties", ()))
        return replace(self, **chosen)

    def with_root_from(self, source: str) -> Options:
        return replace(self, root_from=source)

    def sources(self) -> dict[str, tuple[str, str]]:
        """Every property that was set: its value, and which option or variable set it."""
        found: dict[str, tuple[str, str]] = {}
        if self.root:
            found["root"] = (self.root, self.root_from)
        if self.mode:
            for name, value in _MODE_PROPERTIES[self.mode].items():
                found[name] = (value, "--mode")
        for name, value in parse_pairs(self.properties, "-p").items():
            if self.mode and name in _MODE_PROPERTIES[self.mode]:
                raise UsageError(
                    f"--mode and -p {name} say the same thing", "leave one of them out"
                )
            found[name] = (value, "-p")
        if "root" not in found:
            raise UsageError(
                "no catalog was named", "pass --root DIRECTORY, or set TILTYARD_ROOT to it"
            )
        return found


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


def parse_pairs(pairs: tuple[str, ...] | list[str] | None, option: str) -> dict[str, str]:
    """NAME=VALUE options as a mapping; the last of a name wins."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes NAME=VALUE, not {pair!r}")
        found[name] = value
    return found


def _shared(
    *,
    root: Annotated[
        str | None,
        typer.Option(
            "--root",
            envvar="TILTYARD_ROOT",
            metavar="PATH|URI",
            help="The catalog's directory: a path, or a URI like s3://bucket/prefix.",
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


def shared_parameters(*, repeated: bool = False) -> list[inspect.Parameter]:
    """The shared options as parameters of a command.

    Where they are repeated, after a verb, help does not show them again, and they must not read
    the environment: it would win over an option before the noun.
    """
    found = list(inspect.signature(_shared, eval_str=True).parameters.values())
    return [_hidden(each) for each in found] if repeated else found


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
        taken = {each.name for each in own}
        shared = [each for each in shared_parameters(repeated=True) if each.name not in taken]

        def run(context: typer.Context, **arguments: Any) -> None:
            given = {each.name: arguments.pop(each.name) for each in shared}
            _run(context.obj.overridden(given), lambda call: function(call, **arguments))

        context = inspect.Parameter(
            "context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        )
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (context, *own, *shared)
        ]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        app.command(name, help=inspect.getdoc(function), epilog=EPILOG)(run)
        return function

    return decorate


def _run(options: Options, work: Callable[[Call], None]) -> None:
    if options.verbose:
        logging.basicConfig(level=logging.INFO)
        logging.getLogger("tiltyard").setLevel(logging.DEBUG)
    else:
        # Lance warns about things that are as they should be: a new table "does not exist".
        os.environ.setdefault("LANCE_LOG", "error")
    call = Call(options, make_output(options.format, quiet=options.quiet))
    try:
        work(call)
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except Exception as error:
        raise typer.Exit(failures.report(error, verbose=options.verbose)) from None
