"""The kinds of catalogs whose tables are maintained, and tables that need it."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa
from lance import blob_array, blob_field

from tests.behaviours.calls import create
from tests.kit.catalogs import to_change
from tiltyard import DirectoryNamespace
from tiltyard.clock import SYSTEM_CLOCK

DAY_MS = 86_400_000
LAKE = "lake"


@dataclass(frozen=True)
class Kind:
    name: str
    properties: Mapping[str, str] = field(default_factory=dict)
    managed: bool = False

    def __str__(self) -> str:
        return self.name


DIRECTORY = Kind("directory", {"manifest_enabled": "false"})
COMPATIBLE = Kind("compatible")
MANIFEST = Kind("manifest", {"dir_listing_enabled": "false"})
MANAGED = Kind("managed", {"dir_listing_enabled": "false"}, managed=True)
KINDS = (DIRECTORY, COMPATIBLE, MANIFEST, MANAGED)


class ManualClock:
    """The real time, and what the test adds to it."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return SYSTEM_CLOCK.now_ms() + self.ahead_ms

    def pass_days(self, days: float) -> None:
        self.ahead_ms += round(days * DAY_MS)


# -- tables


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {number}" for number in ids]})


def location(catalog: DirectoryNamespace, *id: str) -> str:
    return catalog.services.access.find(id).location


def home(catalog: DirectoryNamespace, *id: str) -> Path:
    """The directory of a table on disk."""
    return Path(catalog.context.settings.root) / location(catalog, *id)


def past(catalog: DirectoryNamespace, *id: str) -> lance.LanceDataset:
    """A table as a client has it that goes past the catalog."""
    return lance.dataset(catalog.context.lance.uri(location(catalog, *id)))


def to_version(catalog: DirectoryNamespace, name: str, version: int) -> lance.LanceDataset:
    return catalog.context.lance.open(location(catalog, name), version)


def scattered(catalog: DirectoryNamespace, name: str, fragments: int = 5) -> None:
    """A table of many small fragments, ten rows each."""
    create(catalog, name, data=rows(*range(10)))
    dataset = to_change(catalog, name)
    for number in range(1, fragments):
        dataset.insert(rows(*range(10 * number, 10 * number + 10)))


def rewritten(catalog: DirectoryNamespace, name: str, tag: str | None = None) -> None:
    """A table of ten versions, each with files of its own, and an index that lacks the last."""
    create(catalog, name, data=rows(*range(20)))
    dataset = to_change(catalog, name)
    dataset.create_scalar_index("id", "BTREE")
    if tag is not None:
        dataset.tags.create(tag, 1)
    for number in range(4):
        dataset.delete(f"id = {number}")
        dataset.insert(rows(100 + number))


def with_blobs(uri: Path, generation: str = "v2") -> tuple[lance.LanceDataset, list[bytes]]:
    """A table of four fragments with three blobs each, small, middling and large; and the blobs."""
    if generation == "v1":
        field = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
        column = pa.array
    else:
        field = blob_field("blob", inline_size_threshold=10, dedicated_size_threshold=1000)
        column = blob_array
    schema = pa.schema([pa.field("id", pa.int64()), field])
    bodies = [(b"%d" % number) * size for number in range(4) for size in (3, 300, 3000)]
    for first in range(0, 12, 3):
        own = column(bodies[first : first + 3])
        data = pa.table([pa.array(range(first, first + 3)), own], schema)
        mode = "append" if first else "create"
        dataset = lance.write_dataset(data, uri, mode=mode, data_storage_version="2.2")
    return dataset, bodies


def ids(dataset: lance.LanceDataset) -> Counter[int]:
    return Counter(dataset.to_table(columns=["id"])["id"].to_pylist())


def fragments(catalog: DirectoryNamespace, name: str) -> int:
    return len(catalog.open_table([name]).get_fragments())


# -- files


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def age(*paths: Path, days: float = 30) -> None:
    """Let everything below some paths be as old as that."""
    then = time.time() - days * DAY_MS / 1000
    for path in paths:
        for inside in [path, *path.rglob("*")]:
            os.utime(inside, (then, then))
