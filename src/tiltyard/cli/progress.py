"""A bar on standard error for those who watch, and nothing for everybody else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tiltyard.cli.call import Call

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
