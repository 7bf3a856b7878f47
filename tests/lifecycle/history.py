"""What several processes did to a few names, and what may be there after that.

An operation may have taken effect at any moment between its start and its end; one that never
ended, or ended in doubt, at any moment after its start. What is there in the end is the effect of
an operation that no acknowledged one came after.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DONE = "done"
REFUSED = "refused"
DOUBT = "doubt"
INTERNAL = "internal"

FOREVER = float("inf")

# Rows that each writer adds under a tag that only it has.
CREATED_ROWS = 5
APPENDED_ROWS = 2

# What these do to the names that they are given, in order: the name is taken, or not.
EFFECTS = {
    "create": (True,),
    "declare": (True,),
    "drop": (False,),
    "undrop": (True,),
    "rename": (False, True),
}


@dataclass(frozen=True)
class Deed:
    """One operation of one process on one or two names."""

    verb: str
    names: tuple[str, ...]
    tag: str
    start: float
    end: float = FOREVER
    outcome: str = DOUBT
    error: str = ""

    @property
    def may_have_happened(self) -> bool:
        return self.outcome != REFUSED

    @property
    def last_moment(self) -> float:
        return self.end if self.outcome == DONE else FOREVER

    def takes(self, name: str) -> bool | None:
        """Whether it leaves a table of that name, or none; None: that is not its business."""
        for table, taken in zip(self.names, EFFECTS.get(self.verb, ()), strict=False):
            if table == name:
                return taken
        return None


@dataclass(frozen=True)
class Found:
    """What a name stands for: a status, and how many rows there are of each tag."""

    status: str
    rows: tuple[tuple[str, int], ...] = ()

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.rows}


def read(log: Path) -> list[Deed]:
    """The deeds of a log that its writers may have been killed over, each at any moment."""
    begun: dict[str, dict[str, object]] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        begun.setdefault(entry.pop("deed"), {}).update(entry)
    return [_deed(entry) for entry in begun.values()]


def _deed(entry: dict[str, object]) -> Deed:
    entry["names"] = tuple(entry["names"])  # type: ignore[arg-type]
    return Deed(**entry)  # type: ignore[arg-type]


def objections(
    deeds: Sequence[Deed],
    before: Mapping[str, Found],
    after: Mapping[str, Found],
    whole: Mapping[str, int],
) -> list[str]:
    """Everything that the rules do not allow, in words. `whole` is how many rows a tag has."""
    objected = [f"{deed.verb} of {deed.names} raised {deed.error}" for deed in _internal(deeds)]
    for name, there in after.items():
        objected += [
            f"{name} has {rows} rows of {tag}, not {whole.get(tag, 0)}"
            for tag, rows in there.rows
            if rows != whole.get(tag)
        ]
        objected += _objections(name, deeds, before[name], there)
    return objected


def _internal(deeds: Iterable[Deed]) -> list[Deed]:
    return [deed for deed in deeds if deed.outcome == INTERNAL]


def written(deeds: Iterable[Deed]) -> dict[str, int]:
    """How many rows there are of each tag that was, or may have been, written."""
    rows = {"create": CREATED_ROWS, "append": APPENDED_ROWS}
    return {deed.tag: rows[deed.verb] for deed in deeds if deed.verb in rows}


def _objections(name: str, deeds: Sequence[Deed], before: Found, there: Found) -> list[str]:
    concerned = [deed for deed in deeds if deed.takes(name) is not None and deed.may_have_happened]
    last = _last(concerned)
    explains = [deed for deed in last if _explains(deed, name, there)]
    if _untouched(concerned) and _same(before, there):
        return []
    if explains:
        return _lost_trash(name, deeds, last, there) + _lost_rows(name, deeds, last, there)
    told = ", ".join(f"{deed.verb} {deed.tag} ({deed.outcome})" for deed in last) or "nothing"
    return [f"{name} is {there} and was {before}, and the last that happened is {told}"]


def _last(deeds: Sequence[Deed]) -> list[Deed]:
    """Those that no acknowledged deed came after."""
    return [
        deed
        for deed in deeds
        if not any(other.outcome == DONE and other.start > deed.last_moment for other in deeds)
    ]


def _untouched(deeds: Sequence[Deed]) -> bool:
    return not any(deed.outcome == DONE for deed in deeds)


def _same(before: Found, there: Found) -> bool:
    """A status may still change: of what was purged, nothing is left in the trash."""
    if before.status == "exists" or there.status == "exists":
        return before.status == there.status and before.tags <= there.tags
    return True


def _explains(deed: Deed, name: str, there: Found) -> bool:
    if not deed.takes(name):
        return there.status != "exists"
    if there.status != "exists":
        return False
    return deed.verb != "create" or deed.tag in there.tags


def _lost_trash(name: str, deeds: Sequence[Deed], last: Sequence[Deed], there: Found) -> list[str]:
    """A drop that nothing came after leaves the table in the trash, unless it was purged."""
    only = last[0] if len(last) == 1 else None
    if only is None or only.verb != "drop" or only.outcome != DONE:
        return []
    purges = [purge for purge in deeds if purge.verb == "purge" and name in purge.names]
    if any(purge.may_have_happened and purge.last_moment > only.start for purge in purges):
        return []
    return [] if there.status == "soft_deleted" else [f"{name} was dropped and is not in the trash"]


def _lost_rows(name: str, deeds: Sequence[Deed], last: Sequence[Deed], there: Found) -> list[str]:
    """Rows that were appended to a table which nothing else happened to are there."""
    if there.status != "exists" or any(deed.last_moment == FOREVER for deed in last):
        return []
    last_end = max(deed.end for deed in last)
    return [
        f"{name} lost the rows {deed.tag} that were appended to it"
        for deed in deeds
        if deed.verb == "append" and name in deed.names and deed.outcome == DONE
        if deed.start > last_end and deed.tag not in there.tags
    ]
