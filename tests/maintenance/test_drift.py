"""What others write to the directory of a managed table past the catalog."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create
from tests.maintenance.batch import stage
from tiltyard import DirectoryNamespace
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    UnsupportedOperationError,
)
from tiltyard.versions.drift import Mending

MORE = PEOPLE.slice(0, 1)


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / "lake", dir_listing_enabled=False)
    opened.versions.manage()
    create(opened, "people")
    for _ in range(3):
        _write(opened)
    return opened


def _write(catalog: DirectoryNamespace, rows: pa.Table = MORE) -> None:
    with catalog.services.access.change(catalog.context.catalog.find(("people",))) as dataset:
        dataset.insert(rows)


def _past(catalog: DirectoryNamespace) -> lance.LanceDataset:
    return lance.dataset(
        catalog.context.lance.uri(catalog.context.catalog.find(("people",)).location)
    )


def _rows(catalog: DirectoryNamespace) -> int:
    return catalog.open_table(["people"]).count_rows()


HERE = len(PEOPLE) + 3


def test_a_table_that_only_we_write_has_no_drift(catalog: DirectoryNamespace) -> None:
    drift = catalog.health.drift(["people"])
    assert not drift
    assert (drift.head, drift.is_benign) == (4, True)
    assert catalog.health.repair_table(["people"]).action is Mending.NOTHING


def test_a_compaction_past_the_catalog_is_taken_in(catalog: DirectoryNamespace) -> None:
    _past(catalog).create_scalar_index("id", "BTREE")
    catalog.health.repair_table(["people"], adopt=True)
    _past(catalog).optimize.compact_files()
    drift = catalog.health.drift(["people"])
    assert {each.operation for each in drift.foreign} == {"ReserveFragments", "Rewrite"}
    assert drift.is_benign
    repaired = catalog.health.repair_table(["people"])
    assert repaired.action is Mending.ADOPTED
    assert not catalog.health.drift(["people"])
    assert len(catalog.open_table(["people"]).get_fragments()) == 1
    assert _rows(catalog) == HERE
    _write(catalog)
    assert _rows(catalog) == HERE + 1


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        (lambda past: past.insert(MORE), "Append"),
        (lambda past: past.delete("id = 2"), "Delete"),
        (lambda past: past.update({"name": "'x'"}), "Update"),
        (lambda past: past.create_scalar_index("id", "BTREE"), "CreateIndex"),
        (lambda past: past.update_config({"a": "b"}), "UpdateConfig"),
        (lambda past: past.drop_columns(["name"]), "Project"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_anything_else_is_left_for_somebody_to_decide(
    catalog: DirectoryNamespace, change: object, operation: str
) -> None:
    change(_past(catalog))  # type: ignore[operator]
    drift = catalog.health.drift(["people"])
    assert [each.operation for each in drift.foreign] == [operation]
    assert not drift.is_benign
    with pytest.raises(InvalidTableStateError, match="past the catalog"):
        catalog.health.repair_table(["people"])
    assert catalog.health.drift(["people"]) == drift
    assert _rows(catalog) == HERE


def test_what_is_adopted_counts(catalog: DirectoryNamespace) -> None:
    for _ in range(2):
        _past(catalog).insert(MORE)
    repaired = catalog.health.repair_table(["people"], adopt=True)
    assert (repaired.action, repaired.versions) == (Mending.ADOPTED, (5, 6))
    assert _rows(catalog) == HERE + 2
    _write(catalog)
    assert _rows(catalog) == HERE + 3
    assert not catalog.health.drift(["people"])


def test_what_is_discarded_does_not(catalog: DirectoryNamespace) -> None:
    for _ in range(2):
        _past(catalog).insert(MORE)
    repaired = catalog.health.repair_table(["people"], discard=True)
    assert (repaired.action, repaired.versions) == (Mending.DISCARDED, (5, 6))
    assert _rows(catalog) == HERE
    assert _past(catalog).count_rows() == HERE
    assert not catalog.health.drift(["people"])
    _write(catalog)
    assert _rows(catalog) == HERE + 1


def test_a_write_goes_on_after_a_compaction_past_the_catalog(catalog: DirectoryNamespace) -> None:
    _past(catalog).optimize.compact_files()
    _write(catalog)
    assert _rows(catalog) == HERE + 1
    assert not catalog.health.drift(["people"])


def test_but_not_after_anything_else(catalog: DirectoryNamespace) -> None:
    _past(catalog).insert(MORE)
    with pytest.raises(ConcurrentModificationError, match="can't follow") as refused:
        _write(catalog)
    assert "repair_table" in (refused.value.hint or "")
    assert _rows(catalog) == HERE


def test_versions_that_were_overtaken_are_not_adopted(catalog: DirectoryNamespace) -> None:
    """They were built on a version that ours has replaced: adopting them would lose it."""
    location = catalog.context.catalog.find(("people",)).location
    staged = stage(Path(catalog.context.settings.root), location, "people")
    for _ in range(2):
        _past(catalog).insert(MORE)
    catalog.services.versions.create(staged)  # takes 5, and 6 was built on the other one
    drift = catalog.health.drift(["people"])
    assert ([version.version for version in drift.foreign], drift.follows) == ([6], False)
    with pytest.raises(InvalidTableStateError, match="would lose"):
        catalog.health.repair_table(["people"], adopt=True)
    catalog.health.repair_table(["people"], discard=True)
    assert catalog.open_table(["people"]).to_table(filter="name = 'zoe'").num_rows == 1
    assert _rows(catalog) == HERE + 1
    assert not catalog.health.drift(["people"])


def test_discarded_versions_are_hidden_and_not_deleted(catalog: DirectoryNamespace) -> None:
    _past(catalog).insert(MORE)
    catalog.health.repair_table(["people"], discard=True)
    assert [version.version for version in catalog.services.versions.visible(("people",))] == [
        1,
        2,
        3,
        4,
        6,
    ]
    catalog.versions.show(["people"], 5)
    assert catalog.open_table(["people"], version=5).count_rows() == HERE + 1


def test_only_one_of_both_can_be_meant(catalog: DirectoryNamespace) -> None:
    with pytest.raises(InvalidInputError):
        catalog.health.repair_table(["people"], adopt=True, discard=True)


def test_where_versions_are_files_nothing_drifts(tmp_path: Path) -> None:
    files = tiltyard.connect(tmp_path / "files")
    create(files, "people")
    with pytest.raises(UnsupportedOperationError, match="files"):
        files.health.drift(["people"])
