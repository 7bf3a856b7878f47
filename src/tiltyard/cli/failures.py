"""How a run ends: the exit statuses, and the two lines that an error becomes."""

from __future__ import annotations

import sys
import traceback
from enum import IntEnum
from typing import Any

from tiltyard.formatting import plain

# Hints speak of the Python interface; whoever reads them here would rather type a command.
_AS_TYPED = {
    "undrop_table": "tiltyard table undrop",
    "purge_table": "tiltyard trash purge",
    "release_table": "tiltyard table release",
    "list_trash": "tiltyard trash list",
    "keep_newer": "--keep-newer",
    "allow_below_recovery_floor": "--allow-below-recovery-floor",
    "allow_young": "--allow-young",
    "even_if_young": "--even-if-young",
    "health.repair_table": "tiltyard repair",
    "managed_only": "--managed-only",
    "versions.manage": "tiltyard manage",
    "versions.show": "tiltyard table show-version",
}


class Exit(IntEnum):
    """What a script can tell from the status alone."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTLY = 3
    NOT_FOUND = 4
    CONFLICT = 5
    STOPPED = 130


class UsageError(Exception):
    """The command line asks for something that makes no sense; nothing was tried."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class MissingError(UsageError):
    """The command line names something that is not there, and that no catalog knows of."""


def report(error: Exception, *, verbose: bool) -> int:
    """Print an error of a command and return the exit status that it means."""
    if verbose:
        traceback.print_exception(error)
    if isinstance(error, UsageError):
        _print(str(error), error.hint)
        return Exit.NOT_FOUND if isinstance(error, MissingError) else Exit.USAGE

    from lance_namespace.errors import LanceNamespaceError

    if isinstance(error, LanceNamespaceError):
        _print(getattr(error, "message", str(error)), _hint(error))
        return status_of(error)
    _print(f"{type(error).__name__}: {error}", "this is a bug; --verbose shows where it is")
    return Exit.FAILED


def _hint(error: Exception) -> str | None:
    from lance_namespace import errors

    used = "tiltyard config show tells which address and keys were used"
    if hint := getattr(error, "hint", None):
        return str(hint)
    if isinstance(error, errors.ServiceUnavailableError):
        return f"try again; {used}"
    if isinstance(error, errors.PermissionDeniedError | errors.UnauthenticatedError):
        return f"that is for its owner to allow; {used}"
    return "nothing is broken; try again" if getattr(error, "retryable", False) else None


def report_usage(error: Any) -> int:
    """Print what the parser refused. It may come without a context, or be a request for help."""
    context: Any = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(context.get_help())
    else:
        path = context.command_path if context is not None else "tiltyard"
        _print(error.format_message().replace("Value error, ", ""), f"see {path} --help")
    return Exit.USAGE


def report_stop() -> int:
    """Print that somebody pressed Ctrl-C."""
    print(file=sys.stderr)  # the terminal has shown ^C, and stays on that line
    _print("stopped by hand", "what was done is done, and nothing is lost: run it again to go on")
    return Exit.STOPPED


def as_typed(text: str) -> str:
    """A hint on one line, with commands in place of Python."""
    for name, typed in _AS_TYPED.items():
        text = text.replace(name, typed)
    return plain(text)


def status_of(error: Exception) -> Exit:
    """The exit status of an error of the namespace interface, ours or not."""
    from lance_namespace import errors

    not_found = (
        errors.NamespaceNotFoundError,
        errors.TableNotFoundError,
        errors.TableVersionNotFoundError,
        errors.TableTagNotFoundError,
        errors.TableBranchNotFoundError,
        errors.TableIndexNotFoundError,
        errors.TableColumnNotFoundError,
        errors.TransactionNotFoundError,
    )
    conflict = (
        errors.NamespaceAlreadyExistsError,
        errors.NamespaceNotEmptyError,
        errors.TableAlreadyExistsError,
        errors.TableTagAlreadyExistsError,
        errors.TableBranchAlreadyExistsError,
        errors.TableIndexAlreadyExistsError,
        errors.ConcurrentModificationError,
    )
    if isinstance(error, not_found):
        return Exit.NOT_FOUND
    if isinstance(error, conflict):
        return Exit.CONFLICT
    return Exit.USAGE if isinstance(error, errors.InvalidInputError) else Exit.FAILED


def _print(message: str, hint: str | None) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    line = " ".join(message.split())
    console.print(Text.assemble(("error: ", "bold red"), line))
    if hint:
        console.print(Text.assemble(("hint:  ", "bold"), as_typed(hint)))
    sys.stderr.flush()
