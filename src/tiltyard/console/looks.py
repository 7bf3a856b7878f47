"""How values look on a page, and the templates that show them. Everything is escaped."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tiltyard import __version__, formatting, names
from tiltyard.console import charts

STATIC = Path(__file__).parent / "static"


def when(moment: datetime | None, none: str = "never") -> Markup:
    """A time as people say it; the exact one shows on hovering, and the script keeps it fresh."""
    if moment is None:
        return Markup("{}").format(none)
    past = moment <= datetime.now(UTC)
    said = formatting.age(moment) if past else formatting.until(moment)
    return Markup('<time datetime="{}" title="{}" data-{}>{}</time>').format(
        moment.isoformat(timespec="seconds"),
        f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "age" if past else "until",
        said,
    )


def due(moment: datetime | None) -> Markup:
    """When something ends: a countdown, or that it is over."""
    if moment is not None and moment <= datetime.now(UTC):
        return Markup('<span class="due">expired</span>')
    return when(moment)


def table_path(identifier: Any) -> str:
    return f"/console/table?id={quote(names.dotted(identifier))}"


@cache
def static_path(name: str) -> str:
    """Changes with the file, so that browsers may keep it for ever."""
    mark = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/console/static/{name}?{mark}"


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("tiltyard.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=formatting.number,
        counted=formatting.counted,
        size=formatting.size,
        cell=lambda value: "" if value is None else formatting.value(value),
        dotted=names.dotted,
        plain=formatting.plain,
        when=when,
        due=due,
    )
    made.globals.update(
        charts=charts, static=static_path, table_path=table_path, version=__version__
    )
    return made


TEMPLATES = _environment()
