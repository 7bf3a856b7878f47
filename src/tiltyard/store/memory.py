"""A store in a dictionary, for tests and for the explorer. No namespace can be opened on it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count

from tiltyard.store.base import (
    AlreadyThere,
    Blob,
    Changed,
    Entry,
    Listing,
    NotThere,
    Progress,
    Tag,
    Unchanged,
)


class MemoryStore:
    """Every verb is atomic. The clock is a parameter, so that tests own it."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._objects: dict[str, tuple[bytes, Tag, int]] = {}
        self._lock = threading.Lock()
        self._serial = count(1)
        self._clock_ms = clock_ms

    @property
    def url(self) -> str:
        return "memory"

    def get(self, key: str, known: Tag | None = None) -> Blob:
        with self._lock:
            if key not in self._objects:
                raise NotThere(key)
            body, tag, _ = self._objects[key]
            if tag == known:
                raise Unchanged(key)
            return Blob(body, tag)

    def head(self, key: str) -> Entry:
        with self._lock:
            if key not in self._objects:
                raise NotThere(key)
            return self._entry(key)

    def list(self, prefix: str = "") -> Listing:
        start = f"{prefix}/" if prefix else ""
        with self._lock:
            below = sorted(key for key in self._objects if key.startswith(start))
            objects = tuple(self._entry(key) for key in below if "/" not in key[len(start) :])
        directories = {key[len(start) :].split("/")[0] for key in below if "/" in key[len(start) :]}
        return Listing(objects, tuple(sorted(directories)))

    def first(self, prefix: str) -> Entry | None:
        return next(self.walk(prefix), None)

    def walk(self, prefix: str) -> Iterator[Entry]:
        start = f"{prefix}/" if prefix else ""
        with self._lock:
            entries = [self._entry(key) for key in sorted(self._objects) if key.startswith(start)]
        return iter(entries)

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        with self._lock:
            if key in self._objects:
                raise AlreadyThere(key)
            return self._write(key, body)

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        with self._lock:
            if key not in self._objects or self._objects[key][1] != tag:
                raise Changed(key)
            return self._write(key, body)

    def put(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        with self._lock:
            return self._write(key, body)

    def put_many(self, bodies: Mapping[str, bytes]) -> None:
        for key, body in bodies.items():
            self.put(key, body)

    def move_many(self, moves: Mapping[str, str]) -> None:
        for old, new in moves.items():
            with self._lock:
                if old in self._objects:
                    self._write(new, self._objects[old][0])
                    del self._objects[old]

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(key, None)

    def delete_many(self, keys: Iterable[str], progress: Progress | None = None) -> int:
        deleted = 0
        for deleted, key in enumerate(keys, 1):  # noqa: B007 - the count is the answer
            self.delete(key)
        if progress:
            progress(deleted)
        return deleted

    def require_conditions(self) -> None:
        """Always holds here."""

    def _write(self, key: str, body: bytes) -> Tag:
        tag = Tag(e_tag=str(next(self._serial)))
        self._objects[key] = (bytes(body), tag, self._clock_ms())
        return tag

    def _entry(self, key: str) -> Entry:
        body, tag, modified_ms = self._objects[key]
        return Entry(key, len(body), modified_ms, tag)
