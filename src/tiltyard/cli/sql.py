"""`tiltyard sql`: a query over the catalog's tables, run by an embedded Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import spark
from tiltyard.cli.call import Call
from tiltyard.cli.options import parse_pairs
from tiltyard.cli.output import Field

if TYPE_CHECKING:
    import pyarrow as pa

SCANS = [
    Field("table"),
    Field("version", right=True),
    Field("columns", lambda names: formatting.plain(", ".join(names)) or "-"),
    Field("filter"),
    Field("limit", formatting.number, right=True),
]


def sql(
    call: Call,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A SELECT in Spark's SQL.")],
    args: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            "-a",
            metavar="NAME=VALUE",
            help="The value of :NAME in the query; JSON, or else a text. May be repeated.",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Only tell what would be read, and by which filter."),
    ] = False,
    master: spark.Master = None,
) -> None:
    """Answer a query over the tables of the catalog.

    A table is named with its namespaces: prod.users. Only the columns and rows that the query needs
    are read, of versions pinned at its start; users VERSION AS OF 3 reads an older one. Starting
    Spark takes some seconds.
    """
    values = {name: _value(text) for name, text in parse_pairs(args, "--arg").items()}
    properties = call.settings.as_properties()
    with spark.running(call, "answer the query", master) as session:
        from tiltyard.spark.sql import explain as explained
        from tiltyard.spark.sql import sql as answered

        if explain:
            found = explained(session, query=query, args=values, **properties)
            call.out.rows(SCANS, [vars(each) for each in found])
            return
        answer = answered(session, query=query, args=values, **properties).toArrow()
    names = _distinct(answer.column_names)
    call.out.rows(
        [Field(name, formatting.value, title=shown) for name, shown in names.items()],
        _rows(answer, list(names)),
    )


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _distinct(columns: Sequence[str]) -> dict[str, str]:
    """A name of its own for each column, and the one that the query gave it."""
    found: dict[str, str] = {}
    for column in columns:
        name, number = column, 1
        while name in found:
            number += 1
            name = f"{column}_{number}"
        found[name] = column
    return found


def _rows(answer: pa.Table, names: list[str]) -> Iterator[Mapping[str, Any]]:
    for batch in answer.rename_columns(names).to_batches():
        yield from batch.to_pylist()
