"""Optimizing: the same rows from fewer files, whatever the table, and no commit for nothing."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lance
import lance_namespace as api
import numpy as np
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create
from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import (
    LAKE,
    fragments,
    home,
    ids,
    location,
    rows,
    scattered,
    with_blobs,
)
from tiltyard import DirectoryNamespace
from tiltyard.catalog.pylance import Lance
from tiltyard.errors import ConcurrentModificationError, InvalidInputError, TableNotFoundError
from tiltyard.maintenance import compaction
from tiltyard.maintenance.compaction import PlannedCompaction
from tiltyard.maintenance.optimize import OptimizeOptions
from tiltyard.maintenance.policy import CleanupPolicy
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind


def test_small_fragments_become_one_with_the_same_rows(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people")
    before = ids(catalog.open_table(["people"]))
    row = catalog.maintenance.optimize_table(["people"])
    assert (row.table, row.committed, row.error, row.skipped) == ("people", True, None, None)
    assert (row.fragments_removed, row.fragments_added) == (5, 1)
    assert (row.files_before, row.files_after) == (5, 1)
    assert row.bytes_before > row.bytes_after > 0
    after = catalog.open_table(["people"])
    assert row.version == after.version
    assert ids(after) == before
    assert fragments(catalog, "people") == 1


def test_a_table_on_which_another_operation_has_not_ended_is_left_alone(
    catalog: DirectoryNamespace,
) -> None:
    scattered(catalog, "people")
    scattered(catalog, "plants")
    version = catalog.open_table(["people"]).version
    place = location(catalog, "people")
    covered = CoveredTable(("people",), place, version, version, "a transaction")
    sidecar = catalog.services.recovery.sidecars.arm(OperationKind.COMPACTION, [covered])
    refused, done = catalog.maintenance.optimize_all_tables()
    assert "has not ended" in (refused.error or "")
    assert (done.table, done.committed) == ("plants", True)
    policy = CleanupPolicy(keep_versions=3)
    assert "has not ended" in (catalog.maintenance.cleanup_all_tables(policy)[0].error or "")
    assert fragments(catalog, "people") == 5
    catalog.services.recovery.sidecars.done(sidecar)
    assert catalog.maintenance.optimize_table(["people"]).committed


def test_other_clients_see_it_at_once(
    catalog: DirectoryNamespace, reopen: Callable[[], DirectoryNamespace]
) -> None:
    scattered(catalog, "people")
    other = reopen()
    assert len(other.open_table(["people"]).get_fragments()) == 5
    version = catalog.maintenance.optimize_table(["people"]).version
    assert other.open_table(["people"]).version == version
    listed = other.list_table_versions(api.ListTableVersionsRequest(id=["people"])).versions
    assert listed[-1].version == version


def test_without_anything_to_do_nothing_is_committed(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people")
    to_change(catalog, "people").create_scalar_index("id", "BTREE")
    first = catalog.maintenance.optimize_table(["people"])
    again = catalog.maintenance.optimize_table(["people"])
    assert first.committed
    assert not again.committed
    assert again.version == first.version
    assert (again.fragments_removed, again.fragments_added) == (0, 0)
    assert (again.files_before, again.bytes_before) == (again.files_after, again.bytes_after)


def test_deleted_rows_leave_the_files(catalog: DirectoryNamespace) -> None:
    create(catalog, "people", data=rows(*range(100)))
    to_change(catalog, "people").delete("id < 40")
    row = catalog.maintenance.optimize_table(["people"])
    (left,) = catalog.open_table(["people"]).get_fragments()
    assert (left.metadata.physical_rows, left.metadata.deletion_file) == (60, None)
    assert (row.files_before, row.files_after) == (2, 1)


def test_how_many_deleted_rows_are_worth_it_can_be_said(catalog: DirectoryNamespace) -> None:
    create(catalog, "people", data=rows(*range(100)))
    to_change(catalog, "people").delete("id = 4")
    assert not catalog.maintenance.optimize_table(["people"]).committed
    options = OptimizeOptions(deleted_share=0.0)
    assert catalog.maintenance.optimize_table(["people"], options=options).committed


def test_new_rows_come_into_the_indexes(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people", 2)
    dataset = to_change(catalog, "people")
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("text", "INVERTED")
    dataset.insert(rows(70, 71))
    assert dataset.stats.index_stats("id_idx")["num_unindexed_rows"] == 2
    assert catalog.maintenance.optimize_table(["people"]).committed
    after = catalog.open_table(["people"])
    for index in ("id_idx", "text_idx"):
        assert after.stats.index_stats(index)["num_unindexed_rows"] == 0
    assert after.to_table(filter="id = 71")["id"].to_pylist() == [71]
    assert fragments(catalog, "people") == 1


def test_vectors_are_found_after_it(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE)

    def vectors(first: int, count: int) -> pa.Table:
        values = np.random.default_rng(first).random((count, 8), dtype=np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 8)
        return pa.table({"id": pa.array(range(first, first + count)), "vector": column})

    create(catalog, "points", data=vectors(0, 300))
    dataset = to_change(catalog, "points")
    dataset.create_index("vector", "IVF_FLAT", num_partitions=4, metric="L2")
    dataset.insert(vectors(1000, 20))
    wanted = vectors(1000, 20)["vector"][7].as_py()
    catalog.maintenance.optimize_table(["points"])
    after = catalog.open_table(["points"])
    assert after.stats.index_stats("vector_idx")["num_unindexed_rows"] == 0
    near = after.to_table(nearest={"column": "vector", "q": wanted, "k": 1, "nprobes": 4})
    assert near["id"].to_pylist() == [1007]


@pytest.mark.parametrize("generation", ["v1", "v2"])
def test_tables_with_blobs_are_compacted_too(tmp_path: Path, generation: str) -> None:
    """Earlier versions of Lance could not. Should a later one fail, skip such tables again."""
    catalog = tiltyard.connect(tmp_path / LAKE)
    dataset, bodies = with_blobs(tmp_path / LAKE / "files.lance", generation)
    dataset.delete("id = 4")
    row = catalog.maintenance.optimize_table(["files"])
    assert (row.fragments_removed, row.fragments_added, row.skipped) == (4, 1, None)
    after = catalog.open_table(["files"])
    blobs = after.take_blobs("blob", indices=list(range(11)))
    assert [blob.readall() for blob in blobs] == bodies[:4] + bodies[5:]


def test_a_table_that_was_only_declared_is_skipped(catalog: DirectoryNamespace) -> None:
    catalog.declare_table(api.DeclareTableRequest(id=["later"]))
    row = catalog.maintenance.optimize_table(["later"])
    assert (row.committed, row.skipped, row.version) == (False, "it has no version yet", None)


def test_a_table_that_is_not_there_is_told(catalog: DirectoryNamespace) -> None:
    with pytest.raises(TableNotFoundError):
        catalog.maintenance.optimize_table(["nobody"])


def test_settings_by_which_lance_deletes_versions_are_reported(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people")
    to_change(catalog, "people").update_config({"lance.auto_cleanup.interval": "1000"})
    row = catalog.maintenance.optimize_table(["people"])
    assert "lance.auto_cleanup.interval" in (row.warning or "")


# -- beside others


def _meanwhile(monkeypatch: pytest.MonkeyPatch, change: Callable[[], None], times: int) -> None:
    """Change the table whenever a compaction has been planned and not committed."""
    plan, changes = compaction.plan, iter(range(times))

    def interrupted(*given: Any) -> PlannedCompaction:
        planned = plan(*given)
        if next(changes, None) is not None:
            change()
        return planned

    monkeypatch.setattr(compaction, "plan", interrupted)


def test_who_changes_the_same_rows_meanwhile_goes_first(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scattered(catalog, "people")
    deleted = iter(range(100))
    _meanwhile(
        monkeypatch, lambda: to_change(catalog, "people").delete(f"id = {next(deleted)}"), times=2
    )
    row = catalog.maintenance.optimize_table(["people"])
    assert row.committed
    after = catalog.open_table(["people"])
    assert sorted(ids(after)) == list(range(2, 50))
    data = list((home(catalog, "people") / "data").iterdir())
    assert len(data) == 5 + 1, "what was written in vain is gone"


def test_new_rows_do_not_disturb_it(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scattered(catalog, "people")
    _meanwhile(monkeypatch, lambda: to_change(catalog, "people").insert(rows(90)), times=1)
    row = catalog.maintenance.optimize_table(["people"])
    assert (row.fragments_removed, row.fragments_added) == (5, 1)
    assert sorted(ids(catalog.open_table(["people"]))) == [*range(50), 90]


def test_a_table_that_is_never_left_alone_is_given_up(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scattered(catalog, "people")
    deleted = iter(range(100))
    _meanwhile(
        monkeypatch, lambda: to_change(catalog, "people").delete(f"id = {next(deleted)}"), times=99
    )
    monkeypatch.setattr("tiltyard.store.retry.Retry.pause", lambda self, attempt: None)
    with pytest.raises(ConcurrentModificationError, match="in a row"):
        catalog.maintenance.optimize_table(["people"])


def test_units_of_one_process_take_turns(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people")
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(catalog.maintenance.optimize_table, [["people"]] * 4))
    assert sorted(row.committed for row in result) == [False, False, False, True]


# -- many


def test_all_tables_have_a_row_in_their_order(catalog: DirectoryNamespace) -> None:
    for name in ("c", "a", "b"):
        scattered(catalog, name, 3)
    seen: list[tuple[str, int, int]] = []
    result = catalog.maintenance.optimize_all_tables(
        progress=lambda row, done, total: seen.append((row.table, done, total))
    )
    assert [(row.table, row.committed) for row in result] == [(name, True) for name in "abc"]
    assert {table for table, *_ in seen} == {"a", "b", "c"}
    assert [counts for _, *counts in seen] == [[1, 3], [2, 3], [3, 3]]
    assert not any(row.committed for row in catalog.maintenance.optimize_all_tables())


def test_a_namespace_means_what_is_in_it(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE)
    for namespace in (["prod"], ["prod", "eu"], ["production"]):
        catalog.create_namespace(api.CreateNamespaceRequest(id=namespace))
        create(catalog, *namespace, "t")
    result = catalog.maintenance.optimize_all_tables(["prod"])
    assert [row.table for row in result] == ["prod.eu.t", "prod.t"]
    with pytest.raises(tiltyard.TiltyardError, match="nowhere"):
        catalog.maintenance.optimize_all_tables(["nowhere"])


def test_one_broken_table_among_fifty_is_one_row_with_an_error(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / LAKE)
    for number in range(50):
        scattered(catalog, f"t{number:02}", 2)
    broken = min((tmp_path / LAKE / "t07.lance" / "data").iterdir())
    broken.write_bytes(b"rubbish")
    result = catalog.maintenance.optimize_all_tables()
    assert [row.table for row in result if row.error] == ["t07"]
    assert sum(row.committed for row in result) == 49
    assert pickle.loads(pickle.dumps(result)) == result


def test_how_many_at_a_time_can_be_said(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(6):
        scattered(catalog, f"t{number}", 2)
    lock, working, most = threading.Lock(), 0, 0
    opening = Lance.open_through

    def watched(self: Lance, *given: object) -> lance.LanceDataset:
        nonlocal working, most
        with lock:
            working += 1
            most = max(most, working)
        try:
            return opening(self, *given)  # type: ignore[arg-type]
        finally:
            with lock:
                working -= 1

    monkeypatch.setattr(Lance, "open_through", watched)
    monkeypatch.setenv("TILTYARD_MAINTENANCE_CONCURRENCY", "1")
    assert len(catalog.maintenance.optimize_all_tables()) == 6
    assert most == 1
    for text in ("0", "many", "-1", "1000"):
        monkeypatch.setenv("TILTYARD_MAINTENANCE_CONCURRENCY", text)
        with pytest.raises(InvalidInputError, match="TILTYARD_MAINTENANCE_CONCURRENCY"):
            catalog.maintenance.optimize_all_tables()
