"""Sidecars: the plan of an operation on several tables, written before its first change.

A sidecar names each table, the version that readers see, the version that the change follows, and
the transaction that the change will carry. So after a crash, the transactions of the versions that
exist tell how far the operation came. The state of a sidecar moves by compare-and-swap: the owner
moves it from `armed` to `publishing`, a recovery from either to `aborted`, and the loser gets an
error. The rules, and what fails without each, are in docs/design/recovery.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tiltyard.catalog import names
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import Naming
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, InvalidTableStateError
from tiltyard.store import Ambiguous, Changed, NotThere, Tag, read_back

SCHEMA = 1
SUFFIX = ".json"


class OperationKind(StrEnum):
    """What a sidecar covers. A compaction leaves all rows as they are, whether it lands or not."""

    BATCH = "batch"
    COMPACTION = "compaction"

    @property
    def preserves_rows(self) -> bool:
        return self is OperationKind.COMPACTION


class SidecarState(StrEnum):
    """How far the owner has come, or that a recovery has stopped it."""

    ARMED = "armed"
    PUBLISHING = "publishing"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class CoveredTable:
    """One table of a sidecar: its change follows `base_head`, and is known by its transaction.

    `expected_version` is what readers see before the change, and what a roll back returns to; 0 if
    the table has no version yet. `staged` is the manifest that is to become the next version, if
    it is written already.
    """

    id: TableId
    location: str
    expected_version: int
    base_head: int
    transaction: str
    staged: str | None = None
    naming: Naming = Naming.NEWEST_FIRST

    @property
    def version(self) -> int:
        """The version that the change will be."""
        return self.base_head + 1


@dataclass(frozen=True, slots=True)
class Sidecar:
    """One operation that is under way, or was when its owner died.

    Once it was `published`, changes of it may land, and may still do so after it was aborted.
    """

    operation: str
    kind: OperationKind
    actor: str
    started_at_ms: int
    state: SidecarState
    nonce: str
    tables: tuple[CoveredTable, ...]
    published: bool = False
    tag: Tag | None = None

    @property
    def key(self) -> str:
        return key_of(self.operation)

    @property
    def table_ids(self) -> tuple[TableId, ...]:
        return tuple(covered.id for covered in self.tables)


@dataclass(frozen=True, slots=True)
class UnreadableSidecar:
    """A sidecar that this version does not understand; it is kept, and nothing is done about it."""

    key: str
    reason: str


class Sidecars:
    """The sidecars of one catalog."""

    def __init__(self, context: CatalogContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._actor = context.settings.actor

    # -- for the owner

    def arm(self, kind: OperationKind, tables: Sequence[CoveredTable]) -> Sidecar:
        """Write the sidecar of an operation whose changes have all been checked. One request."""
        if not tables:
            raise InvalidInputError("there is nothing to cover")
        if len({table.location for table in tables}) < len(tables):
            raise InvalidInputError("a table is named twice")
        self._store.require_conditions()
        sidecar = Sidecar(
            self._clock.generation(),
            kind,
            self._actor,
            self._clock.now_ms(),
            SidecarState.ARMED,
            self._clock.token(12),
            tuple(tables),
        )
        return replace(sidecar, tag=read_back.put_new(self._store, sidecar.key, encode(sidecar)))

    def publishing(self, sidecar: Sidecar) -> Sidecar:
        """Announce that from here on the changes become visible. One request.

        ConcurrentModificationError if a recovery was first: then no change may be made any more.
        """
        return self._swap(sidecar, SidecarState.PUBLISHING)

    def done(self, sidecar: Sidecar) -> None:
        """Remove a sidecar of which nothing is left to do. One request."""
        self._store.delete(sidecar.key)

    # -- for a recovery

    def abort(self, sidecar: Sidecar) -> Sidecar:
        """Stop the owner, and every recovery that would roll forward. One request."""
        if sidecar.state is SidecarState.ABORTED:
            return sidecar
        return self._swap(sidecar, SidecarState.ABORTED)

    def _swap(self, sidecar: Sidecar, state: SidecarState) -> Sidecar:
        assert sidecar.tag is not None
        published = sidecar.published or state is SidecarState.PUBLISHING
        nonce = self._clock.token(12)
        following = replace(sidecar, state=state, nonce=nonce, published=published)
        try:
            tag = read_back.replace(self._store, sidecar.key, encode(following), sidecar.tag)
        except (Changed, Ambiguous) as lost:
            raise ConcurrentModificationError(
                f"operation {sidecar.operation} was taken over by a recovery",
                hint="look at the tables before trying again",
            ) from lost
        return replace(following, tag=tag)

    def read(self, operation: str) -> Sidecar:
        """One sidecar as it is now. NotThere; InvalidTableStateError. One request."""
        blob = self._store.get(key_of(operation))
        return replace(decode(blob.body, key_of(operation)), tag=blob.tag)

    def operations(self) -> list[str]:
        """The operations that have a sidecar, oldest first. One request."""
        entries = self._store.list(names.RECOVERY).objects
        return [entry.name.removesuffix(SUFFIX) for entry in entries]

    def every(self) -> Iterator[Sidecar | UnreadableSidecar]:
        """All sidecars, oldest first. One request, and one for each."""
        for operation in self.operations():
            try:
                yield self.read(operation)
            except NotThere:  # resolved since
                continue
            except InvalidTableStateError as error:
                yield UnreadableSidecar(key_of(operation), str(error))

    def readable(self) -> Iterator[Sidecar]:
        """The sidecars that this version understands, oldest first."""
        return (sidecar for sidecar in self.every() if isinstance(sidecar, Sidecar))


def key_of(operation: str) -> str:
    return f"{names.RECOVERY}/{operation}{SUFFIX}"


# -- as JSON


def encode(sidecar: Sidecar) -> bytes:
    body = {
        "schema": SCHEMA,
        "operation": sidecar.operation,
        "kind": sidecar.kind.value,
        "state": sidecar.state.value,
        "published": sidecar.published,
        "nonce": sidecar.nonce,
        "actor": sidecar.actor,
        "started_at_ms": sidecar.started_at_ms,
        "tables": [_as_json(table) for table in sidecar.tables],
    }
    return json.dumps(body, ensure_ascii=False).encode()


def _as_json(table: CoveredTable) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": list(table.id),
        "location": table.location,
        "expected_version": table.expected_version,
        "base_head": table.base_head,
        "transaction": table.transaction,
        "naming": table.naming.value,
    }
    return body if table.staged is None else {**body, "staged": table.staged}


def decode(body: bytes, key: str) -> Sidecar:
    """Read a sidecar. What is not understood is refused, never guessed at."""
    try:
        fields = json.loads(body)
        if fields["schema"] != SCHEMA:
            raise ValueError(f"schema {fields['schema']}")
        return Sidecar(
            str(fields["operation"]),
            OperationKind(fields["kind"]),
            str(fields["actor"]),
            int(fields["started_at_ms"]),
            SidecarState(fields["state"]),
            str(fields["nonce"]),
            tuple(_from_json(table) for table in fields["tables"]),
            bool(fields["published"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTableStateError(
            f"the sidecar {key} is not one that this version of tiltyard understands: {error}",
            hint="upgrade tiltyard; the sidecar was left as it is",
        ) from error


def _from_json(fields: Mapping[str, Any]) -> CoveredTable:
    return CoveredTable(
        tuple(map(str, fields["id"])),
        str(fields["location"]),
        int(fields["expected_version"]),
        int(fields["base_head"]),
        str(fields["transaction"]),
        fields.get("staged"),
        Naming(fields["naming"]),
    )
