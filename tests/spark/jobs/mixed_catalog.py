"""A catalog of tables of many shapes, some of them broken, each in its own way."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import lance
import pyarrow as pa

import tiltyard
from tests.behaviours.calls import create, make_namespace
from tests.kit.catalogs import to_change
from tiltyard.catalog import names
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind

ROWS = 10


@dataclass
class MixedCatalog:
    """The catalog, the ids that each healthy table has, and which tables are broken."""

    root: Path
    catalog: tiltyard.DirectoryNamespace
    healthy: dict[str, Counter[int]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    @property
    def all_names(self) -> set[str]:
        return {*self.healthy, *self.broken}

    def must_have_all_rows(self) -> None:
        for name, expected in self.healthy.items():
            assert _ids(self.catalog.open_table(names.parse_dotted(name))) == expected, name


def make_mixed_catalog(root: Path, tables: int, broken: int = 10) -> MixedCatalog:
    """So many tables, the last of them broken."""
    made = MixedCatalog(root, tiltyard.connect(root))
    make_namespace(made.catalog, "prod")
    for number in range(tables):
        shape, name = _SHAPES[number % len(_SHAPES)]
        name = f"{name}{number:03}"
        if number < tables - broken:
            made.healthy[name] = _ids(shape(made, name))
        else:
            _scattered(made, name)
            made.broken.append(name)
    for number, name in enumerate(made.broken):
        table = names.parse_dotted(name)
        location = made.catalog.context.catalog.find(tuple(table)).location
        _DAMAGES[number % len(_DAMAGES)](made, table, root / location)
    return made


def _ids(dataset: lance.LanceDataset) -> Counter[int]:
    return Counter(dataset.to_table(columns=["id"])["id"].to_pylist())


def rows(start: int, count: int = ROWS) -> pa.Table:
    ids = range(start, start + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {number}" for number in ids]})


# -- shapes


def _one_file(made: MixedCatalog, name: str) -> lance.LanceDataset:
    create(made.catalog, *names.parse_dotted(name), data=rows(0))
    return made.catalog.open_table(names.parse_dotted(name))


def _scattered(made: MixedCatalog, name: str) -> lance.LanceDataset:
    _one_file(made, name)
    dataset = to_change(made.catalog, *names.parse_dotted(name))
    for number in range(1, 5):
        dataset.insert(rows(ROWS * number))
    return dataset


def _with_deletions(made: MixedCatalog, name: str) -> lance.LanceDataset:
    dataset = _scattered(made, name)
    dataset.delete("id % 3 = 0")
    return dataset


def _with_index(made: MixedCatalog, name: str) -> lance.LanceDataset:
    dataset = _scattered(made, name)
    dataset.create_scalar_index("id", "BTREE", name="by_id")
    dataset.insert(rows(1000))
    return dataset


def _empty(made: MixedCatalog, name: str) -> lance.LanceDataset:
    create(made.catalog, *names.parse_dotted(name), data=rows(0, 0))
    return made.catalog.open_table(names.parse_dotted(name))


_SHAPES: tuple[tuple[Callable[[MixedCatalog, str], lance.LanceDataset], str], ...] = (
    (_scattered, "scattered"),
    (_one_file, "prod.one"),
    (_with_deletions, "deleted"),
    (_with_index, "prod.indexed"),
    (_scattered, "prod.scattered"),
    (_empty, "empty"),
)


# -- ways to be broken


def _manifests(location: Path) -> list[Path]:
    """Newest first, by their names."""
    return sorted((location / "_versions").glob("*.manifest"))


def _data_file(location: Path) -> Path:
    return next((location / "data").glob("*.lance"))


def _without_a_data_file(made: MixedCatalog, table: list[str], location: Path) -> None:
    _data_file(location).unlink()


def _with_a_short_data_file(made: MixedCatalog, table: list[str], location: Path) -> None:
    file = _data_file(location)
    file.write_bytes(file.read_bytes()[:20])


def _with_a_garbled_data_file(made: MixedCatalog, table: list[str], location: Path) -> None:
    file = _data_file(location)
    file.write_bytes(b"\x00" * file.stat().st_size)


def _with_a_short_manifest(made: MixedCatalog, table: list[str], location: Path) -> None:
    newest = _manifests(location)[0]
    newest.write_bytes(newest.read_bytes()[:30])


def _with_a_garbled_manifest(made: MixedCatalog, table: list[str], location: Path) -> None:
    _manifests(location)[0].write_bytes(b"this is no manifest")


def _with_an_empty_manifest(made: MixedCatalog, table: list[str], location: Path) -> None:
    _manifests(location)[0].write_bytes(b"")


def _without_versions(made: MixedCatalog, table: list[str], location: Path) -> None:
    shutil.rmtree(location / "_versions")


def _without_data(made: MixedCatalog, table: list[str], location: Path) -> None:
    shutil.rmtree(location / "data")


def _under_a_strange_sidecar(made: MixedCatalog, table: list[str], location: Path) -> None:
    covered = CoveredTable(tuple(table), location.name, 5, 5, "of-nobody")
    made.catalog.services.recovery.sidecars.arm(OperationKind.BATCH, [covered])


def _with_a_directory_in_place_of_a_file(
    made: MixedCatalog, table: list[str], location: Path
) -> None:
    file = _data_file(location)
    file.unlink()
    file.mkdir()


_DAMAGES = (
    _without_a_data_file,
    _with_a_short_manifest,
    _under_a_strange_sidecar,
    _without_versions,
    _with_a_garbled_data_file,
    _with_a_garbled_manifest,
    _with_a_short_data_file,
    _with_an_empty_manifest,
    _without_data,
    _with_a_directory_in_place_of_a_file,
)
