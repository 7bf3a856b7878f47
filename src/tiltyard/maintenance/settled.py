"""What recoveries did about operations that a crash cut off, as they have noted it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tiltyard import names
from tiltyard.clock import moment
from tiltyard.names import TableId
from tiltyard.store import NotThere, Store


@dataclass(frozen=True, slots=True)
class Settled:
    """One operation that was brought to an end: how, when and by whom."""

    operation: str
    kind: str
    outcome: str
    at: datetime
    by: str
    tables: tuple[TableId, ...]
    detail: str | None = None


def settled(store: Store, most: int) -> Iterator[Settled]:
    """The last ones, newest first. One listing, and a request for each; what is not understood is
    left out."""
    listed = store.list(names.AUDIT).objects
    for entry in sorted(listed, key=lambda each: (-each.modified_ms, each.key))[:most]:
        try:
            found = json.loads(store.get(entry.key).body)
            yield Settled(
                str(found["operation"]),
                str(found["kind"]),
                str(found["outcome"]),
                moment(int(found["at_ms"])),
                str(found["by"]),
                tuple(tuple(map(str, each["id"])) for each in found["tables"]),
                found.get("detail"),
            )
        except (NotThere, ValueError, KeyError, TypeError):
            continue
