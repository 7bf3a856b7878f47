"""The boundary of a numbered sequence: numbers at or below it may be gone, and are never written.

A create-if-absent only remembers what still exists, so whoever deletes a numbered object re-opens
its number. Before anything is deleted the boundary moves past it, and a writer that reads the
boundary after its own write learns whether the number was still its to take.

Beside the boundary lies the list of numbers below it that stay: tagged ones, bases of branches.
Should somebody replace the whole sequence by one that begins again, its boundary is closed for
good and the next incarnation gets one of its own.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from tiltyard.clock import Clock
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
    read_back,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

CHECKS = Timer("tiltyard_boundary_check_seconds", "Reading a boundary before or after a write.")
ADVANCES = Counter("tiltyard_boundary_advance_attempts_total", "Attempts to move a boundary on.")
REJECTED = Counter("tiltyard_stale_writes_rejected_total", "Writes that came behind a boundary.")

# What the boundary of a replaced sequence says: every number is behind it.
CLOSED = 2**64 - 1
_FORMAT = 1


class Mark(NamedTuple):
    """Where a boundary is, and in which incarnation of its sequence. Neither ever goes back."""

    incarnation: int
    number: int


@dataclass(frozen=True)
class Retention:
    """What readers may still see: everything above the boundary, and below it what is retained."""

    boundary: int
    retained: frozenset[int]
    incarnation: int = 1

    def shows(self, number: int) -> bool:
        return number > self.boundary or number in self.retained


class _Known(NamedTuple):
    """A boundary as it was read last; no blob means that there was none."""

    incarnation: int = 1
    blob: Blob | None = None


class _Retained(NamedTuple):
    """The list of what stays. It decides about numbers up to `below`: whoever is not on it there
    was given up, and never comes back to it."""

    versions: frozenset[int] = frozenset()
    below: int = 0
    blob: Blob | None = None


class Boundary:
    """The boundary of one sequence, kept in a directory of its own. Never moves back."""

    def __init__(self, store: Store, directory: str, clock: Clock, retry: Retry) -> None:
        self._store = store
        self._directory = directory
        self._clock = clock
        self._retry = retry
        self._known = _Known()

    # -- reading

    def read(self) -> int:
        """The boundary as it is now; 0 if nothing was ever deleted. One request, and few bytes if
        it has not moved since it was read last."""
        return self.mark().number

    def mark(self) -> Mark:
        """The boundary, and the incarnation that it is of. One request."""
        with CHECKS.measure():
            known = self._fresh(self._known)
            while self._number(known) == CLOSED:
                known = self._fresh(_Known(known.incarnation + 1))
        self._known = known
        return Mark(known.incarnation, self._number(known))

    def _fresh(self, known: _Known) -> _Known:
        key = self._key(known.incarnation)
        for _ in self._retry:
            try:
                tag = None if known.blob is None else known.blob.tag
                return known._replace(blob=self._store.get(key, tag))
            except Unchanged:
                return known
            except NotThere:
                if known.blob is None:
                    return known
                # Nobody deletes a boundary, so this can't be an answer.
        raise InvalidTableStateError(
            f"{key} was there and is gone",
            hint="nobody may delete it; no version of this table is accepted until it is restored",
        )

    def check(self, number: int) -> None:
        """Refuse a number at or below the boundary.

        What was read earlier may refuse at once, since a boundary only grows; it never accepts.
        """
        known = self._number(self._known)
        boundary = known if number <= known < CLOSED else self.read()
        if number <= boundary:
            raise self.behind(number, boundary)

    def behind(self, number: int, boundary: int) -> Behind:
        """The error for a number that came too late; noted for whoever watches."""
        REJECTED.add()
        log.warning(
            "%s: a write of version %d was refused, behind %d", self._directory, number, boundary
        )
        return Behind.of(number, boundary)

    def retention(self) -> Retention:
        """What readers may see. One request if nothing was ever deleted, else two."""
        incarnation, boundary = self.mark()
        retained = self._retained(incarnation).versions if boundary else frozenset[int]()
        return Retention(boundary, retained, incarnation)

    # -- moving on

    def advance(
        self,
        to: int,
        keep: Iterable[int],
        let_go: Container[int] = (),
        incarnation: int | None = None,
    ) -> None:
        """Move to at least `to`, so that afterwards numbers up to there may be deleted.

        Numbers to `keep` are noted first; those to let go are struck off the list. Whoever deletes
        then looks once more at what refers to them, and spares what it finds. A sequence that is
        no longer in the incarnation that the caller has seen is left alone.
        """
        incarnation = incarnation or self.mark().incarnation
        self._note(incarnation, keep, let_go, to)
        try:
            self._move(incarnation, to)
        except Exception:
            log.warning("%s could not be advanced to %d", self._key(incarnation), to)
            raise

    def close(self, incarnation: int) -> None:
        """End an incarnation, if it is still the present one; the next write begins another."""
        self._move(incarnation, CLOSED)

    def renew(self, incarnation: int) -> None:
        """Close the boundary of a sequence that begins again, if it is still in that incarnation.

        Whoever belongs to the old one is behind it from now on.
        """
        self.close(incarnation)
        log.warning("%s: replaced by others; its versions begin again", self._directory)

    def _note(
        self, incarnation: int, keep: Iterable[int], let_go: Container[int], below: int
    ) -> None:
        """Change the list of what stays, for numbers up to `below`. Two requests.

        What an earlier list gave up is not taken back: somebody may be about to delete it.
        """
        keeping = frozenset(keep)

        def change() -> None:
            present = self._retained(incarnation)
            added = {number for number in keeping if number > present.below}
            left = {number for number in present.versions if number not in let_go}
            reach = max(below, present.below)
            if left | added != present.versions or reach != present.below:
                body = {
                    "format": _FORMAT,
                    "nonce": self._clock.token(12),
                    "below": reach,
                    "versions": sorted(left | added),
                }
                self._put(self._retained_key(incarnation), present.blob, json.dumps(body).encode())

        self._persistently(change)

    def _move(self, incarnation: int, to: int) -> None:
        if not 0 <= to <= CLOSED:
            raise ValueError(f"{to} is no version")

        def change() -> None:
            ADVANCES.add()
            last = self._known
            known = last if last.incarnation == incarnation else _Known(incarnation)
            known = self._fresh(known)
            present = self._number(known)
            if present == CLOSED and to != CLOSED:
                raise ConcurrentModificationError(
                    f"{self._directory} was replaced meanwhile", hint="look at the table again"
                )
            if present < to:
                body = str(to).encode()
                tag = self._put(self._key(incarnation), known.blob, body)
                known = known._replace(blob=Blob(body, tag))
            self._known = known

        self._persistently(change)

    def _persistently(self, change: Callable[[], None]) -> None:
        for _ in self._retry:
            with suppress(AlreadyThere, Changed, Ambiguous):  # another was first, or may have been
                return change()
        raise ConcurrentModificationError(
            f"others changed {self._directory} first, {self._retry.attempts} times in a row"
        )

    def _put(self, key: str, present: Blob | None, body: bytes) -> Tag:
        if present is None:
            return read_back.put_new(self._store, key, body)
        return read_back.replace(self._store, key, body, present.tag)

    def _retained(self, incarnation: int) -> _Retained:
        key = self._retained_key(incarnation)
        try:
            blob = self._store.get(key)
        except NotThere:
            return _Retained()
        try:
            body = json.loads(blob.body)
            if body["format"] != _FORMAT:
                raise ValueError(f"format {body['format']}")
            return _Retained(frozenset(map(int, body["versions"])), int(body.get("below", 0)), blob)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTableStateError(
                f"{key} is not one that this version of tiltyard understands: {error}",
                hint="upgrade tiltyard; the file was left as it is",
            ) from error

    def _number(self, known: _Known) -> int:
        return 0 if known.blob is None else _number(known.blob, self._key(known.incarnation))

    def _key(self, incarnation: int) -> str:
        return f"{self._directory}/{_stem(incarnation)}.boundary"

    def _retained_key(self, incarnation: int) -> str:
        return f"{self._directory}/{_stem(incarnation)}.retained"


def _stem(incarnation: int) -> str:
    return "versions" if incarnation == 1 else f"versions-{incarnation}"


def _number(blob: Blob, key: str) -> int:
    text = blob.body.decode("ascii", "replace").strip()
    if not text.isdigit() or int(text) > CLOSED:
        raise InvalidTableStateError(f"{key} is not a number: {text[:40]!r}")
    return int(text)
