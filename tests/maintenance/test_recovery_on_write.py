"""A write ends what crashes have left, or keeps off; what is refused or not understood stays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import lance
import pytest

from tests.behaviours.calls import create
from tests.kit.catalogs import open_over
from tests.maintenance.batch import (
    AFTER,
    BEFORE,
    NEW,
    Lake,
    cut_off,
    recovered,
)
from tiltyard import DirectoryNamespace, TiltyardError
from tiltyard.clock import SYSTEM_CLOCK, Clock, moment
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.maintenance.recovery_log import RecoveryRecord, Resolution, write_record
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind, Sidecar, SidecarState
from tiltyard.tables import fragments


def _insert(catalog: DirectoryNamespace, name: str) -> None:
    with catalog.services.access.change(catalog.services.access.find([name])) as dataset:
        dataset.insert(NEW)


def test_the_first_write_of_a_client_ends_what_is_old(
    fresh: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(fresh, 1)
    monkeypatch.setattr("tiltyard.maintenance.recovery.RECOVERY_MIN_AGE_MS", 0)
    catalog = fresh.open()
    _insert(catalog, "b")
    assert fresh.rows() == [AFTER, AFTER + 1, AFTER]
    assert recovered(fresh) == []


def test_a_write_keeps_off_what_another_may_be_at(fresh: Lake) -> None:
    cut_off(fresh, 1)
    catalog = fresh.open()
    with pytest.raises(ConcurrentModificationError, match="has not ended") as refused:
        _insert(catalog, "b")
    assert refused.value.retryable
    with pytest.raises(ConcurrentModificationError):
        catalog.services.recovery.require_uncovered([("b",)])
    fresh.open().health.recover(older_than=0)
    _insert(catalog, "b")


def _create(catalog: DirectoryNamespace) -> None:
    create(catalog, "b", mode="overwrite")


def _write_in_halves(catalog: DirectoryNamespace) -> None:
    pending = catalog.writes.begin(["b"], "append")
    catalog.writes.finish(pending, fragments.write(pending, NEW.to_reader()), NEW.schema)


@pytest.mark.parametrize("write", [_create, _write_in_halves])
def test_every_way_to_write_keeps_off_and_goes_on_after_it(
    fresh: Lake, write: Callable[[DirectoryNamespace], None]
) -> None:
    cut_off(fresh, 1)
    catalog = fresh.open()
    with pytest.raises(ConcurrentModificationError, match="has not ended"):
        write(catalog)
    assert fresh.rows() == [AFTER, BEFORE, BEFORE]
    fresh.open().health.recover(older_than=0)
    write(catalog)
    rows = fresh.rows()
    assert (rows[0], rows[2]) == (AFTER, AFTER)
    assert rows[1] == (BEFORE if write is _create else AFTER + 1)


def test_the_second_half_of_a_write_keeps_off_too(fresh: Lake) -> None:
    pending = fresh.open().writes.begin(["b"], "append")
    written = fragments.write(pending, NEW.to_reader())
    cut_off(fresh, 1)
    catalog = fresh.open()
    with pytest.raises(ConcurrentModificationError, match="has not ended"):
        catalog.writes.finish(pending, written, NEW.schema)
    fresh.open().health.recover(older_than=0)
    catalog.writes.finish(pending, written, NEW.schema)
    assert fresh.rows() == [AFTER, AFTER + 1, AFTER]


@pytest.mark.slow  # Lance waits longer and longer between its tries
def test_pylance_is_told_of_a_conflict_then(fresh: Lake) -> None:
    cut_off(fresh, 1)
    fresh.properties = {**fresh.properties, "table_version_tracking_enabled": True}
    writer = {"namespace_client": fresh.open(), "table_id": ["b"]}
    with pytest.raises(OSError, match="onflict") as refused:
        lance.write_dataset(NEW, mode="append", **writer)
    assert "unknown" not in str(refused.value)
    assert fresh.rows() == [AFTER, BEFORE, BEFORE]


def test_whoever_does_not_want_that_can_say_so(fresh: Lake) -> None:
    cut_off(fresh, 1)
    fresh.properties = {**fresh.properties, "recover_on_write": "false"}
    catalog = fresh.open()
    _insert(catalog, "b")
    assert len(catalog.services.recovery.sidecars.operations()) == 1


def test_the_look_before_a_write_is_one_request_for_each_client(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    for number in range(3):
        _insert(catalog, "a")
        create(catalog, f"new {number}")
        _write_in_halves(catalog)
    assert store.count("*", "__recovery*") == 1


def test_a_commit_of_pylance_itself_ends_what_is_old(
    fresh: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep then happens while Lance waits for the answer to its commit."""
    cut_off(fresh, 1)
    (fresh.root / fresh.wanted[2].staged).unlink()
    monkeypatch.setattr("tiltyard.maintenance.recovery.RECOVERY_MIN_AGE_MS", 0)
    fresh.properties = {**fresh.properties, "table_version_tracking_enabled": True}
    writer = {"namespace_client": fresh.open(), "table_id": ["b"]}
    lance.write_dataset(NEW, mode="append", **writer)
    assert fresh.rows() == [BEFORE, BEFORE + 1, BEFORE]
    assert recovered(fresh) == []


# -- what is refused


def test_what_is_refused_leaves_no_sidecar(fresh: Lake) -> None:
    catalog, store = fresh.open_faulty()
    a, b, c = fresh.wanted
    fresh.uri("a")
    (fresh.root / b.staged).write_bytes(b"no manifest")
    for wanted, error in (
        ([a, a], InvalidInputError),
        ([a, b], InvalidInputError),
        ([a, type(c)(("c",), 7, c.staged)], ConcurrentModificationError),
        ([a, type(c)(("nobody",), 2, c.staged)], TiltyardError),
    ):
        with pytest.raises(error):
            catalog.services.batches.create_all(wanted)
    assert store.count("put*", "__recovery/*") == 0
    assert fresh.rows() == [BEFORE] * 3


def test_what_is_not_understood_is_told_of_and_kept(fresh: Lake) -> None:
    cut_off(fresh, 1)
    (file,) = (fresh.root / "__recovery").iterdir()
    body = {**json.loads(file.read_bytes()), "schema": 99}
    file.write_text(json.dumps(body))
    (only,) = fresh.open().health.recover(older_than=0)
    assert (only.outcome, "schema 99" in (only.detail or "")) == (Resolution.REFUSED, True)
    assert json.loads(file.read_bytes()) == body


def test_a_young_one_is_left_to_its_owner(fresh: Lake) -> None:
    cut_off(fresh, 1)
    (only,) = fresh.open().health.recover()
    assert only.outcome is Resolution.DEFERRED
    assert fresh.rows() == [AFTER, BEFORE, BEFORE]


def test_every_recovery_leaves_a_record(fresh: Lake) -> None:
    cut_off(fresh, 1)
    (only,) = recovered(fresh)
    record = json.loads((fresh.root / "__audit" / f"{only.operation}.json").read_bytes())
    assert (record["outcome"], record["kind"], record["schema"]) == ("rolled forward", "batch", 1)
    assert [table["id"] for table in record["tables"]] == [["a"], ["b"], ["c"]]


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


# -- a compaction, as a job on a cluster arms it


def test_a_compaction_that_was_cut_off_is_discarded_and_its_owner_stopped(fresh: Lake) -> None:
    catalog = fresh.open()
    recovery = catalog.services.recovery
    covered = [catalog.services.batches.check(new) for new in fresh.wanted]
    armed = recovery.sidecars.arm(OperationKind.COMPACTION, covered)
    (only,) = recovered(fresh)
    assert only.outcome is Resolution.DISCARDED
    with pytest.raises(ConcurrentModificationError):
        recovery.sidecars.publishing(armed)
    assert fresh.rows() == [BEFORE] * 3
    assert armed.state is SidecarState.ARMED
