"""Spark for commands: started without its chatter, and its errors told like ours."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.call import Call

if TYPE_CHECKING:
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
