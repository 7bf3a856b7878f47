"""`tiltyard jobs`: work on a whole catalog, done by Spark on this machine or on a cluster."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Look after a whole catalog with Spark, here or on a cluster.", no_args_is_help=True
)
