"""What recoveries noted can be asked for, newest first."""

from __future__ import annotations

from pathlib import Path

import tiltyard
from tiltyard.clock import moment
from tiltyard.maintenance.settled import Settled
from tiltyard.maintenance.sidecars import write_audit
from tiltyard.store import open_store


def test_operations_that_were_ended_are_listed_and_what_is_not_understood_is_left_out(
    tmp_path: Path,
) -> None:
    catalog = tiltyard.connect(tmp_path)
    assert catalog.health.list_recovered() == []
    store = open_store(tiltyard.Settings.from_properties({"root": tmp_path}))
    for number in range(3):
        write_audit(
            store,
            f"op{number}",
            {
                "operation": f"op{number}",
                "kind": "batch",
                "outcome": "rolled back",
                "at_ms": 1000 * number,
                "by": "ada",
                "tables": [{"id": ["shop", "orders"]}],
                "detail": None,
            },
        )
    store.put("__audit/later.json", b'{"schema": 99}')
    found = catalog.health.list_recovered()
    assert sorted(each.operation for each in found) == ["op0", "op1", "op2"]
    assert (
        Settled("op2", "batch", "rolled back", moment(2000), "ada", (("shop", "orders"),)) in found
    )
    assert len(catalog.health.list_recovered(most=2)) <= 2
