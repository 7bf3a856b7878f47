"""What the commands of `tiltyard jobs` share: their options, and a session to run in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli import arguments, spark
from tiltyard.cli.call import Call
from tiltyard.cli.failures import UsageError
from tiltyard.cli.terminal import bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Tables = Annotated[
    list[str] | None, typer.Argument(metavar="TABLE", help="The tables; none means all of them.")
]
Inside = Annotated[
    str | None, typer.Option("--in", metavar="NAMESPACE", help="The tables of a namespace only.")
]
Tasks = Annotated[
    int | None, typer.Option("--max-tasks", metavar="N", min=1, help="At most so many tasks.")
]
Bytes = Annotated[
    int | None,
    typer.Option("--max-bytes", metavar="N", min=1, help="Work on no more than so many bytes."),
]

Told = Callable[[int, int], None]


@contextmanager
def running(
    call: Call, doing: str, master: str | None, shown: str
) -> Iterator[tuple[SparkSession, Told | None]]:
    """A session for a job, and where the job tells how far it is if anybody watches."""
    with spark.running(call, doing, master) as session, bar(call, shown) as show:
        if show is None:
            yield session, None
        else:
            yield session, lambda done, total: show(done, total, f"{done} of {total}")


def checked(call: Call, tables: Sequence[str] | None, inside: str | None) -> None:
    """Refuse bad names before Spark starts. Of several tables, a missing one has a row instead."""
    from lance_namespace import DescribeNamespaceRequest, TableExistsRequest

    if tables and inside is not None:
        raise UsageError("name tables, or a namespace by --in", "and not both")
    named = arguments.parse_ids(tables or [])
    if inside is not None:
        call.catalog.describe_namespace(DescribeNamespaceRequest(id=arguments.parse_id(inside)))
    if len(named) == 1:
        call.catalog.table_exists(TableExistsRequest(id=named[0]))
