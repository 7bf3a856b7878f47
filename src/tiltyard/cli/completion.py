"""`tiltyard completion`: what a shell needs to complete nouns, verbs and options by the Tab key."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from tiltyard.cli.call import Call

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
