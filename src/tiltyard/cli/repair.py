"""`tiltyard repair`: what the doctor has found of one table, shown or mended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from tiltyard import formatting
from tiltyard.cli import identifiers
from tiltyard.cli.call import Call
from tiltyard.cli.confirm import confirm
from tiltyard.cli.failures import UsageError
from tiltyard.cli.flags import Name, Yes
from tiltyard.cli.output import Field

_FIELDS = [Field("table"), Field("action"), Field("what")]

Deed = tuple[str, str]


def repair(
    call: Call,
    table: Name,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Versions that others wrote past the catalog count.")
    ] = False,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="They do not count; their numbers are never used again."),
    ] = False,
    branches: Annotated[
        bool, typer.Option("--branches", help="Remove branches that the catalog does not know.")
    ] = False,
    scrub: Annotated[
        bool, typer.Option("--scrub", help="Delete versions behind the boundary.")
    ] = False,
    auto_cleanup: Annotated[
        bool,
        typer.Option("--no-auto-cleanup", help="Lance no longer deletes versions on its own."),
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Mend. Without it you only see what would be done.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Mend what the doctor found; a dry run without --apply.

    Without another option: versions of a managed table that others wrote past the catalog are taken
    in, if they leave every row as it was. On a terminal you are asked to type the table's name.
    """
    identifier = identifiers.parse(table)
    shown = identifiers.shown(identifier)
    if adopt and discard:
        raise UsageError("versions can't be adopted and discarded both")
    if apply:
        confirm(call, "repair table", shown, yes=yes)
    deeds: list[Deed] = []
    if branches:
        deeds += _branches(call, identifier, apply=apply)
    if scrub:
        stale = call.catalog.versions.scrub(identifier, dry_run=not apply)
        deeds += [("delete", f"version {each}") for each in stale]
    if auto_cleanup:
        settings = call.catalog.health.stop_auto_cleanup(identifier, dry_run=not apply)
        deeds += [("remove", f"setting {each}") for each in settings]
    if adopt or discard or not (branches or scrub or auto_cleanup):
        repaired = call.catalog.health.repair_table(
            identifier, adopt=adopt, discard=discard, dry_run=not apply
        )
        word = {"adopted": "adopt", "discarded": "discard"}.get(repaired.action, "")
        deeds += [(word, f"version {each}") for each in repaired.versions]
    rows = [{"table": shown, "action": _told(deed, apply), "what": what} for deed, what in deeds]
    call.out.summary(_said(len(rows), apply=apply), _FIELDS, rows, rows)


def _branches(call: Call, identifier: Sequence[str], *, apply: bool) -> Iterator[Deed]:
    for each in call.catalog.health.reconcile_branches(identifier, dry_run=not apply):
        yield ("keep" if each.reason else "remove"), f"branch {each.branch}"


_DONE = {
    "adopt": "adopted",
    "discard": "discarded",
    "remove": "removed",
    "delete": "deleted",
    "keep": "kept",
}


def _told(deed: str, apply: bool) -> str:
    return _DONE[deed] if apply else f"would {deed}"


def _said(count: int, *, apply: bool) -> str:
    if not count:
        return "Nothing to mend."
    if apply:
        return f"Mended {formatting.counted(count, 'thing')}."
    return f"Would mend {formatting.counted(count, 'thing')}. Nothing was changed; --apply does it."
