"""A reader that has begun finishes, whatever happens to its table meanwhile short of a purge."""

from __future__ import annotations

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.behaviours.calls import drop, exists, tables
from tests.behaviours.conftest import Reopen
from tests.behaviours.places import Place
from tests.behaviours.trash import status, trash
from tiltyard import DirectoryNamespace

FRAGMENTS = 4


def test_a_scan_goes_on_while_its_table_is_dropped_and_brought_back(
    catalog: DirectoryNamespace, reopen: Reopen, place: Place
) -> None:
    _check_scan(catalog, reopen, place, rows=200_000)


@pytest.mark.slow
def test_a_scan_of_four_million_rows_goes_on_while_its_table_is_dropped_and_brought_back(
    catalog: DirectoryNamespace, reopen: Reopen, place: Place
) -> None:
    _check_scan(catalog, reopen, place, rows=4_000_000)


def _check_scan(catalog: DirectoryNamespace, reopen: Reopen, place: Place, *, rows: int) -> None:
    _write(catalog, place, rows)
    other = reopen()
    assert isinstance(other, DirectoryNamespace)
    batches = catalog.open_table(["big"]).to_batches(batch_size=10_000, batch_readahead=1)
    acts = {
        rows // 10: lambda: drop(other, "big"),
        rows // 3: lambda: _is_dropped(other),
        rows // 2: lambda: other.undrop_table(["big"]),
        rows * 2 // 3: lambda: drop(other, "big"),
    }

    read = total = 0
    for batch in batches:
        read += batch.num_rows
        total += pc.sum(batch["id"]).as_py()
        for due in [rows_read for rows_read in acts if rows_read <= read]:
            acts.pop(due)()

    assert not acts
    assert read == rows
    assert total == rows * (rows - 1) // 2
    assert status(other, "big") == "soft_deleted"


def _write(catalog: DirectoryNamespace, place: Place, rows: int) -> None:
    answer = catalog.declare_table({"id": ["big"]})
    data = pa.table({"id": pa.array(range(rows), pa.int32())})
    lance.write_dataset(
        data,
        answer.location,
        max_rows_per_file=rows // FRAGMENTS,
        storage_options=place.storage_options or None,
    )


def _is_dropped(catalog: DirectoryNamespace) -> None:
    assert not exists(catalog, "big")
    assert tables(catalog) == []
    assert trash(catalog) == [("big",)]
