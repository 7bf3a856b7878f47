"""The log of recoveries: one object for each operation that a recovery brought to an end.

A record is written before the sidecar of the operation is removed. The first record of an operation
stays, however many recoveries end it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tiltyard.catalog import names
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.clock import moment
from tiltyard.maintenance.sidecars import SCHEMA, SUFFIX, Sidecar
from tiltyard.store import AlreadyThere, Ambiguous, NotThere, Store, read_back


class Resolution(StrEnum):
    """How a recovery ended."""

    FORWARD = "rolled forward"
    BACK = "rolled back"
    DISCARDED = "discarded"
    DEFERRED = "deferred"
    REFUSED = "refused"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        return self in (Resolution.FORWARD, Resolution.BACK, Resolution.DISCARDED)


@dataclass(frozen=True, slots=True)
class RecoveryRecord:
    """One operation that was brought to an end: how, when and by whom."""

    operation: str
    kind: str
    outcome: str
    at: datetime
    by: str
    tables: tuple[TableId, ...]
    detail: str | None = None


def write_record(
    context: CatalogContext,
    sidecar: Sidecar,
    outcome: Resolution,
    changes: Sequence[str],
    detail: str | None,
) -> None:
    """Record how an operation ended, and in which state each of its changes was. One request."""
    body = {
        "schema": SCHEMA,
        "operation": sidecar.operation,
        "kind": sidecar.kind.value,
        "outcome": outcome.value,
        "detail": detail,
        "actor": sidecar.actor,
        "started_at_ms": sidecar.started_at_ms,
        "by": context.settings.actor,
        "at_ms": context.clock.now_ms(),
        "tables": [
            {
                "id": list(covered.id),
                "location": covered.location,
                "version": covered.version,
                "found": change,
            }
            for covered, change in zip(sidecar.tables, changes, strict=True)
        ],
    }
    try:
        read_back.put_new(
            context.store, _key_of(sidecar.operation), json.dumps(body, ensure_ascii=False).encode()
        )
    except (AlreadyThere, Ambiguous):
        return


def read_outcome(store: Store, operation: str) -> Resolution:
    """How a recovery ended an operation; without a record it was discarded. One request."""
    try:
        record = json.loads(store.get(_key_of(operation)).body)
    except NotThere:
        record = {}
    return Resolution(record.get("outcome", Resolution.DISCARDED))


def list_records(store: Store, most: int) -> Iterator[RecoveryRecord]:
    """The last records, newest first; those that are not understood are left out. One listing, and
    a request for each."""
    entries = store.list(names.AUDIT).objects
    for entry in sorted(entries, key=lambda entry: (-entry.modified_ms, entry.key))[:most]:
        try:
            record = json.loads(store.get(entry.key).body)
            yield RecoveryRecord(
                str(record["operation"]),
                str(record["kind"]),
                str(record["outcome"]),
                moment(int(record["at_ms"])),
                str(record["by"]),
                tuple(tuple(map(str, table["id"])) for table in record["tables"]),
                record.get("detail"),
            )
        except (NotThere, ValueError, KeyError, TypeError):
            continue


def _key_of(operation: str) -> str:
    return f"{names.AUDIT}/{operation}{SUFFIX}"
