"""What recoveries did can be listed, newest first."""

from __future__ import annotations

from pathlib import Path

from tests.kit.catalogs import open_over
from tiltyard.clock import SYSTEM_CLOCK, Clock, moment
from tiltyard.maintenance.recovery_log import RecoveryRecord, Resolution, write_record
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind, Sidecar, SidecarState


def test_operations_that_were_ended_are_listed_and_what_is_not_understood_is_left_out(
    tmp_path: Path,
) -> None:
    clock = Clock(lambda: 2000, SYSTEM_CLOCK.token)
    catalog, store = open_over(lambda disk: disk, clock=clock, root=tmp_path, actor="ada")
    assert catalog.health.list_recovered() == []
    orders = CoveredTable(("shop", "orders"), "0123abcd_shop$orders", 4, 4, "uuid")
    for number in range(3):
        sidecar = Sidecar(
            f"op{number}", OperationKind.BATCH, "bo", 0, SidecarState.ABORTED, "nonce", (orders,)
        )
        write_record(catalog.context, sidecar, Resolution.BACK, ["landed"], None)
    store.put("__audit/later.json", b'{"schema": 99}')
    records = catalog.health.list_recovered()
    assert sorted(record.operation for record in records) == ["op0", "op1", "op2"]
    assert (
        RecoveryRecord("op2", "batch", "rolled back", moment(2000), "ada", (("shop", "orders"),))
        in records
    )
    assert len(catalog.health.list_recovered(most=2)) <= 2
