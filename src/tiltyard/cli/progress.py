"""A bar on standard error for those who watch, and nothing for everybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tiltyard.cli.call import Call

Show = Callable[[int, int, str], None]


@contextmanager
def bar(call: Call, doing: str) -> Iterator[Show | None]:
    """Show how far something is: done, of how many, and a few words beside it.

    None where nobody watches. The bar moves before the total is known.
    """
    from rich.console import Console

    console = Console(stderr=True)
    if call.options.quiet or not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    beside = TextColumn("{task.fields[beside]}")
    with Progress(*columns, beside, console=console, transient=True) as shown:
        task = shown.add_task(doing, total=None, beside="")
        yield lambda done, total, words: shown.update(
            task, completed=done, total=total, beside=words
        )
