"""The marker `<name>.deleted`: the arbiter of a table that lies at a V1 location.

This module knows the object's format and reads it; who may change which state into which is the
business of `lifecycle`. A listing returns sizes, so the size alone tells whether a marker hides
its table: `live` is exactly 64 bytes, every other state at least 256. A marker is never deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tiltyard import names
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.store import AlreadyThere, Ambiguous, Changed, NotThere, Store, Tag, settle
from tiltyard.world import World

FORMAT = 1
LIVE_BYTES = 64
HIDDEN_BYTES = 256
NONCE_DIGITS = 12

# Lance's own clients know only a file inside the table's directory. Theirs holds these bytes; ours
# adds the generation, so that a listing tells them apart by their size.
NESTED_BODY = b"reserved"


class State(StrEnum):
    """What a marker says. An absent marker means the same as `live`."""

    LIVE = "live"
    DEREGISTERED = "deregistered"
    MOVED = "moved"


@dataclass(frozen=True)
class Marker:
    """The body of a marker, and the tag that its next swap needs; no tag means no object yet.

    `unknown` holds fields of other writers, which survive a rewrite of a hidden state.
    """

    state: State
    nonce: str = ""
    generation: str | None = None
    table: str | None = None
    moved_to: str | None = None
    protected: bool = False
    unknown: Mapping[str, Any] = field(default_factory=dict)
    tag: Tag | None = None

    @property
    def hides(self) -> bool:
        return self.state is not State.LIVE


ABSENT = Marker(State.LIVE)


def hides(size: int) -> bool:
    """Whether a marker of this size hides its table. Needs no read."""
    return size != LIVE_BYTES


def read(store: Store, name: str) -> Marker:
    """The marker of a root table. One request."""
    key = names.marker_key(name)
    try:
        blob = store.get(key)
    except NotThere:
        return ABSENT
    return replace(decode(blob.body, key), tag=blob.tag)


def swap(
    store: Store, name: str, current: Marker, state: State, world: World, **fields: Any
) -> Marker:
    """Move a marker from the state that was read to another: one compare-and-swap.

    The loser of a race gets ConcurrentModificationError and has changed nothing.
    """
    key = names.marker_key(name)
    kept = replace(current, **{"generation": None, "moved_to": None, **fields})
    following = replace(kept, state=state, nonce=world.token(NONCE_DIGITS), table=name)
    body = encode(following)
    try:
        if current.tag is None:
            tag = settle.put_new(store, key, body)
        else:
            tag = settle.replace(store, key, body, current.tag)
    except (AlreadyThere, Changed) as lost:
        raise ConcurrentModificationError(
            f"another process changed the state of table '{name}' at the same time"
        ) from lost
    except Ambiguous as doubt:
        raise ConcurrentModificationError(
            f"the state of table '{name}' changed while an answer of the store was lost",
            hint="look at the table's state before trying again",
        ) from doubt
    return replace(following, tag=tag)


def reservation_body(world: World) -> bytes:
    """What we write to reserve a directory: only that it exists counts, and whose it is, for us."""
    return NESTED_BODY + b" " + world.token(16).encode()


def nested_body(generation: str) -> bytes:
    """What we write into the nested marker, beside a root marker of the same generation."""
    return NESTED_BODY + b" " + generation.encode()


def is_ours_nested(size: int) -> bool:
    """Whether a nested marker of this size is ours. Needs no read."""
    return size > len(NESTED_BODY)


def encode(marker: Marker) -> bytes:
    """The bytes of a marker, padded to the size that its state demands."""
    fields: dict[str, Any] = {"format": FORMAT, "state": marker.state.value, "nonce": marker.nonce}
    if marker.protected:
        fields["protected"] = 1
    if not marker.hides:
        return _padded(fields, LIVE_BYTES)
    fields["generation"] = marker.generation
    fields["table"] = marker.table
    if marker.moved_to is not None:
        fields["moved_to"] = marker.moved_to
    return _padded({**marker.unknown, **fields}, HIDDEN_BYTES)


def _padded(fields: Mapping[str, Any], size: int) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode().ljust(size)


def decode(body: bytes, key: str) -> Marker:
    """Read a marker. What is not understood is refused, never guessed at."""
    try:
        fields = json.loads(body)
        version, state = fields.pop("format"), State(fields.pop("state"))
        if version != FORMAT:
            raise ValueError(f"format {version}")
        return Marker(
            state=state,
            nonce=fields.pop("nonce", ""),
            generation=fields.pop("generation", None),
            table=fields.pop("table", None),
            moved_to=fields.pop("moved_to", None),
            protected=bool(fields.pop("protected", False)),
            unknown=fields,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTableStateError(
            f"the marker {key} is not one that this version of tiltyard understands: {error}",
            hint="upgrade tiltyard; the marker was left as it is",
        ) from error
