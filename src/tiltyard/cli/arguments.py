"""Arguments and options that several verbs have: ids, times, and whether something is done.

`parse_id` and `shown_id` are inverse to each other: whatever a command prints can be typed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, overload

import typer

from tiltyard.cli.failures import UsageError

Name = Annotated[str, typer.Argument(metavar="TABLE", help='Its id: name, prod.name, prod."a.b".')]
Names = Annotated[
    list[str], typer.Argument(metavar="TABLE", help='Their ids: name, prod.name, prod."a.b".')
]
Dropped = Annotated[
    list[str] | None,
    typer.Argument(metavar="TABLE", help="Dropped tables; none means what has expired."),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A property to keep. May be repeated."),
]
TargetRows = Annotated[
    int | None,
    typer.Option("--target-rows", metavar="ROWS", help="Join fragments up to this size."),
]

# -- what goes

OlderVersions = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Only what is older than this, like 7d."),
]
OlderDrops = Annotated[
    str | None,
    typer.Option(
        "--older-than",
        metavar="TIME",
        help="What was dropped longer ago than this, like 7d, instead of what has expired.",
    ),
]
OlderOrphans = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Only what is older; 7d if not said."),
]
EvenIfYoung = Annotated[
    bool,
    typer.Option(
        "--even-if-young",
        help="With --apply: also below 7d. Only if nobody writes to the catalog.",
    ),
]

# -- whether it is done

Apply = Annotated[
    bool, typer.Option("--apply", help="Delete. Without it you only see what would go.")
]
Yes = Annotated[bool, typer.Option("--yes", help="With --apply: do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]


@overload
def duration(option: str, text: str) -> str: ...
@overload
def duration(option: str, text: str | None) -> str | None: ...
def duration(option: str, text: str | None) -> str | None:
    """A time as the catalog understands it, or a refusal that names the option."""
    from tiltyard.errors import InvalidInputError
    from tiltyard.settings import duration as parsed

    if text is None:
        return None
    try:
        parsed(text)
    except InvalidInputError as error:
        raise UsageError(f"{option} takes a time, not {text!r}", "like 30m, 12h or 7d") from error
    return text


# -- ids


def shown_id(parts: Sequence[str]) -> str:
    """An id as it can be typed again."""
    from tiltyard.catalog import names

    return names.dotted(parts)


def parse_id(text: str | None) -> list[str]:
    """The parts of an id; none of them for no text, which means the root namespace."""
    from tiltyard.catalog import names
    from tiltyard.errors import InvalidInputError

    try:
        return names.parse_dotted(text)
    except InvalidInputError as reason:
        raise UsageError(reason.message, reason.hint) from None


def parse_ids(texts: Sequence[str]) -> list[list[str]]:
    """Several ids, none of them twice."""
    identifiers: list[list[str]] = []
    for text in texts:
        identifier = parse_id(text)
        if identifier in identifiers:
            raise UsageError(f"{text} is named twice")
        identifiers.append(identifier)
    return identifiers
