"""The kinds of catalogs whose tables are maintained, and tables that need it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa

from tests.behaviours.calls import create
from tests.kit.catalogs import to_change
from tiltyard import DirectoryNamespace
from tiltyard.clock import SYSTEM_CLOCK

DAY_MS = 86_400_000


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


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {each}" for each in ids]})


def to_version(catalog: DirectoryNamespace, name: str, version: int) -> lance.LanceDataset:
    return catalog.context.lance.open(catalog.context.catalog.find((name,)).location, version)


def scattered(catalog: DirectoryNamespace, name: str, fragments: int = 5) -> None:
    """A table of many small fragments, ten rows each."""
    create(catalog, name, data=rows(*range(10)))
    dataset = to_change(catalog, name)
    for number in range(1, fragments):
        dataset.insert(rows(*range(10 * number, 10 * number + 10)))


def ids(dataset: lance.LanceDataset) -> Counter[int]:
    return Counter(dataset.to_table(columns=["id"])["id"].to_pylist())


def fragments(catalog: DirectoryNamespace, name: str) -> int:
    return len(catalog.open_table([name]).get_fragments())


def files(root: Path) -> set[str]:
    return {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}
