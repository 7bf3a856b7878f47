"""Verbs about the command itself: how it reaches a catalog, and how a shell completes it."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import Annotated

import typer

from tiltyard.cli.call import Call, verb
from tiltyard.cli.output import Field

# -- config

app = typer.Typer(help="See how the catalog is reached.", no_args_is_help=True)

# Whatever is called a key is not shown; some are public, and nobody misses those.
_IS_OPTION = re.compile(r"storage\.")
_IS_KEY = re.compile(r"(?i)key")


@verb(app, "show")
def show(call: Call) -> None:
    """Show every property with its value and where it was set. Secrets are not shown."""
    from tiltyard.errors import redact

    given = call.options.sources()
    secrets = call.settings.secrets
    rows = []
    for name, value in sorted(call.settings.as_properties().items()):
        is_secret = _IS_OPTION.match(name) and (value in secrets or _IS_KEY.search(name))
        rows.append(
            {
                "property": name,
                "value": "***" if is_secret else redact(value),
                "from": given.get(name, ("", "default"))[1],
            }
        )
    call.out.rows([Field("property"), Field("value"), Field("from")], rows)


# -- completion

# The shell's script sets it when it asks what could come next.
VARIABLE = "_TILTYARD_COMPLETE"


class Shell(StrEnum):
    """The shells that can ask."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(
    call: Call,
    shell: Annotated[
        Shell,
        typer.Argument(
            metavar="SHELL",
            help="The shell that you use.",
            show_default=False,
        ),
    ],
) -> None:
    """Print a script that lets a shell complete this command.

    Write it where your shell looks for it, like tiltyard completion bash > FILE. The file is:

    \b
    bash  ~/.local/share/bash-completion/completions/tiltyard
    zsh   ~/.zfunc/_tiltyard, where ~/.zfunc is in fpath
    fish  ~/.config/fish/completions/tiltyard.fish

    For PowerShell, add it to your profile.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="tiltyard", complete_var=VARIABLE, shell=shell))


def prepare() -> None:
    """Make this run ready to answer, if it is a shell that asks."""
    if VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
