"""The boundary of a numbered sequence: numbers at or below it may be gone, and are never written.

A create-if-absent only remembers what still exists, so whoever deletes a numbered object re-opens
its number. Before anything is deleted the boundary moves past it, and a writer that reads the
boundary after its own write learns whether the number was still its to take.

Beside the boundary lies the list of numbers below it that stay: tagged ones, bases of branches.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.errors import VersionBehindBoundaryError as Behind
from tiltyard.metrics import Counter, Timer
from tiltyard.store import (
    AlreadyThere,
    Ambiguous,
    Blob,
    Changed,
    NotThere,
    Retry,
    Store,
    Tag,
    Unchanged,
    settle,
)
from tiltyard.world import World

T = TypeVar("T")

log = logging.getLogger(__name__)

CHECKS = Timer("tiltyard_boundary_check_seconds", "Reading a boundary before or after a write.")
ADVANCES = Counter("tiltyard_boundary_advance_attempts_total", "Attempts to move a boundary on.")
REJECTED = Counter("tiltyard_stale_writes_rejected_total", "Writes that came behind a boundary.")

_HIGHEST = 2**64 - 1
_FORMAT = 1


@dataclass(frozen=True)
class Kept:
    """What readers may still see: everything above the boundary, and below it what is retained."""

    boundary: int
    retained: frozenset[int]

    def shows(self, number: int) -> bool:
        return number > self.boundary or number in self.retained


class Boundary:
    """The boundary of one sequence, kept in a directory of its own. Never moves back."""

    def __init__(self, store: Store, directory: str, world: World, retry: Retry) -> None:
        self._store = store
        self._key = f"{directory}/versions.boundary"
        self._retained_key = f"{directory}/versions.retained"
        self._world = world
        self._retry = retry
        self._seen: Blob | None = None

    # -- reading

    def read(self) -> int:
        """The boundary as it is now; 0 if nothing was ever deleted. One request, and few bytes if
        it has not moved since it was read last."""
        with CHECKS.measure():
            blob = self._fresh()
        return 0 if blob is None else _number(blob, self._key)

    def _fresh(self) -> Blob | None:
        for attempt in range(self._retry.attempts):
            try:
                known = self._seen.tag if self._seen else None
                self._seen = self._store.get(self._key, known)
            except Unchanged:
                pass
            except NotThere:
                if self._seen is not None:  # nobody deletes a boundary, so this can't be an answer
                    self._retry.pause(attempt)
                    continue
            return self._seen
        raise InvalidTableStateError(
            f"{self._key} was there and is gone",
            hint="nobody may delete it; no version of this table is accepted until it is restored",
        )

    def check(self, number: int) -> None:
        """Refuse a number at or below the boundary.

        What was read earlier may refuse at once, since a boundary only grows; it never accepts.
        """
        known = 0 if self._seen is None else _number(self._seen, self._key)
        boundary = known if number <= known else self.read()
        if number <= boundary:
            raise self.behind(number, boundary)

    def behind(self, number: int, boundary: int) -> Behind:
        """The error for a number that came too late; noted for whoever watches."""
        REJECTED.add()
        log.warning("%s: a write of version %d was refused, behind %d", self._key, number, boundary)
        return Behind.of(number, boundary)

    def kept(self) -> Kept:
        """What readers may see. One request if nothing was ever deleted, else two."""
        boundary = self.read()
        return Kept(boundary, self._retained()[1] if boundary else frozenset())

    # -- moving on

    def advance(self, to: int, keep: Iterable[int], let_go: Iterable[int] = ()) -> Kept:
        """Move to at least `to`, so that afterwards numbers up to there may be deleted.

        Numbers to `keep` are noted first; those to let go are struck off the list. Whoever deletes
        then looks once more at what refers to them, and calls `keep` again for what it finds.
        """
        retained = self.note(keep, let_go)
        try:
            boundary = self._move(to)
        except Exception:
            log.warning("%s could not be advanced to %d", self._key, to)
            raise
        return Kept(boundary, retained)

    def note(self, keep: Iterable[int], let_go: Iterable[int] = ()) -> frozenset[int]:
        """Change the list of what stays. Two requests, none to write if it is the same."""
        adding, removing = frozenset(keep), frozenset(let_go)

        def change() -> frozenset[int]:
            blob, present = self._retained()
            following = (present - removing) | adding
            if following != present:
                body = {
                    "format": _FORMAT,
                    "nonce": self._world.token(12),
                    "versions": sorted(following),
                }
                self._put(self._retained_key, blob, json.dumps(body).encode())
            return following

        return self._persistently(change)

    def _move(self, to: int) -> int:
        if not 0 <= to <= _HIGHEST:
            raise ValueError(f"{to} is no version")

        def change() -> int:
            ADVANCES.add()
            blob = self._fresh()
            present = 0 if blob is None else _number(blob, self._key)
            if present >= to:
                return present
            body = str(to).encode()
            self._seen = Blob(body, self._put(self._key, blob, body))
            return to

        return self._persistently(change)

    def _persistently(self, change: Callable[[], T]) -> T:
        for attempt in range(self._retry.attempts):
            try:
                return change()
            except (AlreadyThere, Changed, Ambiguous):  # another was first, or may have been
                self._retry.pause(attempt)
        raise ConcurrentModificationError(
            f"others changed {self._key} first, {self._retry.attempts} times in a row"
        )

    def _put(self, key: str, present: Blob | None, body: bytes) -> Tag:
        if present is None:
            return settle.put_new(self._store, key, body)
        return settle.replace(self._store, key, body, present.tag)

    def _retained(self) -> tuple[Blob | None, frozenset[int]]:
        try:
            blob = self._store.get(self._retained_key)
        except NotThere:
            return None, frozenset()
        try:
            body = json.loads(blob.body)
            if body["format"] != _FORMAT:
                raise ValueError(f"format {body['format']}")
            return blob, frozenset(map(int, body["versions"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTableStateError(
                f"{self._retained_key} is not one that this version of tiltyard understands: "
                f"{error}",
                hint="upgrade tiltyard; the file was left as it is",
            ) from error


def _number(blob: Blob, key: str) -> int:
    text = blob.body.decode("ascii", "replace").strip()
    if not text.isdigit() or int(text) > _HIGHEST:
        raise InvalidTableStateError(f"{key} is not a number: {text[:40]!r}")
    return int(text)
