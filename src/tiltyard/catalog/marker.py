"""The marker `<name>.deleted`: the arbiter of a table at a V1 location.

This module has the object's format, reads it and swaps it; `lifecycle.marker_arbiter` decides which
state may follow which. A listing returns sizes, so the size alone shows whether a marker hides its
table: `live` is exactly 64 bytes, every other state at least 256. A marker is never deleted, and no
two bodies of it are equal. In every state it keeps the floor: versions up to it may still be on the
list of a stalled purge.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from tiltyard.catalog import names
from tiltyard.catalog.base import in_the_trash
from tiltyard.catalog.manifest.rows import MOVED, Row
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    UnsupportedOperationError,
)
from tiltyard.store import (
    AlreadyThere,
    Ambiguous,
    Changed,
    Listing,
    NotThere,
    Store,
    Tag,
    read_back,
)

FORMAT = 1
LIVE_BYTES = 64
HIDDEN_BYTES = 256
NONCE_DIGITS = 12
# The hint for a create that would need the directory of a held table.
HELD = "the table in the trash is held: release_table lets it go"

# Lance's own clients know only a file inside the table's directory. Theirs holds these bytes; ours
# adds the generation, so that the sizes in a listing distinguish them.
NESTED_BODY = b"reserved"


class State(StrEnum):
    """What a marker says. An absent marker means the same as `live`."""

    LIVE = "live"
    DEREGISTERED = "deregistered"  # hidden, no time limit, never purged
    DELETED = "deleted"  # in the trash
    REVIVING = "reviving"  # a create over a dropped table is in progress
    PURGING = "purging"  # its files are being deleted, no way back
    PURGED = "purged"  # no file is left; the floor has the highest version there was
    MOVED = "moved"  # renamed: the row with the nonce has the directory, once that is `final`


@dataclass(frozen=True)
class KeptManifest:
    """The last manifest of a purged table, whose version the next table's versions follow."""

    version: int
    key: str
    body: bytes


@dataclass(frozen=True)
class Marker:
    """The body of a marker, and the tag that its next swap needs; no tag means no object yet.

    `unknown` has fields of other writers, which stay in a rewrite of a hidden state. A rename is
    `final` once its row exists. `purged_row` is the row in the trash whose purge deletes everything
    in the directory, which is never used again.
    """

    state: State = State.LIVE
    nonce: str = ""
    protected: bool = False
    generation: str | None = None
    table: str | None = None
    location: str | None = None
    deleted_at_ms: int | None = None
    ttl_ms: int | None = None
    version_at_drop: int | None = None
    reason: str | None = None
    dropped_by: str | None = None
    hold: bool = False
    floor: int = 0
    base: int | None = None
    last_manifest: KeptManifest | None = None
    previous: Marker | None = None
    moved_to: str | None = None
    final: bool = False
    purged_row: str | None = None
    purged_at_ms: int | None = None
    properties: Mapping[str, str] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    tag: Tag | None = None

    @property
    def hides(self) -> bool:
        return self.state is not State.LIVE

    @property
    def in_progress(self) -> bool:
        """Whether a create or a rename has begun that may still make the table visible."""
        is_moving = self.state is State.MOVED and not (self.final or self.purged_row)
        is_reserved = self.moved_to == self.table
        return self.state is State.REVIVING or (is_moving and not is_reserved)

    def cleared(self) -> Marker:
        """A live marker with the tag, the floor, the protection and the unknown fields of this."""
        return Marker(
            protected=self.protected, floor=self.floor, unknown=self.unknown, tag=self.tag
        )

    def given_to(self, row: Row) -> bool:
        """Whether the directory was given to a row. A nonce is used once, so a row with another
        one never gets it."""
        return self.state is State.MOVED and self.nonce == row.metadata.get(MOVED)


ABSENT = Marker()


def hides(size: int) -> bool:
    """Whether a marker of this size hides its table. Needs no read."""
    return size != LIVE_BYTES


def hidden_tables(listing: Listing) -> set[str]:
    """The root tables that a marker hides, by a listing of the root."""
    keys = (entry.key for entry in listing.objects if hides(entry.size))
    return {name for name in map(names.marked_name, keys) if name is not None}


def read(store: Store, name: str) -> Marker:
    """The marker of a root table. One request."""
    key = names.marker_key(name)
    try:
        blob = store.get(key)
    except NotThere:
        return ABSENT
    return replace(decode(blob.body, key), tag=blob.tag)


def swap(
    store: Store,
    name: str,
    current: Marker,
    following: Marker,
    clock: Clock,
    *,
    fresh: bool = True,
) -> Marker:
    """Put one marker in the place of another: one compare-and-swap, with a fresh nonce as a rule.

    The loser of a race gets ConcurrentModificationError and has changed nothing.
    """
    key = names.marker_key(name)
    nonce = clock.token(NONCE_DIGITS) if fresh else following.nonce
    following = replace(following, nonce=nonce, table=name)
    body = encode(following)
    try:
        if current.tag is None:
            tag = read_back.put_new(store, key, body)
        else:
            tag = read_back.replace(store, key, body, current.tag)
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


def reservation_body(clock: Clock) -> bytes:
    """What we write to reserve a directory: only that it exists counts, and whose it is, for us."""
    return NESTED_BODY + b" " + clock.token(16).encode()


def hide_from_peers(store: Store, name: str, hidden: Marker) -> None:
    """Write the nested file by which Lance's own clients know that a table is hidden.

    It follows a hide and precedes a show, so that a crash in between leaves them seeing more than
    we do, never a lost table. It is not left if the table came back meanwhile. Two requests.
    """
    key = _nested_key(name)
    store.put(key, NESTED_BODY + b" " + (hidden.generation or "").encode())
    if not read(store, name).hides:
        store.delete(key)


def show_to_peers(store: Store, name: str) -> None:
    """Remove the nested file. One request."""
    store.delete(_nested_key(name))


def _nested_key(name: str) -> str:
    return f"{names.table_directory(name)}/{names.DEREGISTERED}"


def is_ours_nested(size: int) -> bool:
    """Whether a nested marker of this size is ours. Needs no read."""
    return size > len(NESTED_BODY)


def cannot_continue(name: str) -> UnsupportedOperationError:
    """Lance counts from a manifest that exists, and versions must not begin at 1 again."""
    return UnsupportedOperationError(
        f"another client has deleted the files of table '{name}', so its versions can't go on",
        hint="choose another name, or open the catalog with manifest_enabled=true",
    )


def why_hidden(present: Marker) -> str | None:
    """What a marker that hides its table means for the user: a hint."""
    if present.state is State.DELETED:
        return in_the_trash(present.deleted_at_ms or 0, present.ttl_ms)
    if present.state is State.DEREGISTERED:
        directory = names.table_directory(present.table or "<name>")
        return f"it is deregistered; register_table with location '{directory}'"
    if present.state is State.MOVED and present.moved_to not in (None, present.table):
        target = names.display(names.split_object_id(present.moved_to or ""))
        return f"it was renamed to {target}; if that is not there, register it again"
    if present.state is State.REVIVING:
        return "it is being created at this moment"
    return None


# -- the codec

_WRITTEN_APART = {"state", "nonce", "protected", "unknown", "tag"}
_RENAMED = {"previous": "from", "final": "arrived", "purged_row": "buried"}
# The other fields, and their names in JSON.
_PLAIN = {
    attribute.name: _RENAMED.get(attribute.name, attribute.name)
    for attribute in fields(Marker)
    if attribute.name not in _WRITTEN_APART
}
# A live marker is too short for these fields, so they follow its nonce.
_FLOOR, _PROTECTED = "-", "!"


def encode(marker: Marker) -> bytes:
    """The bytes of a marker, padded to the size that its state demands."""
    return _padded(_as_json(marker), HIDDEN_BYTES if marker.hides else LIVE_BYTES)


def _padded(body: Mapping[str, Any], size: int) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode().ljust(size)


def _as_json(marker: Marker) -> dict[str, Any]:
    body: dict[str, Any] = {"format": FORMAT, "state": marker.state.value, "nonce": marker.nonce}
    if not marker.hides and marker.floor:
        body["nonce"] += f"{_FLOOR}{marker.floor:x}{_PROTECTED if marker.protected else ''}"
        return body
    if marker.protected:
        body["protected"] = 1
    if not marker.hides:
        return body
    for name, json_name in _PLAIN.items():
        value = getattr(marker, name)
        if isinstance(value, KeptManifest):
            value = {
                "version": value.version,
                "key": value.key,
                "body": base64.b64encode(value.body).decode(),
            }
        elif isinstance(value, Marker):
            value = _as_json(value)
        if value is not None and value is not False and value != 0:
            body[json_name] = value
    return {**marker.unknown, **body, "ttl_ms": marker.ttl_ms}


def decode(body: bytes, key: str) -> Marker:
    """Read a marker. What is not understood is refused, never guessed at."""
    try:
        return _from_json(json.loads(body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidTableStateError(
            f"the marker {key} is not one that this version of tiltyard understands: {error}",
            hint="upgrade tiltyard; the marker was left as it is",
        ) from error


def _from_json(body: dict[str, Any]) -> Marker:
    if set(body) == {"deleted_at_ms", "ttl_ms"}:  # the form of the proposal this grew from
        return Marker(
            State.DELETED,
            generation=f"{body['deleted_at_ms']:011x}00000",
            deleted_at_ms=int(body["deleted_at_ms"]),
            ttl_ms=None if body["ttl_ms"] is None else int(body["ttl_ms"]),
        )
    version, state = body.pop("format"), State(body.pop("state"))
    if version != FORMAT:
        raise ValueError(f"format {version}")
    nonce, _, floor = body.pop("nonce", "").partition(_FLOOR)
    known: dict[str, Any] = {"nonce": nonce}
    known["protected"] = bool(body.pop("protected", floor.endswith(_PROTECTED)))
    if floor:
        known["floor"] = int(floor.removesuffix(_PROTECTED), 16)
    for name, json_name in _PLAIN.items():
        value = body.pop(json_name, None)
        if value is None:
            continue
        if name == "last_manifest":
            content = base64.b64decode(value["body"])
            value = KeptManifest(value["version"], value["key"], content)
        elif name == "previous":
            value = _from_json(value)
        known[name] = value
    return Marker(state, unknown=body, **known)
