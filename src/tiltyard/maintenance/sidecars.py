"""Sidecars: what is about to happen to several tables, written down before the first of it does.

A sidecar names each table, the version that it is pinned to, the one that was staged from, and the
transaction that the change will carry, so that whoever finds it after a crash can tell by the
transaction what has happened. Its state moves by compare-and-swap: the owner goes from `armed` to
`publishing`, a sweep from either to `aborted`, and whoever loses knows it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tiltyard import names
from tiltyard.catalog.version_files import Naming
from tiltyard.clock import Clock
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, InvalidTableStateError
from tiltyard.names import TableId
from tiltyard.store import AlreadyThere, Ambiguous, Changed, NotThere, Store, Tag, read_back

SCHEMA = 1
SUFFIX = ".json"


class Kind(StrEnum):
    """What a sidecar covers. A compaction leaves the rows as they are, whatever of it lands."""

    BATCH = "batch"
    COMPACTION = "compaction"

    @property
    def preserves_rows(self) -> bool:
        return self is Kind.COMPACTION


class State(StrEnum):
    """How far the owner has come, or that a sweep has stopped it."""

    ARMED = "armed"
    PUBLISHING = "publishing"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class Covered:
    """One table of a sidecar: its change follows `base_head`, and is known by its transaction.

    `expected_version` is what readers see before it, and what a roll back returns to; 0 if the
    table has no version yet. `staged` is the manifest that is to become the next version, if there
    is one already.
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
    kind: Kind
    actor: str
    started_at_ms: int
    state: State
    nonce: str
    tables: tuple[Covered, ...]
    published: bool = False
    tag: Tag | None = None

    @property
    def key(self) -> str:
        return key_of(self.operation)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A sidecar that can't be understood; it is kept, and nothing is done about it."""

    key: str
    reason: str


class Sidecars:
    """The sidecars of one catalog."""

    def __init__(self, store: Store, clock: Clock, actor: str) -> None:
        self._store = store
        self._clock = clock
        self._actor = actor

    # -- for the owner

    def arm(self, kind: Kind, tables: Sequence[Covered]) -> Sidecar:
        """Write down what is about to happen. Everything has been checked before. One request."""
        if not tables:
            raise InvalidInputError("there is nothing to cover")
        places = {each.location for each in tables}
        if len(places) < len(tables):
            raise InvalidInputError("a table is named twice")
        self._store.require_conditions()
        sidecar = Sidecar(
            self._clock.generation(),
            kind,
            self._actor,
            self._clock.now_ms(),
            State.ARMED,
            self._clock.token(12),
            tuple(tables),
        )
        return replace(sidecar, tag=read_back.put_new(self._store, sidecar.key, encode(sidecar)))

    def publishing(self, sidecar: Sidecar) -> Sidecar:
        """Announce that from here on the changes become visible. One request.

        ConcurrentModificationError if a sweep was first: then nothing may be done any more.
        """
        return self._swap(sidecar, State.PUBLISHING)

    def done(self, sidecar: Sidecar) -> None:
        """Remove a sidecar of which nothing is left to do. One request."""
        self._store.delete(sidecar.key)

    # -- for whoever comes after

    def abort(self, sidecar: Sidecar) -> Sidecar:
        """Stop the owner, and every sweep that would go on from here. One request."""
        if sidecar.state is State.ABORTED:
            return sidecar
        return self._swap(sidecar, State.ABORTED)

    def _swap(self, sidecar: Sidecar, state: State) -> Sidecar:
        assert sidecar.tag is not None
        published = sidecar.published or state is State.PUBLISHING
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

    def keys(self) -> list[str]:
        """The operations that have a sidecar, oldest first. One request."""
        listed = self._store.list(names.RECOVERY).objects
        return [each.name.removesuffix(SUFFIX) for each in listed]

    def every(self, operations: Iterable[str] | None = None) -> Iterator[Sidecar | Unreadable]:
        """All sidecars, oldest first. One request, and one for each."""
        for operation in self.keys() if operations is None else operations:
            try:
                yield self.read(operation)
            except NotThere:  # resolved since
                continue
            except InvalidTableStateError as error:
                yield Unreadable(key_of(operation), str(error))


def key_of(operation: str) -> str:
    return f"{names.RECOVERY}/{operation}{SUFFIX}"


def write_audit(store: Store, operation: str, record: Mapping[str, Any]) -> None:
    """Leave a record of what was done about an operation; the first of several stays."""
    body = json.dumps({"schema": SCHEMA, **record}, ensure_ascii=False).encode()
    try:
        read_back.put_new(store, f"{names.AUDIT}/{operation}{SUFFIX}", body)
    except (AlreadyThere, Ambiguous):
        return


def read_audit(store: Store, operation: str) -> dict[str, Any] | None:
    """What was done about an operation, if it was recovered. One request."""
    try:
        blob = store.get(f"{names.AUDIT}/{operation}{SUFFIX}")
    except NotThere:
        return None
    found: dict[str, Any] = json.loads(blob.body)
    return found


# -- the codec


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
        "tables": [_as_json(each) for each in sidecar.tables],
    }
    return json.dumps(body, ensure_ascii=False).encode()


def _as_json(table: Covered) -> dict[str, Any]:
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
        found = json.loads(body)
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}")
        return Sidecar(
            str(found["operation"]),
            Kind(found["kind"]),
            str(found["actor"]),
            int(found["started_at_ms"]),
            State(found["state"]),
            str(found["nonce"]),
            tuple(_covered(each) for each in found["tables"]),
            bool(found["published"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTableStateError(
            f"the sidecar {key} is not one that this version of tiltyard understands: {error}",
            hint="upgrade tiltyard; the sidecar was left as it is",
        ) from error


def _covered(body: Mapping[str, Any]) -> Covered:
    return Covered(
        tuple(map(str, body["id"])),
        str(body["location"]),
        int(body["expected_version"]),
        int(body["base_head"]),
        str(body["transaction"]),
        body.get("staged"),
        Naming(body["naming"]),
    )
