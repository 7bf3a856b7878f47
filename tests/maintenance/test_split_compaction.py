"""A compaction in parts: planned once, executed anywhere, committed once, beside others."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from tests.kit.catalogs import to_change
from tests.maintenance.catalogs import files, fragments, home, ids, rows, scattered
from tiltyard import DirectoryNamespace
from tiltyard.errors import ConcurrentModificationError
from tiltyard.maintenance.compaction import PlannedCompaction, RewrittenPart
from tiltyard.maintenance.optimize import TOO_BIG, OptimizeOptions, SplitCompaction

# Two fragments of ten rows become one, so five of them are several parts.
OPTIONS = OptimizeOptions(target_rows_per_fragment=20)


def _steps(catalog: DirectoryNamespace) -> SplitCompaction:
    return SplitCompaction(catalog.services.maintenance, OPTIONS)


def _executed(catalog: DirectoryNamespace, planned: PlannedCompaction) -> list[RewrittenPart]:
    """By others: what they get and what they answer was pickled."""
    parts = [pickle.loads(pickle.dumps(part)) for part in planned.parts]
    return [pickle.loads(pickle.dumps(_steps(catalog).execute(part))) for part in parts]


def _planned(catalog: DirectoryNamespace) -> PlannedCompaction:
    scattered(catalog, "people", 8)
    planned = _steps(catalog).plan(("people",))
    assert len(planned.parts) > 1
    return planned


def test_all_parts_become_one_version(catalog: DirectoryNamespace) -> None:
    planned = _planned(catalog)
    before = ids(catalog.open_table(["people"]))

    row = _steps(catalog).commit(planned, _executed(catalog, planned))

    dataset = catalog.open_table(["people"])
    assert (row.version, row.committed) == (dataset.version, True)
    assert row.version == planned.version + 1
    assert (row.fragments_removed, row.fragments_added) == (8, 4)
    assert row.bytes_rewritten == planned.bytes == row.bytes_before
    assert ids(dataset) == before
    assert _steps(catalog).plan(("people",)).parts == ()


def test_rows_that_come_meanwhile_stay(catalog: DirectoryNamespace) -> None:
    planned = _planned(catalog)
    written = _executed(catalog, planned)
    to_change(catalog, "people").insert(rows(1000))

    _steps(catalog).commit(planned, written)

    assert ids(catalog.open_table(["people"])) == Counter([*range(80), 1000])


def test_rows_that_are_deleted_meanwhile_do_not_come_back(
    catalog: DirectoryNamespace,
) -> None:
    planned = _planned(catalog)
    written = _executed(catalog, planned)
    to_change(catalog, "people").delete("id = 7")

    with pytest.raises(ConcurrentModificationError):
        _steps(catalog).commit(planned, written)

    assert ids(catalog.open_table(["people"])) == Counter(set(range(80)) - {7})
    left = files(home(catalog, "people"))
    assert not any(f"data/{file}" in left for part in written for file in part.files)
    assert list(catalog.services.recovery.sidecars.every()) == []
    assert catalog.maintenance.optimize_table(["people"], options=OPTIONS).committed


def test_a_crash_in_the_commit_is_ended_by_a_recovery(
    catalog: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = _planned(catalog)
    written = _executed(catalog, planned)
    sidecars = catalog.services.recovery.sidecars
    with monkeypatch.context() as crashing:
        crashing.setattr(sidecars, "done", lambda sidecar: None)  # so it is left behind
        _steps(catalog).commit(planned, written)

    with pytest.raises(ConcurrentModificationError):
        SplitCompaction(catalog.services.maintenance).plan(("people",))
    (ended,) = catalog.health.recover(older_than=0)

    assert ended.outcome == "rolled forward"
    assert ids(catalog.open_table(["people"])) == Counter(range(80))
    assert _steps(catalog).plan(("people",)).parts == ()


def test_a_table_with_an_index_keeps_it(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people", 8)
    to_change(catalog, "people").create_scalar_index("id", "BTREE")
    planned = _steps(catalog).plan(("people",))

    _steps(catalog).commit(planned, _executed(catalog, planned))

    dataset = catalog.open_table(["people"])
    assert len(dataset.get_fragments()) == 4
    assert [index.num_rows_indexed for index in dataset.describe_indices()] == [80]
    assert dataset.to_table(filter="id = 42")["id"].to_pylist() == [42]


def test_what_is_too_big_for_one_process_is_left_for_several(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people", 8)

    row = catalog.maintenance.optimize_table(["people"], options=OPTIONS, most_bytes=1)

    assert (row.skipped, row.committed) == (TOO_BIG, False)
    assert fragments(catalog, "people") == 8
    assert catalog.maintenance.optimize_table(
        ["people"], options=OPTIONS, most_bytes=10**9
    ).committed


def test_a_dry_run_tells_what_would_be_written_again(catalog: DirectoryNamespace) -> None:
    scattered(catalog, "people", 8)

    row = catalog.maintenance.optimize_table(["people"], options=OPTIONS, dry_run=True)

    assert (row.fragments_removed, row.bytes_rewritten) == (8, row.bytes_before)
    assert not row.committed
    assert fragments(catalog, "people") == 8
