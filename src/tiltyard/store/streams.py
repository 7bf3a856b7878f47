"""Files that are too large to hold: read from anywhere in them, and written piece by piece.

The store seam moves whole objects of a few bytes; sources that are loaded and tables that are
exported go through here. A file that is written is there when its stream is closed.
"""

from __future__ import annotations

import io
import os
from typing import Any, BinaryIO, Protocol, cast

from tiltyard.errors import translate
from tiltyard.settings import Settings

RETRIES = 10
READ_AHEAD = 4 * 1024 * 1024


class Streams(Protocol):
    """The files below one root."""

    def reader(self, key: str) -> BinaryIO:
        """A file to read, at any place."""

    def writer(self, key: str) -> BinaryIO:
        """A new file, in the place of whatever has its key."""


def open_streams(settings: Settings) -> Streams:
    """The files below a root. Touches nothing."""
    return _Disk(settings.root) if settings.is_local else _Bucket(settings)


class _Disk:
    def __init__(self, root: str) -> None:
        self._root = root

    def reader(self, key: str) -> BinaryIO:
        return open(os.path.join(self._root, key), "rb")

    def writer(self, key: str) -> BinaryIO:
        path = os.path.join(self._root, key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "wb")


class _Bucket:
    def __init__(self, settings: Settings) -> None:
        from tiltyard.store.cloud import connected, prefix_of

        self._settings = settings
        self._prefix = prefix_of(settings.root)
        self._store = connected(settings, RETRIES)

    def reader(self, key: str) -> BinaryIO:
        import obstore

        try:
            source = obstore.open_reader(self._store, self._path(key), buffer_size=READ_AHEAD)
        except Exception as error:
            raise translate(error, f"read {key}", self._settings.secrets) from error
        return cast(BinaryIO, io.BufferedReader(_Reader(source)))

    def writer(self, key: str) -> BinaryIO:
        import obstore

        sink = obstore.open_writer(self._store, self._path(key))
        return cast(BinaryIO, io.BufferedWriter(_Writer(sink)))

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}".strip("/")


class _Reader(io.RawIOBase):
    """What obstore reads, as Python's own files are read."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        view = memoryview(target)
        found = bytes(self._source.read(len(view)))
        view[: len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._source.seek(offset, whence))

    def tell(self) -> int:
        return int(self._source.tell())


class _Writer(io.RawIOBase):
    """What obstore writes, as Python's own files are written."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        body = bytes(data)
        self._sink.write(body)
        return len(body)

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._sink.close()
