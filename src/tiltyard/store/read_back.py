"""Conditional writes brought to a certain end on any store.

A lost answer leaves doubt whether the write happened, and S3 answers 409 to a racing write as if
the object existed. Both are settled by reading back: the body of a conditional write is unique
(it carries a nonce), so finding it means that the write was ours.
"""

from __future__ import annotations

from uuid import uuid4

from tiltyard.errors import (
    ServiceUnavailableError,
    StoreCannotCompareAndSwapError,
    UnsupportedOperationError,
)
from tiltyard.store.base import AlreadyThere, Ambiguous, Blob, Changed, NotThere, Store, Tag
from tiltyard.store.retry import Retry

PROBES = "__probe"


def put_new(
    store: Store,
    key: str,
    body: bytes,
    retry: Retry | None = None,
    *,
    durable: bool = True,
    same_as: str | None = None,
) -> Tag:
    """Create an object whose body only we can have made. AlreadyThere if another was first.

    One request; two when the name is taken or the answer is lost.
    """
    retry = retry or Retry()
    doubtful = False
    for attempt in range(retry.attempts):
        try:
            return store.put_new(key, body, durable=durable, same_as=same_as)
        except (AlreadyThere, Ambiguous) as outcome:
            doubtful = doubtful or isinstance(outcome, Ambiguous)
        found = _read(store, key)
        if found is not None:
            if found.body == body:
                return found.tag
            if doubtful:
                raise Ambiguous(key, "an answer was lost, and the object has changed since")
            raise AlreadyThere(key)
        retry.pause(attempt)
    raise _gave_up(key, retry, doubtful)


def replace(store: Store, key: str, body: bytes, tag: Tag, retry: Retry | None = None) -> Tag:
    """Swap an object for a body that only we can have made. Changed if another was first.

    One request; two when it has changed or the answer is lost.
    """
    retry = retry or Retry()
    doubtful = False
    for attempt in range(retry.attempts):
        try:
            return store.replace(key, body, tag)
        except (Changed, Ambiguous) as outcome:
            doubtful = doubtful or isinstance(outcome, Ambiguous)
        found = _read(store, key)
        if found is not None and found.body == body:
            return found.tag
        if found is None or found.tag != tag:
            if doubtful:
                raise Ambiguous(key, "an answer was lost, and the object has changed since")
            raise Changed(key)
        retry.pause(attempt)
    raise _gave_up(key, retry, doubtful)


def probe(store: Store) -> None:
    """Refuse a store that ignores conditions, before anything depends on them. Five requests."""
    key = f"{PROBES}/{uuid4().hex}"
    first, second, third = (uuid4().hex.encode() for _ in range(3))
    try:
        tag = store.put_new(key, first)
        _must_refuse(store, "create-if-absent", lambda: store.put_new(key, second))
        store.replace(key, second, tag)
        _must_refuse(store, "compare-and-swap", lambda: store.replace(key, third, tag))
    except StoreCannotCompareAndSwapError:
        raise
    except UnsupportedOperationError as refusal:
        raise StoreCannotCompareAndSwapError(
            f"{store.url} can't hold a catalog: {refusal.message}",
            hint="racing writers would overwrite each other; use a store with conditional writes",
        ) from refusal
    except Ambiguous as doubt:
        raise ServiceUnavailableError(f"could not try out {store.url}: {doubt.detail}") from doubt
    finally:
        store.delete(key)


def _must_refuse(store: Store, ability: str, write: object) -> None:
    try:
        write()  # type: ignore[operator]
    except (AlreadyThere, Changed):
        return
    raise StoreCannotCompareAndSwapError(
        f"{store.url} can't hold a catalog: it silently ignores the condition of a {ability}",
        hint="racing writers would overwrite each other; use a store with conditional writes",
    )


def _read(store: Store, key: str) -> Blob | None:
    try:
        return store.get(key)
    except NotThere:
        return None


def _gave_up(key: str, retry: Retry, doubtful: bool) -> Exception:
    detail = f"no clear answer in {retry.attempts} tries"
    if doubtful:
        return Ambiguous(key, detail)
    return ServiceUnavailableError(f"could not write {key}: {detail}")
