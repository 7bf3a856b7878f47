"""A whole day of work with pylance's and lancedb's own clients on a catalog that tracks versions:
everything a user does to a table, one after the other, each seen by the other client."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import lance
import lancedb
import numpy as np
import pyarrow as pa
import pytest
from lancedb.table import Table

import tiltyard
from tests.behaviours.calls import drop, exists
from tests.behaviours.modes import COMPATIBILITY, MANAGED, MANAGED_COMPATIBILITY, V1, V2, Mode
from tests.behaviours.places import Place
from tests.behaviours.test_versions import _versions
from tests.peers.clients import properties
from tiltyard import DirectoryNamespace

TABLE = "people"
WIDTH = 8


def _rows(first: int, last: int, name: str = "n") -> pa.Table:
    numbers = range(first, last)
    vectors = np.array([[number + 0.5] * WIDTH for number in numbers], "f4").reshape(-1)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"{name}{number}" for number in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors), WIDTH),
        }
    )


class Client(Protocol):
    """What both clients can do, each in its own words. A method opens the table by its name."""

    def create(self, rows: pa.Table) -> None: ...
    def append(self, rows: pa.Table) -> None: ...
    def update(self, where: str, name: str) -> None: ...
    def delete(self, where: str) -> None: ...
    def merge(self, rows: pa.Table) -> None: ...
    def index(self) -> None: ...
    def nearest(self, value: float) -> int: ...
    def tag(self, name: str, version: int) -> None: ...
    def count(self, version: int | str | None = None) -> int: ...
    def compact(self) -> None: ...
    def restore(self, version: int) -> None: ...


class Pylance:
    def __init__(self, catalog: DirectoryNamespace, opened: dict[str, str]) -> None:
        self._table = {"namespace_client": catalog, "table_id": [TABLE]}

    def _open(self, version: int | str | None = None) -> lance.LanceDataset:
        return lance.dataset(**self._table, version=version)

    def create(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, **self._table)

    def append(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, mode="append", **self._table)

    def update(self, where: str, name: str) -> None:
        self._open().update({"name": f"'{name}'"}, where=where)

    def delete(self, where: str) -> None:
        self._open().delete(where)

    def merge(self, rows: pa.Table) -> None:
        merging = self._open().merge_insert("id")
        merging.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def index(self) -> None:
        self._open().create_scalar_index("id", "BTREE")

    def nearest(self, value: float) -> int:
        query = {"column": "vector", "q": np.full(WIDTH, value, "f4"), "k": 1}
        found: list[int] = self._open().to_table(nearest=query)["id"].to_pylist()
        return found[0]

    def tag(self, name: str, version: int) -> None:
        self._open().tags.create(name, version)

    def count(self, version: int | str | None = None) -> int:
        rows: int = self._open(version).count_rows()
        return rows

    def compact(self) -> None:
        self._open().optimize.compact_files()

    def restore(self, version: int) -> None:
        self._open(version).restore()


class Lancedb:
    def __init__(self, catalog: DirectoryNamespace, opened: dict[str, str]) -> None:
        self._options = {
            name.removeprefix("storage."): value
            for name, value in opened.items()
            if name.startswith("storage.")
        } or None
        self._database = lancedb.connect_namespace(
            "tiltyard.DirectoryNamespace", opened, storage_options=self._options
        )

    def _open(self) -> Table:
        return self._database.open_table(TABLE, storage_options=self._options)

    def create(self, rows: pa.Table) -> None:
        self._database.create_table(TABLE, rows)

    def append(self, rows: pa.Table) -> None:
        self._open().add(rows)

    def update(self, where: str, name: str) -> None:
        self._open().update(where=where, values={"name": name})

    def delete(self, where: str) -> None:
        self._open().delete(where)

    def merge(self, rows: pa.Table) -> None:
        merging = self._open().merge_insert("id")
        merging.when_matched_update_all().when_not_matched_insert_all().execute(rows)

    def index(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._open().create_scalar_index("id")

    def nearest(self, value: float) -> int:
        found: list[dict[str, Any]] = self._open().search([value] * WIDTH).limit(1).to_list()
        nearest: int = found[0]["id"]
        return nearest

    def tag(self, name: str, version: int) -> None:
        self._open().tags.create(name, version)

    def count(self, version: int | str | None = None) -> int:
        table = self._open()
        if version is not None:
            table.checkout(version)
        return table.count_rows()

    def compact(self) -> None:
        self._open().optimize()

    def restore(self, version: int) -> None:
        self._open().restore(version)


CLIENTS = {"pylance": Pylance, "lancedb": Lancedb}
# Two days are for every run, all of them for the long one.
FAST = (("pylance", COMPATIBILITY, "disk"), ("lancedb", V1, "disk"))
DAYS = [
    pytest.param(
        kind,
        mode,
        place,
        id=f"{kind}-{mode}-{place}",
        marks=[
            *([] if (kind, mode, place) in FAST else [pytest.mark.slow]),
            *([pytest.mark.servers] if place == "s3" else []),
        ],
    )
    for kind in CLIENTS
    for mode in (V1, V2, COMPATIBILITY, MANAGED, MANAGED_COMPATIBILITY)
    for place in ("disk", "s3")
]


@pytest.mark.filterwarnings("ignore:create_scalar_index is deprecated")
@pytest.mark.parametrize(("kind", "mode", "place"), DAYS, indirect=["mode", "place"])
def test_a_whole_day(kind: str, mode: Mode, place: Place) -> None:
    opened = {
        **properties(mode, place),
        "table_version_tracking_enabled": "true",
        "vend_input_storage_options": "true",
    }
    catalog = tiltyard.DirectoryNamespace(**opened)
    if mode.manages_versions:
        catalog.versions.manage()
    mine: Client = CLIENTS[kind](catalog, opened)
    (other,) = (each(catalog, opened) for name, each in CLIENTS.items() if name != kind)

    mine.create(_rows(0, 50))
    mine.append(_rows(50, 100))
    assert other.count() == 100
    mine.update("id = 3", "three")
    mine.delete("id = 4")
    mine.merge(_rows(95, 105, "m"))
    assert other.count() == 104
    assert mine.nearest(42.4) == other.nearest(42.4) == 42

    mine.index()
    mine.tag("morning", 2)
    assert mine.count("morning") == other.count("morning") == 100
    assert mine.count(1) == other.count(1) == 50
    before = _versions(catalog)
    assert before == list(range(1, max(before) + 1))

    mine.compact()
    other.append(_rows(105, 110))
    assert mine.count() == 109
    mine.restore(2)
    assert mine.count() == other.count() == 100
    assert _names(catalog) == [f"n{each}" for each in range(100)]

    drop(catalog, TABLE)
    assert not exists(catalog, TABLE)
    catalog.undrop_table([TABLE])
    mine.append(_rows(200, 201))
    assert mine.count() == other.count() == 101
    assert other.count("morning") == 100
    assert len(_versions(catalog)) >= len(before) + 3


def _names(catalog: DirectoryNamespace) -> list[str]:
    found = catalog.open_table([TABLE]).to_table(columns=["id", "name"]).sort_by("id")
    names: list[str] = found["name"].to_pylist()
    return names
