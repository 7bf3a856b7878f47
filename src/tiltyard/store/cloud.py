"""The store in a bucket: S3, GCS or Azure, through obstore.

Each verb is one attempt. obstore's own retries are off, because a repeated conditional write
whose first answer was lost comes back as a conflict with itself; reads are repeated here, writes
by `settle`, which can tell the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import obstore
from obstore import exceptions as failures
from obstore.store import AzureStore, GCSStore, S3Store

from tiltyard.errors import InvalidInputError, TiltyardError, translate
from tiltyard.settings import Settings
from tiltyard.store import read_back
from tiltyard.store.base import (
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
from tiltyard.store.retry import Retry

T = TypeVar("T")

_BULK = 1_000
_AT_ONCE = 16

# Options that obstore takes for its HTTP client, under the names that Lance uses for them.
_CLIENT_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "default_content_type",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "timeout",
    "user_agent",
}
# Options that are Lance's own and mean nothing to a plain object store.
_LANCE_ONLY = {
    "download_retry_count",
    "client_max_retries",
    "client_retry_timeout",
    "object_store_cache_size",
}


class CloudStore:
    """Keys are relative to a prefix of one bucket."""

    def __init__(self, settings: Settings, retry: Retry | None = None) -> None:
        root = settings.root
        self._root = root
        self._secrets = settings.secrets
        self._retry = retry or Retry()
        self._prefix = prefix_of(root)
        self._store: Any = connected(settings)
        self._conditions_hold = False

    @property
    def url(self) -> str:
        return self._root

    def get(self, key: str, known: Tag | None = None) -> Blob:
        options: Any = {"if_none_match": known.e_tag} if known and known.e_tag else None

        def read() -> Blob:
            try:
                answer = obstore.get(self._store, self._path(key), options=options)
                return Blob(bytes(answer.bytes()), _tag(answer.meta))
            except failures.NotModifiedError as same:
                raise Unchanged(key) from same

        return self._reading(read, "read", key)

    def head(self, key: str) -> Entry:
        def look() -> Entry:
            return self._entry(obstore.head(self._store, self._path(key)))

        return self._reading(look, "read", key)

    def list(self, prefix: str = "") -> Listing:
        def look() -> Listing:
            answer = obstore.list_with_delimiter(self._store, self._path(prefix) or None)
            objects = sorted(map(self._entry, answer["objects"]), key=lambda entry: entry.key)
            names = (path.rstrip("/").rpartition("/")[2] for path in answer["common_prefixes"])
            return Listing(tuple(objects), tuple(sorted(names)))

        return self._reading(look, "list", prefix)

    def first(self, prefix: str) -> Entry | None:
        def look() -> Entry | None:
            # Keys come in order, so the first page has the answer; the stream asks for no other.
            for page in obstore.list(self._store, self._path(prefix), chunk_size=1):
                for meta in page:
                    return self._entry(meta)
            return None

        return self._reading(look, "list", prefix)

    def walk(self, prefix: str) -> Iterator[Entry]:
        after: str | None = None
        failed = 0
        while True:
            try:
                pages = obstore.list(self._store, self._path(prefix) or None, offset=after)
                for page in pages:
                    for meta in page:
                        after = meta["path"]
                        yield self._entry(meta)
                    failed = 0
                return
            except failures.BaseError as error:
                failed += 1
                problem = self._explain(error, "list", prefix)
                retryable = isinstance(problem, TiltyardError) and problem.retryable
                if not retryable or failed >= self._retry.attempts:
                    raise problem from error
                self._retry.pause(failed)

    def put_new(
        self, key: str, body: bytes, *, durable: bool = True, same_as: str | None = None
    ) -> Tag:
        return self._write(key, body, "create")

    def replace(self, key: str, body: bytes, tag: Tag) -> Tag:
        # obstore refuses None in a mode, so absent halves of the tag are left out.
        known = {name: value for name, value in tag._asdict().items() if value is not None}
        try:
            return self._write(key, body, known)
        except NotThere as missing:
            raise Changed(key, "it is gone") from missing
        except AlreadyThere as conflict:  # how obstore reads a 409, whatever was asked
            raise Changed(key, "another write was under way") from conflict

    def put(self, key: str, body: bytes, *, durable: bool = True) -> Tag:
        return self._reading(lambda: self._write(key, body, "overwrite"), "write", key)

    def put_many(self, bodies: Mapping[str, bytes]) -> None:
        if len(bodies) == 1:
            self.put(*next(iter(bodies.items())))
            return
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(self.put, bodies.keys(), bodies.values()):
                pass

    def move_many(self, moves: Mapping[str, str]) -> None:
        if len(moves) == 1:
            copied = [self._copy(*next(iter(moves.items())))]
        else:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                copied = [*pool.map(self._copy, moves.keys(), moves.values())]
        self.delete_many(key for key, there in zip(moves, copied, strict=True) if there)

    def _copy(self, old: str, new: str) -> bool:
        """Whether there was something to copy."""
        source, target = self._path(old), self._path(new)
        try:
            self._reading(lambda: obstore.copy(self._store, source, target), "copy", old)
        except NotThere:
            return False
        return True

    def delete(self, key: str) -> None:
        with suppress(NotThere):
            self._reading(lambda: obstore.delete(self._store, self._path(key)), "delete", key)

    def delete_many(self, keys: Iterable[str], progress: Progress | None = None) -> int:
        deleted = 0
        for batch in _batches(keys, _BULK):
            paths = [self._path(key) for key in batch]
            try:
                self._reading(partial(obstore.delete, self._store, paths), "delete", batch[0])
            except NotThere:  # Azure and GCS mind a missing one: then one by one
                for key in batch:
                    self.delete(key)
            deleted += len(batch)
            if progress:
                progress(deleted)
        return deleted

    def require_conditions(self) -> None:
        if not self._conditions_hold:
            read_back.probe(self)
            self._conditions_hold = True

    # -- one attempt, and what its failure means

    def _write(self, key: str, body: bytes, mode: Any) -> Tag:
        try:
            return _tag(
                obstore.put(self._store, self._path(key), body, mode=mode, use_multipart=False)
            )
        except failures.AlreadyExistsError as error:
            raise AlreadyThere(key) from error
        except failures.PreconditionError as error:
            raise Changed(key) from error
        except (failures.BaseError, FileNotFoundError, NotImplementedError) as error:
            problem = self._explain(error, "write", key)
            if isinstance(problem, TiltyardError) and problem.retryable:
                raise Ambiguous(key, problem.message) from error
            raise problem from error

    def _reading(self, request: Callable[[], T], verb: str, key: str) -> T:
        def attempt() -> T:
            try:
                return request()
            except (failures.BaseError, FileNotFoundError) as error:
                raise self._explain(error, verb, key) from error
            except Ambiguous as doubt:  # an unconditional write: repeating it settles the matter
                raise translate(TimeoutError(doubt.detail), f"{verb} {key}") from doubt

        return self._retry.reading(attempt)

    def _explain(self, error: Exception, verb: str, key: str) -> Exception:
        text = str(error)
        missing = isinstance(error, failures.NotFoundError | FileNotFoundError)
        if missing and "<Code>NoSuchBucket" not in text and "<Code>ContainerNotFound" not in text:
            return NotThere(key)
        return translate(error, f"{verb} {key or 'the root'} in {self._root}", self._secrets)

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}".strip("/") if self._prefix else key

    def _entry(self, meta: Any) -> Entry:
        path: str = meta["path"]
        modified: datetime = meta["last_modified"]
        key = path[len(self._prefix) + 1 :] if self._prefix else path
        return Entry(key, meta["size"], int(modified.timestamp() * 1000), _tag(meta))


def prefix_of(root: str) -> str:
    """The part of a root below its bucket."""
    return unquote(urlsplit(root).path).strip("/")


def connected(settings: Settings, retries: int = 0) -> Any:
    """obstore's own store of the bucket of a root. InvalidInputError for options it refuses."""
    client: dict[str, Any] = {}
    config: dict[str, Any] = {}
    for name, value in settings.storage.items():
        lowered = name.lower()
        if lowered in _CLIENT_OPTIONS:
            client[lowered] = value == "true" if value in ("true", "false") else value
        elif lowered not in _LANCE_ONLY:
            config[lowered] = value
    parts = urlsplit(settings.root)
    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    try:
        return kinds[parts.scheme](
            parts.netloc,
            config=config,
            client_options=client,
            retry_config={"max_retries": retries},
        )
    except (failures.BaseError, ValueError, TypeError) as error:
        problem = translate(error, "make a store of the storage.* properties", settings.secrets)
        raise InvalidInputError(problem.message) from error


def _tag(meta: Any) -> Tag:
    return Tag(meta.get("e_tag"), meta.get("version"))


def _batches(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
