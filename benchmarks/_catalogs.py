"""Catalogs to measure on: one manifest of any size, written as pylance leaves it, and a copy.

Ours and the peer's client each get a directory of their own, so each has its own history.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import lance.namespace
import lance_namespace as api
import pyarrow as pa

import tiltyard

V1: Mapping[str, str] = {"manifest_enabled": "false"}
V2: Mapping[str, str] = {"dir_listing_enabled": "false"}
COMPATIBILITY: Mapping[str, str] = {}

ROWS = pa.table({"id": pa.array([1, 2, 3])})


@dataclass(frozen=True)
class Pair:
    """The same catalog twice, open in our client and in the peer's."""

    ours: api.LanceNamespace
    theirs: api.LanceNamespace
    our_root: str
    their_root: str


def open_ours(
    root: str, mode: Mapping[str, str], storage: Mapping[str, str] | None = None
) -> api.LanceNamespace:
    return tiltyard.connect(root, **mode, **_prefixed(storage))


def open_theirs(
    root: str, mode: Mapping[str, str], storage: Mapping[str, str] | None = None
) -> api.LanceNamespace:
    kind: type[Any] = lance.namespace.DirectoryNamespace  # which has no types
    client: api.LanceNamespace = kind(root=root, **mode, **_prefixed(storage))
    return client


def _prefixed(storage: Mapping[str, str] | None) -> dict[str, str]:
    return {f"storage.{name}": value for name, value in (storage or {}).items()}


def table_name(number: int) -> str:
    return f"table_{number:06d}"


def pair(size: int, mode: Mapping[str, str] = V2, *, directories: bool = False) -> Pair:
    """A catalog of `size` tables; with `directories` every one lies at its V1 location.

    It is removed when the process ends: after many deletions ext4 takes ten times as long to make
    a file, for minutes, since it leaves numbers alone that were in use a moment ago.
    """
    top = Path(tempfile.mkdtemp(prefix="tiltyard-catalog-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    theirs, ours = top / "theirs", top / "ours"
    if directories:
        _make_directories(theirs, size)
    write_manifest(str(theirs), size, at_v1_locations=directories)
    shutil.copytree(theirs, ours)
    return Pair(open_ours(str(ours), mode), open_theirs(str(theirs), mode), str(ours), str(theirs))


def write_manifest(
    root: str,
    size: int,
    storage: Mapping[str, str] | None = None,
    *,
    at_v1_locations: bool = False,
) -> None:
    """Rows for `size` tables. The peer makes the first version and the last, so the layout is its
    own: one fragment."""
    peer = open_theirs(root, V2, storage)
    peer.create_namespace(api.CreateNamespaceRequest(id=["first"]))
    options = dict(storage or {}) or None
    manifest = lance.dataset(f"{root}/__manifest", storage_options=options)
    found = [table_name(number) for number in range(size)]
    columns = {
        "object_id": pa.array(found),
        "object_type": pa.array(["table"] * size),
        "location": pa.array(
            [
                f"{name}.lance" if at_v1_locations else f"{number:08x}_{name}"
                for number, name in enumerate(found)
            ]
        ),
        "metadata": pa.nulls(size, pa.string()),
        "base_objects": pa.nulls(size, manifest.schema.field("base_objects").type),
    }
    rows = pa.table(columns).cast(manifest.schema)
    lance.write_dataset(rows, manifest, mode="append", storage_options=options)
    peer.create_namespace(api.CreateNamespaceRequest(id=["last"]))


def _make_directories(root: Path, size: int) -> None:
    for number in range(size):
        versions = root / f"{table_name(number)}.lance" / "_versions"
        versions.mkdir(parents=True)
        (versions / "18446744073709551614.manifest").touch()


def ipc(data: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, data.schema) as writer:
        writer.write_table(data)
    return bytes(sink.getvalue())


# -- what both clients are asked to do

DATA = ipc(ROWS)


def declare(client: api.LanceNamespace, name: str) -> None:
    client.declare_table(api.DeclareTableRequest(id=[name]))


def create(client: api.LanceNamespace, name: str) -> None:
    client.create_table(api.CreateTableRequest(id=[name]), DATA)


def drop(client: api.LanceNamespace, name: str) -> None:
    client.drop_table(api.DropTableRequest(id=[name]))


def describe(client: api.LanceNamespace, name: str) -> None:
    client.describe_table(api.DescribeTableRequest(id=[name]))


def exists(client: api.LanceNamespace, name: str) -> None:
    client.table_exists(api.TableExistsRequest(id=[name]))


def create_namespace(client: api.LanceNamespace, name: str) -> None:
    client.create_namespace(api.CreateNamespaceRequest(id=[name]))


def list_tables(client: api.LanceNamespace, limit: int | None = None) -> list[str]:
    return client.list_tables(api.ListTablesRequest(id=[], limit=limit)).tables
