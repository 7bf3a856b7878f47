"""The templates of the pages, and the filters that format values. All values are escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tiltyard import __version__, formatting
from tiltyard.catalog import names
from tiltyard.console import charts

STATIC = Path(__file__).parent / "static"


def when(moment: datetime | None, none: str = "never") -> Markup:
    """A relative time, which the script keeps current; the exact one is shown on hovering."""
    if moment is None:
        return Markup("{}").format(none)
    is_past = moment <= datetime.now(UTC)
    text = formatting.age(moment) if is_past else formatting.until(moment)
    return Markup('<time datetime="{}" title="{}" data-{}>{}</time>').format(
        moment.isoformat(timespec="seconds"),
        f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "age" if is_past else "until",
        text,
    )


def due(moment: datetime | None) -> Markup:
    """The time until something expires, or that it has expired."""
    if moment is not None and moment <= datetime.now(UTC):
        return Markup('<span class="due">expired</span>')
    return when(moment)


def table_path(identifier: Any) -> str:
    return f"/console/table?id={quote(names.dotted(identifier))}"


@cache
def static_path(name: str) -> str:
    """The path of a static file. It changes with the file, so browsers can cache it forever."""
    digest = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/console/static/{name}?{digest}"


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tiltyard.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=formatting.number,
        counted=formatting.counted,
        size=formatting.size,
        cell=lambda value: "" if value is None else formatting.value(value),
        dotted=names.dotted,
        plain=formatting.plain,
        when=when,
        due=due,
    )
    environment.globals.update(
        charts=charts, static=static_path, table_path=table_path, version=__version__
    )
    return environment


TEMPLATES = _environment()
