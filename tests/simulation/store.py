"""The `Store` that actors see: every verb hands a request to the scheduler and waits for its
answer. A bulk delete is one request for each key, so that a crash can come between any two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NoReturn

from tests.simulation.requests import Answer, Request, tag_of
from tiltyard.store import (
    AlreadyThere,
    Ambiguous,
    Blob,
    Changed,
    Entry,
    Listing,
    NotThere,
    Progress,
    Tag,
    Unchanged,
)

Ask = Callable[[Request], Answer]

_OUTCOMES = {
    "missing": NotThere,
    "exists": AlreadyThere,
    "changed": Changed,
    "doubt": Ambiguous,
}


class ScheduledStore:
    """The store of one actor."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    @property
    def url(self) -> str:
        return "simulation"

    def get(self, key: str, known: Tag | None = None) -> Blob:
        body: bytes = self._answer(Request("get", key)).value
        tag = Tag(tag_of(body))
        if tag == known:
            raise Unchanged(key)
        return Blob(body, tag)

    def head(self, key: str) -> Entry:
        body = self.get(key).body
        return Entry(key, len(body), 0, Tag(tag_of(body)))

    def list(self, prefix: str = "") -> Listing:
        start = len(prefix) + 1 if prefix else 0
        entries = self._entries("list", prefix)
        objects = tuple(entry for entry in entries if "/" not in entry.key[start:])
        below = {
            entry.key[start:].partition("/")[0] for entry in entries if "/" in entry.key[start:]
        }
        return Listing(objects, tuple(sorted(below)))

    def first(self, prefix: str) -> Entry | None:
        return next(iter(self._entries("first", prefix)), None)

    def walk(self, prefix: str) -> Iterator[Entry]:
        return iter(self._entries("walk", prefix))

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        return self._write(Request("put_new", key, bytes(body)))

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        return self._write(Request("replace", key, bytes(body), tag.e_tag or ""))

    def put(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        return self._write(Request("put", key, bytes(body)))

    def put_many(self, bodies: Mapping[str, bytes]) -> None:
        for key, body in bodies.items():
            self.put(key, body)

    def move_many(self, moves: Mapping[str, str]) -> None:
        """In more steps than any real store takes: bytes that were read may arrive late."""
        for old, new in moves.items():
            with suppress(NotThere):
                self.put(new, self.get(old).body)
                self.delete(old)

    def delete(self, key: str) -> None:
        self._answer(Request("delete", key))

    def delete_many(self, keys: Iterable[str], progress: Progress | None = None) -> int:
        named = tuple(keys)
        for key in named:
            self.delete(key)
        if progress:
            progress(len(named))
        return len(named)

    def require_conditions(self) -> None:
        """Always holds here."""

    def _write(self, request: Request) -> Tag:
        self._answer(request)
        return Tag(tag_of(request.body))

    def _entries(self, verb: str, prefix: str) -> tuple[Entry, ...]:
        listed = self._answer(Request(verb, prefix)).value
        return tuple(Entry(key, size, 0) for key, size in listed)

    def _answer(self, request: Request) -> Answer:
        answer = self._ask(request)
        if answer.kind in _OUTCOMES:
            _refuse(request, answer)
        return answer


def _refuse(request: Request, answer: Answer) -> NoReturn:
    raise _OUTCOMES[answer.kind](request.key, answer.kind)
