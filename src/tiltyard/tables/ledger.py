"""Which source files were loaded into a table: kept by the table itself, as long as its rows are.

Every load is one commit. It brings the rows, and in the same commit the schema's metadata names the
head of the ledger: an object beside the data that lists the files of this load, and the objects
that list those of the loads before. Lance carries that metadata from version to version, so neither
compaction nor a clean-up of old versions forgets a file; a restored version has the ledger of its
own rows; an overwrite begins a new one. Objects are written before the commit that names them,
under names that are used once, and never change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lance.schema import LanceSchema

from tiltyard.errors import InvalidTableStateError
from tiltyard.store import NotThere, Store

HEAD = "tiltyard.loads"
FOLDER = "_loads"
FORMAT = 1
# A head that names more objects than this is written with everything in it.
MOST_PARTS = 32


class Loaded(NamedTuple):
    """One source file, in one state: its address, its bytes, and its ETag or time of change."""

    path: str
    size: int
    tag: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was loaded into one version of a table."""

    version: int = 0
    head: str | None = None
    parts: tuple[str, ...] = ()
    files: frozenset[Loaded] = field(default_factory=frozenset, repr=False)

    def has(self, file: Loaded) -> bool:
        return file in self.files


def read(store: Store, location: str, version: int, metadata: Mapping[bytes, bytes]) -> Ledger:
    """The ledger of a version with this metadata. One request for each object.

    InvalidTableStateError if one is missing: without it files could be loaded twice.
    """
    head = metadata.get(HEAD.encode())
    if head is None:
        return Ledger(version)
    name = head.decode()
    body = _get(store, location, name)
    files = set(map(_file, body["files"]))
    parts = tuple(body["parts"])
    with ThreadPoolExecutor(8) as pool:
        for part in pool.map(lambda name: _get(store, location, name), parts):
            files.update(map(_file, part["files"]))
    return Ledger(version, name, parts, frozenset(files))


def write(
    store: Store, location: str, before: Ledger, files: Sequence[Loaded], name: str
) -> Mapping[str, str]:
    """Write the head for a load of more files, and return the metadata that makes it count."""
    parts = (*before.parts, before.head) if before.head else ()
    listed: Iterable[Loaded] = files
    if len(parts) > MOST_PARTS:
        parts, listed = (), [*before.files, *files]
    body = {"format": FORMAT, "parts": list(parts), "files": [list(file) for file in listed]}
    store.put_new(_key(location, name), json.dumps(body).encode())
    return {HEAD: name}


def noted(schema: LanceSchema, notes: Mapping[str, str]) -> LanceSchema:
    """A schema whose metadata says something more. A schema pickles as its metadata, a JSON object
    of bytes, and its fields."""
    reduced: Any = schema.__reduce__()
    rebuild: Callable[..., LanceSchema] = reduced[0]
    metadata, *fields = reduced[1]
    said = {key: list(value.encode()) for key, value in notes.items()}
    return rebuild(json.dumps({**json.loads(metadata), **said}), *fields)


def _get(store: Store, location: str, name: str) -> dict[str, Any]:
    key = _key(location, name)
    try:
        body: dict[str, Any] = json.loads(store.get(key).body)
    except NotThere as missing:
        raise InvalidTableStateError(
            f"{key}, which tells what was loaded, is gone",
            hint="load into a new table, or pass again=True if the files may be loaded twice",
        ) from missing
    if body.get("format") != FORMAT:
        raise InvalidTableStateError(
            f"{key} is of a newer format than {FORMAT}", hint="upgrade tiltyard"
        )
    return body


def _file(entry: Sequence[Any]) -> Loaded:
    path, size, tag = entry
    return Loaded(path, size, tag)


def _key(location: str, name: str) -> str:
    return f"{location}/{FOLDER}/{name}.json"
