"""The inventory of a catalog by a job is that of its tables one by one."""

from __future__ import annotations

from pathlib import Path

import lance_namespace as api

from tests.spark.lake import Lake
from tiltyard.spark.jobs import inventory


def test_one_row_for_each_table_the_trash_and_the_broken_ones(lake: Lake) -> None:
    for number in range(3):
        lake.put(f"prod.t{number}", {"id": list(range(10))}, files=number + 1)
    lake.put("broken", {"id": [1]})
    lake.put("gone", {"id": [1]})
    lake.catalog.drop_table(api.DropTableRequest(id=["gone"]))
    for manifest in (Path(lake.root) / "broken.lance" / "_versions").glob("*.manifest"):
        manifest.write_bytes(b"?")

    rows = {row.table: row for row in inventory(lake.catalog, lake.spark).collect()}

    assert sorted(rows) == ["broken", "gone", "prod.t0", "prod.t1", "prod.t2"]
    assert [rows[f"prod.t{number}"].fragments for number in range(3)] == [1, 2, 3]
    for name in ("prod.t0", "prod.t2"):
        alone = lake.catalog.maintenance.inventory_table(name.split("."))
        row = rows[name]
        assert (row.rows, row.bytes, row.live_bytes) == (10, alone.bytes, alone.live_bytes)
    assert (rows["gone"].state, rows["gone"].trash_bytes > 0) == ("trash", True)
    assert (rows["broken"].state, rows["broken"].error is None) == ("unknown", False)

    versions = inventory(lake.catalog, lake.spark, namespace="prod", versions=True).collect()
    assert [(row.table, row.version) for row in versions] == [
        ("prod.t0", 1),
        ("prod.t1", 1),
        ("prod.t1", 2),
        ("prod.t2", 1),
        ("prod.t2", 2),
        ("prod.t2", 3),
    ]
