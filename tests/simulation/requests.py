"""Requests as values, and a store as a pure function: objects and a request in, objects and an
answer out. Tags are hashes of the content, as those of S3 are, so equal bodies have equal tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import md5
from typing import Any, NamedTuple

Objects = Mapping[str, bytes]

# Where the register twin keeps its rows, among the objects of the catalog.
REGISTER = "__manifest"

CONDITIONAL = ("put_new", "replace")
WRITES = (*CONDITIONAL, "put", "delete")


class Request(NamedTuple):
    """One request of an actor. A listing's key is its prefix."""

    verb: str
    key: str
    body: bytes = b""
    tag: str = ""

    @property
    def writes(self) -> bool:
        return self.verb in WRITES


class Answer(NamedTuple):
    """What an actor hears: a kind that says which exception it is, if it is one, and a value."""

    kind: str
    value: Any = None


DONE = Answer("done")
MISSING = Answer("missing")
EXISTS = Answer("exists")
CHANGED = Answer("changed")
DOUBT = Answer("doubt")


@lru_cache(maxsize=100_000)
def tag_of(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()[:12]


def serve(objects: Objects, request: Request) -> tuple[Objects, Answer]:
    """What an object store does, atomically. The given objects are left alone."""
    verb, key, body, tag = request
    if verb == "get":
        present = objects.get(key)
        return objects, MISSING if present is None else Answer("blob", present)
    if verb in ("list", "first", "walk"):
        return objects, _listed(objects, verb, key)
    if verb == "delete":
        if key not in objects:
            return objects, DONE
        return {name: value for name, value in objects.items() if name != key}, DONE
    if verb == "put_new" and key in objects:
        return objects, EXISTS
    if verb == "replace" and (key not in objects or tag_of(objects[key]) != tag):
        return objects, CHANGED
    return {**objects, key: body}, DONE


def _listed(objects: Objects, verb: str, prefix: str) -> Answer:
    start = f"{prefix}/" if prefix else ""
    keys = sorted(key for key in objects if key.startswith(start))
    if verb == "first":
        keys = keys[:1]
    if verb == "list":  # a directory is one entry, whatever is in it
        level = {start + key[len(start) :].partition("/")[0]: key for key in keys}
        return Answer(
            "entries",
            tuple(
                (name, len(objects[name])) if name in objects else (f"{name}/", 0) for name in level
            ),
        )
    return Answer("entries", tuple((key, len(objects[key])) for key in keys))
