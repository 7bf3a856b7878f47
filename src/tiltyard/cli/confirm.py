"""The question before something is taken away, and its answers: by hand, or by a flag."""

from __future__ import annotations

import sys

from tiltyard.cli.call import Call
from tiltyard.cli.failures import UsageError


def confirm(call: Call, what: str, name: str, *, yes: bool) -> None:
    """Go on only if the name is typed or `--yes` was given. Scripts are never left waiting.

    `what` says what is about to happen to `name`: "drop table".
    """
    if yes:
        return
    if call.options.no_input or not sys.stdin.isatty():
        raise UsageError(f"won't {what} {name} without being sure", "pass --yes if you are")
    print(f"About to {what} {name}. Type its name: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != name:
        raise UsageError("that is not its name, so nothing was done")
