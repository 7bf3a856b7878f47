"""Spark for commands: started without its chatter, and its errors told like ours."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard import formatting
from tiltyard.cli import spark
from tiltyard.cli.call import Call
from tiltyard.cli.options import parse_pairs
from tiltyard.cli.output import Field

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from tiltyard.errors import TiltyardError

Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Another Spark: local[4], spark://host:7077."),
]


@contextmanager
def running(call: Call, doing: str, master: str | None) -> Iterator[SparkSession]:
    """A session for what is to be done, one that runs already or a new one."""
    verbose = call.options.verbose
    with errors(doing), _without_log(verbose):
        yield _start(master, verbose=verbose)


def _start(master: str | None, *, verbose: bool) -> SparkSession:
    from pyspark.sql import SparkSession

    from tiltyard.spark.session import session

    if SparkSession.getActiveSession() is not None:
        return session(master)
    if sys.stderr.isatty():
        print("Starting Spark.", file=sys.stderr)
    if verbose:
        return session(master)
    with _silent():
        return session(master)


@contextmanager
def _without_log(wanted: bool) -> Iterator[None]:
    """Spark logs each error before it raises it."""
    before = logging.root.manager.disable
    if not wanted:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _silent() -> Iterator[None]:
    """Whatever starts meanwhile writes its log nowhere, as long as it runs."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def errors(doing: str) -> Iterator[None]:
    """Spark's errors as ours, and its absence. `doing` is what it was asked for."""
    from tiltyard.errors import InvalidInputError, UnsupportedOperationError, translate

    try:
        from pyspark.errors import AnalysisException, ParseException, PySparkException
    except ImportError as missing:
        raise UnsupportedOperationError(
            "this is done by Spark, which is not installed",
            hint="pip install 'tiltyard[spark]'",
        ) from missing
    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise InvalidInputError(_first_line(error)) from error
    except PySparkException as error:
        raise _told(translate, error, doing) from error


def _told(translate: Callable[..., TiltyardError], error: Exception, doing: str) -> TiltyardError:
    found = translate(error, doing)
    found.message = f"could not {doing}: {_first_line(error)}"
    return found


def _first_line(error: Exception) -> str:
    """What went wrong, without the plan and the text of the query that follow."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].partition(" SQLSTATE: ")[0] if lines else type(error).__name__


# -- the verb sql

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
