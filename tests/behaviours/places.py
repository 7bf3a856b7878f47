"""Where a catalog lies, seen from outside: every file, and what tells its states apart."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

import obstore

from tests.kit.buckets import S3Server

Files = dict[str, tuple[object, ...]]


class Place(Protocol):
    """An address for a catalog, and the raw files below it."""

    root: str
    storage_options: dict[str, str]

    def files(self) -> Files:
        """Everything below the root, each with what changes when it is written."""

    def write(self, key: str, body: bytes) -> None: ...

    def read(self, key: str) -> bytes: ...

    def uri(self, key: str) -> str:
        """The address of a table below the root, as Lance takes it."""

    def key(self, uri: str) -> str:
        """The inverse of `uri`."""

    def below(self, name: str) -> Place:
        """A place of its own inside this one."""


@dataclass(frozen=True)
class Disk:
    root: str
    storage_options: dict[str, str] = field(default_factory=dict)

    def files(self) -> Files:
        # Folders count too: an empty one that is left behind is a leftover.
        files = {}
        for path in sorted(Path(self.root).rglob("*")):
            status = path.stat()
            files[str(path.relative_to(self.root))] = (
                (status.st_size, status.st_mtime_ns) if path.is_file() else ()
            )
        return files

    def write(self, key: str, body: bytes) -> None:
        path = Path(self.root, key)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def read(self, key: str) -> bytes:
        return Path(self.root, key).read_bytes()

    def uri(self, key: str) -> str:
        return os.path.join(self.root, key)

    def key(self, uri: str) -> str:
        return uri.removeprefix(f"{self.root}/")

    def below(self, name: str) -> Disk:
        return Disk(os.path.join(self.root, name))


@dataclass(frozen=True)
class Bucket:
    server: S3Server
    root: str

    @property
    def storage_options(self) -> dict[str, str]:
        return self.server.storage_options()

    @property
    def _prefix(self) -> str:
        return self.root.removeprefix(f"s3://{self.server.bucket}/")

    def files(self) -> Files:
        files = {}
        for page in obstore.list(self.server.store(), prefix=self._prefix):
            for entry in page:
                key = entry["path"].removeprefix(f"{self._prefix}/")
                files[key] = (entry["size"], entry["e_tag"], entry["last_modified"])
        return files

    def write(self, key: str, body: bytes) -> None:
        obstore.put(self.server.store(), f"{self._prefix}/{key}", body)

    def read(self, key: str) -> bytes:
        return bytes(obstore.get(self.server.store(), f"{self._prefix}/{key}").bytes())

    def uri(self, key: str) -> str:
        return f"{self.root}/{quote(key)}"

    def key(self, uri: str) -> str:
        return unquote(uri.removeprefix(f"{self.root}/"))

    def below(self, name: str) -> Bucket:
        return Bucket(self.server, f"{self.root}/{name}")
