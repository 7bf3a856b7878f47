"""A batch to publish: a catalog of three tables with one staged version each, copied for each try.

The versions are real ones: they were committed by pylance to a copy of the table, and brought back
under the name that a writer stages them by.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create
from tests.kit.catalogs import open_over
from tests.kit.stores import Crash, Fault, FaultyStore
from tests.maintenance.catalogs import home, location
from tiltyard import DirectoryNamespace
from tiltyard.maintenance.recovery import Recovered
from tiltyard.versions.base import NewVersion

TABLES = ("a", "b", "c")
NEW = pa.table({"id": [9], "name": ["zoe"]})
OTHER = pa.table({"id": [7], "name": ["eve"]})
BEFORE, AFTER = len(PEOPLE), len(PEOPLE) + 1


@dataclass
class Lake:
    """One catalog on disk, and the versions that are to be published in it."""

    root: Path
    properties: Mapping[str, Any]
    wanted: list[NewVersion]

    def open(self) -> DirectoryNamespace:
        return tiltyard.connect(self.root, **self.properties)

    def open_faulty(self) -> tuple[DirectoryNamespace, FaultyStore]:
        opened, store = open_over(
            lambda disk: FaultyStore(disk, bulk=1), root=self.root, **self.properties
        )
        store.require_conditions()
        return opened, store

    def copy(self, to: Path) -> Lake:
        shutil.copytree(self.root, to)
        return Lake(to, self.properties, self.wanted)

    def rows(self) -> list[int]:
        """How many rows each table has, as everybody sees them."""
        catalog = self.open()
        return [catalog.open_table([name]).count_rows() for name in TABLES]

    def uri(self, name: str) -> str:
        return str(home(self.open(), name))


Tries = Callable[[], Lake]


def lake(root: Path, *, manage: bool = False, **properties: Any) -> Lake:
    """Three tables, each with a version staged; with `manage` their versions are rows."""
    catalog = tiltyard.connect(root, **properties)
    for name in TABLES:
        create(catalog, name)
    if manage:
        catalog.versions.manage()
    return Lake(root, properties, [stage(root, location(catalog, name), name) for name in TABLES])


def stage(root: Path, directory: str, name: str) -> NewVersion:
    """The next version of a table, with one row more, ready to be published."""
    original, copy = root / directory, root.parent / f"copy of {directory}"
    shutil.copytree(original, copy)
    version = lance.write_dataset(NEW, str(copy), mode="append").version
    file = f"{2**64 - 1 - version:020d}.manifest"
    staged = f"{directory}/_versions/{file}-{uuid4()}"
    shutil.copy(copy / "_versions" / file, root / staged)
    for folder in ("data", "_transactions"):
        for made in (copy / folder).iterdir():
            if not (original / folder / made.name).exists():
                shutil.copy(made, original / folder)
    shutil.rmtree(copy)
    return NewVersion((name,), version, staged)


# -- cut off, and ended


def cut_off(tried: Lake, landed: int) -> None:
    """A batch of which so many versions have landed, and whose owner died then."""
    catalog, store = tried.open_faulty()
    store.plan(Fault.CRASH_BEFORE, verb="put_new", key="*/_versions/*", after=landed)
    with pytest.raises(Crash):
        catalog.services.batches.create_all(tried.wanted)


def recovered(tried: Lake) -> list[Recovered]:
    """One pass, by a process that comes after the crash; a second one must find nothing."""
    report = tried.open().health.recover(older_than=0)
    assert all(operation.outcome.is_final for operation in report), report
    again = tried.open()
    assert again.health.recover(older_than=0) == []
    assert again.services.recovery.sidecars.operations() == []
    return report


def is_usable(tried: Lake) -> None:
    """Every table can be written to and read as if nothing had happened."""
    before = tried.rows()
    catalog = tried.open()
    for name in TABLES:
        with catalog.services.access.change(catalog.services.access.find([name])) as dataset:
            dataset.insert(NEW)
    assert tried.rows() == [count + 1 for count in before]
