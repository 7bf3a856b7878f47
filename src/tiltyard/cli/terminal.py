"""What a person at a terminal meets: questions before something is deleted, and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

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


# -- progress

Show = Callable[[int, int, str], None]


@contextmanager
def bar(call: Call, doing: str) -> Iterator[Show | None]:
    """Show how far something is: done, of how many, how fast, and a few words beside it.

    None where nobody watches. The bar moves before the total is known.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if call.options.quiet or not console.is_terminal:
        yield None
        return
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[beside]}"),
    )
    with progress.Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(doing, total=None, beside="", rate="")

        def show(done: int, total: int, beside: str) -> None:
            speed = shown.tasks[task].speed
            rate = f"{speed:.3g}/s" if speed else ""
            shown.update(task, completed=done, total=total, beside=beside, rate=rate)

        yield show
