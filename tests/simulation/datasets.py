"""The twin of pylance: datasets with versions, tags and branches as plain objects.

A dataset behaves as Lance does where the protocols care. A commit looks at what came since the
dataset was opened, skips versions that are gone, stages a manifest and asks the namespace for the
next number. An update is built on the row that its writer has read and conflicts with other
updates; an append goes well with all but restores; a restore goes well with everything. So an
update that skipped another one loses it, and the newest version shows that.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field, replace
from typing import Any

from tests.simulation.files import decode_version
from tiltyard.catalog import names, version_files
from tiltyard.catalog.names import TableId
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    TableNotFoundError,
    TiltyardError,
    VersionBehindBoundaryError,
    translate,
)
from tiltyard.store import AlreadyThere, NotThere, Store, read_back
from tiltyard.versions.base import branch_location

ROOT = "/simulation"
UPDATE = "update"
APPEND = "append"
RESTORE = "restore"
BRANCH = "branch"
# How often Lance takes the next number after another was first.
TRIES = 2


class TwinLance:
    """What `catalog.pylance.Lance` is to the code, over the store of one actor."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    def uri(self, location: str) -> str:
        return names.uri(ROOT, location)

    def explain(self, error: Exception, doing: str) -> TiltyardError:
        return translate(error, doing)

    def open(self, location: str, version: int | str | None = None) -> Dataset:
        """The latest version, as the directory has it."""
        newest = version_files.latest(self.store, location)
        if newest is None:
            raise TableNotFoundError(f"{location} has no version")
        return Dataset(location, None, newest.version, {}, self)

    def open_through(
        self, client: Any, table: TableId, version: int | str | None = None
    ) -> Dataset:
        """The latest version, as the namespace has it."""
        location = client.describe_table({"id": list(table)}).location.removeprefix(f"{ROOT}/")
        return Dataset(location, None, 0, {}, self, client).checkout_version((None, None))

    def restore(self, dataset: Dataset, version: int) -> Dataset:
        return dataset.commit(RESTORE, restores=version)

    def manifest(self, key: str) -> dict[str, Any] | None:
        try:
            return decode_version(self.store.get(key).body)
        except NotThere:
            return None


@dataclass(frozen=True)
class Dataset:
    """A version of a branch that somebody has open. Commits go to the client."""

    table: str
    branch: str | None
    version: int
    manifest: dict[str, Any]
    lance: TwinLance = field(repr=False)
    client: Any = field(default=None, repr=False)
    transaction: str | None = None  # of its own commit

    @property
    def location(self) -> str:
        return branch_location(self.table, self.branch)

    def checkout_version(self, reference: tuple[str | None, int | None]) -> Dataset:
        """The latest version of a branch, as the namespace has it."""
        branch, _ = reference
        request = {"id": list(self.client.table_id), "descending": True, "limit": 1}
        asked = request if branch is None else {**request, "branch": branch}
        versions = self.client.list_table_versions(asked).versions
        if not versions:
            raise ConcurrentModificationError("there is no version to build on")
        key = names.from_store_path(ROOT, versions[0].manifest_path)
        manifest = self.lance.manifest(key)
        if manifest is None:
            raise ConcurrentModificationError("the version that was opened is gone")
        return replace(self, branch=branch, version=versions[0].version, manifest=manifest)

    # -- committing

    def commit(self, kind: str, restores: int | None = None) -> Dataset:
        for attempt in range(TRIES):
            try:
                return self._try(kind, restores)
            except VersionBehindBoundaryError:
                raise
            except ConcurrentModificationError:
                if attempt + 1 == TRIES:
                    raise
        raise AssertionError

    def _try(self, kind: str, restores: int | None) -> Dataset:
        uuid = new_uuid(self.lance.clock)
        request = self.stage(kind, uuid, restores)
        self.client.create_table_version(request)
        return replace(self, version=request["version"], transaction=uuid)

    def stage(self, kind: str, uuid: str, restores: int | None = None) -> dict[str, Any]:
        """Stage the manifest of a change, on top of what goes well with it; the request to make it
        a version."""
        files = {
            file.version: file for file in version_files.every(self.lance.store, self.location)
        }
        number = max(files, default=self.version) + 1
        newest = self.manifest
        for version in range(self.version + 1, number):
            between = self.lance.manifest(files[version].key) if version in files else None
            if between is None:
                continue  # Lance does not notice
            if _conflict(kind, self.manifest, between):
                raise ConcurrentModificationError(f"version {version} conflicts")
            newest = between
        if restores is not None:
            newest = {**self._version(restores), "restored_at": number}
        return self._stage(number, uuid, changed(kind, self.manifest, newest, uuid), restores)

    def _version(self, number: int) -> dict[str, Any]:
        manifest = self.lance.manifest(version_files.key_of(self.location, number))
        if manifest is None:
            raise ConcurrentModificationError(f"version {number} is gone")
        return manifest

    def _stage(
        self, number: int, uuid: str, body: dict[str, Any], restores: int | None = None
    ) -> dict[str, Any]:
        key = f"{version_files.key_of(self.location, number)}-{uuid}"
        manifest = {**body, "transaction": f"{self.version}-{uuid}.txn"}
        self.lance.store.put(key, encode(manifest, restores))
        request = {
            "id": list(self.client.table_id),
            "version": number,
            "manifest_path": names.store_path(ROOT, key),
        }
        return request if self.branch is None else {**request, "branch": self.branch}

    # -- tags and branches

    @property
    def tags(self) -> _Tags:
        return _Tags(f"{self.table}/{names.REFERENCES_DIRECTORY}/tags", self.lance)

    @property
    def branches(self) -> _Branches:
        return _Branches(f"{self.table}/{names.REFERENCES_DIRECTORY}/branches", self.lance)

    def create_branch(self, name: str, reference: tuple[str | None, int]) -> None:
        """A branch begins as a copy of its base, under the same number. Lance notes it last."""
        origin, number = reference
        base = {**replace(self, branch=origin)._version(number), "kind": BRANCH}
        branch = replace(self, branch=name, version=number)
        self.client.create_table_version(branch._stage(number, new_uuid(self.lance.clock), base))
        self.branches.create(name, {"parentBranch": origin, "parentVersion": number})


@dataclass(frozen=True)
class _References:
    """Small JSON files in one directory."""

    folder: str
    lance: TwinLance = field(repr=False)

    def read(self) -> dict[str, dict[str, Any]]:
        bodies = {}
        for entry in self.lance.store.list(self.folder).objects:
            if (body := self.lance.manifest(entry.key)) is not None:
                bodies[entry.name.removesuffix(".json")] = body
        return bodies

    def _key(self, name: str) -> str:
        return f"{self.folder}/{name}.json"


class _Tags(_References):
    def list(self) -> dict[str, dict[str, Any]]:
        return {
            name: {"version": tag["version"], "branch": tag["branch"]}
            for name, tag in self.read().items()
        }

    def create(self, name: str, reference: tuple[str | None, int]) -> None:
        branch, version = reference
        body = json.dumps({"branch": branch, "version": version}).encode()
        self.lance.store.put(self._key(name), body)

    update = create

    def delete(self, name: str) -> None:
        self.lance.store.delete(self._key(name))


class _Branches(_References):
    def create(self, name: str, body: dict[str, Any]) -> None:
        try:
            read_back.put_new(self.lance.store, self._key(name), json.dumps(body).encode())
        except AlreadyThere as taken:
            raise ConcurrentModificationError(f"branch {name} already exists") from taken

    def list(self) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "parent_branch": branch["parentBranch"],
                "parent_version": branch["parentVersion"],
            }
            for name, branch in self.read().items()
        }

    def delete(self, name: str) -> None:
        table = self.folder.partition("/")[0]
        self.lance.store.delete(self._key(name))
        keys = [entry.key for entry in self.lance.store.walk(branch_location(table, name))]
        self.lance.store.delete_many(keys)


def new_uuid(clock: Clock) -> str:
    """A name that Lance could have chosen; it still tells whose it is."""
    token = clock.token(6)
    return f"{ord(token[0]):08x}-0000-0000-0000-{token[1:]:0>12}"


def changed(kind: str, read: dict[str, Any], newest: dict[str, Any], uuid: str) -> dict[str, Any]:
    """What a version holds after a change that was built on what was read."""
    row, rows = newest.get("row", []), newest.get("rows", [])
    return {
        **newest,
        "kind": kind,
        "row": [*read.get("row", []), uuid] if kind == UPDATE else row,
        "rows": [*rows, uuid] if kind == APPEND else rows,
    }


def _conflict(kind: str, read: dict[str, Any], between: dict[str, Any]) -> bool:
    if kind == RESTORE:
        return False
    is_another = between["files"] != read["files"] or between.get("kind") == RESTORE
    return is_another or kind == between.get("kind") == UPDATE


# -- manifests that tell what they restore

_RESTORE_TAG = bytes([106 << 3 & 127 | 2 | 128, 106 >> 4])
_SECTION_TAG = bytes([23 << 3 & 127 | 128, 23 >> 4])


def encode(manifest: dict[str, Any], restores: int | None = None) -> bytes:
    """JSON; after that of a restore, where `versions.lance_format` finds it, the version."""
    body = json.dumps(manifest, separators=(",", ":")).encode()
    if restores is None:
        return body
    start = len(body) + 1
    transaction = _sized(_RESTORE_TAG + bytes([2, 8, restores]))
    section = _sized(_SECTION_TAG + _varint(start))
    footer = struct.pack("<qHH4s", start + len(transaction), 0, 0, b"LANC")
    return body + b"\n" + transaction + section + footer


def _sized(message: bytes) -> bytes:
    return struct.pack("<I", len(message)) + message


def _varint(number: int) -> bytes:
    return bytes([number & 127 | 128, number >> 7]) if number > 127 else bytes([number])
