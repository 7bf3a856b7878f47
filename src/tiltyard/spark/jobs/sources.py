"""Source files of a load: found by a path, a folder or a pattern, on a disk or in a bucket.

A file is known by its address, its size and its ETag or, on a disk, the time of its last change: a
file that was replaced is another one.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import BinaryIO, cast

import pyarrow as pa

from tiltyard.errors import InvalidInputError
from tiltyard.settings import STORAGE_PREFIX, Settings
from tiltyard.store import Entry, NotThere, Store, open_store
from tiltyard.store.streams import Streams, open_streams
from tiltyard.tables.ledger import Loaded


class Format(StrEnum):
    """What source files hold, and exported ones."""

    PARQUET = "parquet"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


_ENDINGS = {
    "parquet": Format.PARQUET,
    "pq": Format.PARQUET,
    "csv": Format.CSV,
    "json": Format.JSON,
    "jsonl": Format.JSON,
    "ndjson": Format.JSON,
    "arrow": Format.ARROW,
    "ipc": Format.ARROW,
    "feather": Format.ARROW,
}
_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
_PATTERN = re.compile(r"[*?\[]")


def format_named(name: str) -> Format:
    """A format by its name. InvalidInputError."""
    try:
        return Format(name.lower())
    except ValueError:
        known = ", ".join(Format)
        raise InvalidInputError(f"unknown format {name!r}", hint=f"one of {known}") from None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file: where it lies, below which root, and what identifies its state."""

    root: str
    key: str
    size: int
    tag: str
    format: Format

    @property
    def path(self) -> str:
        return f"{self.root}/{self.key}"

    @property
    def identity(self) -> Loaded:
        return Loaded(self.path, self.size, self.tag)

    def open(self, storage: Mapping[str, str]) -> BinaryIO:
        """The file to read, decompressed as its name says."""
        streams = _opened(self.root, tuple(sorted(storage.items())))[1]
        file = streams.reader(self.key)
        codec = _CODECS.get(self.key.rpartition(".")[2].lower())
        return file if codec is None else cast(BinaryIO, pa.CompressedInputStream(file, codec))

    def must_be_unchanged(self, storage: Mapping[str, str]) -> None:
        """InvalidInputError if the file is another since it was found. One request."""
        store = _opened(self.root, tuple(sorted(storage.items())))[0]
        try:
            entry = store.head(self.key)
        except NotThere:
            raise InvalidInputError(f"{self.path} was removed while it was read") from None
        if (entry.size, _tag(entry)) != (self.size, self.tag):
            raise InvalidInputError(
                f"{self.path} changed while it was read", hint="the next run reads it again"
            )


def find(
    paths: str | Sequence[str], storage: Mapping[str, str], format: Format | None = None
) -> list[SourceFile]:
    """The files that paths, folders and patterns name, each once, sorted.

    Names that begin with `_` or `.` count only if they are given. InvalidInputError for a path that
    names nothing, and for a file of which nothing tells the format.
    """
    by_path: dict[str, SourceFile] = {}
    for path in [paths] if isinstance(paths, str) else paths:
        files = list(_find(path, storage, format))
        if not files:
            raise InvalidInputError(f"there is no file at {path!r}")
        by_path.update({file.path: file for file in files})
    return [by_path[path] for path in sorted(by_path)]


def _find(path: str, storage: Mapping[str, str], format: Format | None) -> Iterator[SourceFile]:
    head, bucket, rest = _split(path)
    parts = [part for part in rest.split("/") if part]
    fixed = next((at for at, part in enumerate(parts) if _PATTERN.search(part)), len(parts))
    is_pattern = fixed < len(parts)
    above = parts[: fixed if is_pattern else max(0, len(parts) - 1)]
    root = "/".join([f"{head}{bucket}".rstrip("/"), *above]) or "/"
    settings = _settings(root, storage)
    store = open_store(settings)
    wanted = parts[len(above) :]
    for entry in _entries(store, wanted) if is_pattern else _below(store, wanted):
        kind = format or _format_of(entry, settings.root)
        yield SourceFile(settings.root, entry.key, entry.size, _tag(entry), kind)


def _split(path: str) -> tuple[str, str, str]:
    """The scheme, the bucket, and the path inside of it."""
    if "://" in path and not path.startswith("file://"):
        scheme, _, rest = path.partition("://")
        bucket, _, inside = rest.partition("/")
        return f"{scheme}://", bucket, inside
    settings = Settings.from_properties({"root": path})
    return "/", "", settings.root


def _settings(root: str, storage: Mapping[str, str]) -> Settings:
    is_bucket = "://" in root
    options = {f"{STORAGE_PREFIX}{key}": value for key, value in storage.items()}
    return Settings.from_properties({"root": root, **(options if is_bucket else {})})


def _below(store: Store, parts: Sequence[str]) -> Iterable[Entry]:
    """One file, or everything in a folder."""
    key = "/".join(parts)
    if key:
        try:
            return [store.head(key)]
        except NotThere:
            pass
    return (entry for entry in store.walk(key) if _is_plain(entry.key[len(key) :]))


def _entries(store: Store, parts: Sequence[str]) -> Iterator[Entry]:
    """What a pattern names; `**` stands for any folders."""
    pieces = ["(?:[^/]+/)*" if part == "**" else f"{_piece(part)}/" for part in parts]
    pattern = re.compile("".join(pieces).removesuffix("/"), re.DOTALL)
    for entry in store.walk(""):
        if pattern.fullmatch(entry.key) and _is_plain(entry.key):
            yield entry


def _piece(part: str) -> str:
    """A pattern of one name. `fnmatch` would let a star go past a slash."""
    translated = fnmatch.translate(part)
    return translated.removeprefix("(?s:").removesuffix(r")\Z").replace(".*", "[^/]*")


def _is_plain(key: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in key.split("/") if part)


def _format_of(entry: Entry, root: str) -> Format:
    endings = entry.name.lower().split(".")[1:]
    if endings and endings[-1] in _CODECS:
        endings.pop()
    if endings and endings[-1] in _ENDINGS:
        return _ENDINGS[endings[-1]]
    raise InvalidInputError(
        f"nothing tells the format of {root}/{entry.key}", hint="pass the format, like parquet"
    )


def _tag(entry: Entry) -> str:
    """Azure puts an ETag in quotes when asked for one object, and not in a listing."""
    e_tag = None if entry.tag is None else entry.tag.e_tag
    return str(entry.modified_ms) if e_tag is None else e_tag.strip('"')


@lru_cache(maxsize=32)
def _opened(root: str, storage: tuple[tuple[str, str], ...]) -> tuple[Store, Streams]:
    settings = _settings(root, dict(storage))
    return open_store(settings), open_streams(settings)
