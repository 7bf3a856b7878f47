"""The store seam: the few verbs through which everything else touches raw objects.

Keys are relative to the root of a catalog, `/`-separated, and mean the same on every backend. A
"directory" is a prefix under which at least one object lies; empty directories do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable


class Tag(NamedTuple):
    """What identifies one state of one object for a compare-and-swap.

    S3 and Azure swap by `e_tag`; GCS by `version` (its generation), which a listing doesn't return.
    """

    e_tag: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One object as a listing or a HEAD shows it. A local listing has no tag: it reads no bytes."""

    key: str
    size: int
    modified_ms: int
    tag: Tag | None = None

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of an object, and the tag that a later `replace` needs."""

    body: bytes
    tag: Tag


@dataclass(frozen=True, slots=True)
class Listing:
    """One level below a prefix: the objects and the names of the directories, each sorted."""

    objects: tuple[Entry, ...]
    directories: tuple[str, ...]


class Outcome(Exception):
    """What a store says instead of "done". Whether that is an error is for the caller to say."""

    def __init__(self, key: str, detail: str = "") -> None:
        super().__init__(key, detail)
        self.key = key
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.key}: {self.detail}" if self.detail else self.key


class NotThere(Outcome):
    """No object has this key."""


class Unchanged(Outcome):
    """`get` found the object in the state that the caller knows already."""


class AlreadyThere(Outcome):
    """`put_new` found an object with this key; it was left alone."""


class Changed(Outcome):
    """`replace` found another state than the one it was given; it was left alone."""


class Ambiguous(Outcome):
    """The write may or may not have happened, or may still happen later. Look before going on."""


Progress = Callable[[int], None]


@runtime_checkable
class Store(Protocol):
    """Every backend passes one conformance suite (tests/store). Failures other than the outcomes
    above are raised as the errors of `tiltyard.errors`."""

    @property
    def url(self) -> str:
        """Where the root is, for people."""

    def get(self, key: str, known: Tag | None = None) -> Blob:
        """Read an object, unless it is in a state that is `known`. One request.

        NotThere, Unchanged.
        """

    def head(self, key: str) -> Entry:
        """Look at an object without its bytes. One request. NotThere."""

    def list(self, prefix: str = "") -> Listing:
        """One level below `prefix`, objects and directories. One request per 1,000 entries."""

    def first(self, prefix: str) -> Entry | None:
        """The first object below `prefix` by key. One request, however many there are."""

    def walk(self, prefix: str) -> Iterator[Entry]:
        """Every object below `prefix`, at any depth, lazily. One request per 1,000 objects."""

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        """Create an object if no other has this key, atomically. One request.

        `durable=False` is for what lasts no longer than other files anyway. `same_as` is an object
        that nobody writes to any more and that has this body; a disk can give it the key as a
        second name and write nothing. AlreadyThere, Ambiguous.
        """

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        """Swap an object if it is still in the state `tag`, atomically. One request.

        Changed, also for an object that is gone. Ambiguous.
        """

    def put(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        """Write an object whatever was there, atomically. One request.

        Only for keys whose bytes nobody else decides. `durable=False` is for what may as well be
        missing after a power cut.
        """

    def put_many(self, bodies: Mapping[str, bytes]) -> None:
        """Write notes of a few bytes, side by side where that is faster. One request each.

        On a disk neither durable nor atomic, so only for what is never written twice.
        """

    def move_many(self, moves: Mapping[str, str]) -> None:
        """Give objects other keys, whatever was there; a missing one is fine. One request each, and
        bulk requests.

        Only for keys whose bytes nobody else decides. An object is whole under its new key before
        it goes from the old one, as durable as it was, and counts as written now.
        """

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is fine. One request."""

    def delete_many(self, keys: Iterable[str], progress: Progress | None = None) -> int:
        """Remove objects in bulk requests and return how many were named; missing ones are fine."""

    def require_conditions(self) -> None:
        """Find out, once per store, whether conditional writes hold; refuse the store if not."""
