"""The question before something is taken away, and its answers: by hand, or by a flag."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tiltyard import formatting
from tiltyard.cli.call import Call
from tiltyard.cli.failures import UsageError


def confirm(call: Call, what: str, name: str, *, yes: bool) -> None:
    """Go on only if the name is typed or `--yes` was given. Scripts are never left waiting.

    `what` says what is about to happen to `name`: "purge table".
    """
    _ask(call, f"{what} {name}", "its name", name, yes=yes)


def confirm_all(call: Call, what: str, names: Sequence[str], *, yes: bool) -> None:
    """The same for several, where their number is typed; `what` is in the plural."""
    count = str(len(names))
    _ask(call, f"{what} {formatting.listed(names)}", "how many they are", count, yes=yes)


def _ask(call: Call, deed: str, question: str, answer: str, *, yes: bool) -> None:
    if yes:
        return
    if call.options.no_input or not sys.stdin.isatty():
        raise UsageError(f"won't {deed} without being sure", "pass --yes if you are")
    print(f"About to {deed}. Type {question}: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != answer:
        raise UsageError(f"that is not {question}, so nothing was done")
