"""The catalog as it was: which version each table had, all at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance
import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import PEOPLE, create, declare, drop, refused, rename
from tests.versions.staging import publish, stage
from tiltyard import DirectoryNamespace

MORE = PEOPLE.slice(0, 1)


@pytest.fixture
def catalog(tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / "root")
    opened.versions.manage()
    create(opened, "one")
    create(opened, "two")
    return opened


def test_tables_are_read_as_they_were_together(catalog: DirectoryNamespace) -> None:
    before = catalog.versions.snapshot()
    publish(catalog, stage(catalog, MORE, "one", "two"))
    after = catalog.versions.snapshot()
    assert {version.id: version.version for version in before} == {("one",): 1, ("two",): 1}
    assert {version.id: version.version for version in after} == {("one",): 2, ("two",): 2}
    assert before.open(["one"]).count_rows() == len(PEOPLE)
    assert after.open(["one"]).count_rows() == len(PEOPLE) + 1
    assert catalog.versions.snapshot(before.version) == before
    assert abs(after.taken_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_names_are_those_of_then(catalog: DirectoryNamespace) -> None:
    before = catalog.versions.snapshot()
    rename(catalog, "one", to="first")
    drop(catalog, "two")
    lance.write_dataset(MORE, namespace_client=catalog, table_id=["first"], mode="append")
    assert set(catalog.versions.snapshot().tables) == {("first",)}
    again = catalog.versions.snapshot(before.version)
    assert [again.open([each]).count_rows() for each in ("one", "two")] == [len(PEOPLE)] * 2
    with refused(ErrorCode.TABLE_NOT_FOUND):
        again.open(["first"])


def test_a_version_that_was_deleted_since_is_not_found(catalog: DirectoryNamespace) -> None:
    before = catalog.versions.snapshot()
    lance.write_dataset(MORE, namespace_client=catalog, table_id=["one"], mode="append")
    catalog.batch_delete_table_versions(
        api.BatchDeleteTableVersionsRequest(
            id=["one"], ranges=[VersionRange(start_version=1, end_version=2)]
        )
    )
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        before.open(["one"])
    assert before.open(["two"]).version == 1


def test_a_declared_table_has_no_version_to_read(catalog: DirectoryNamespace) -> None:
    declare(catalog, "three")
    snapshot = catalog.versions.snapshot()
    assert snapshot.tables["three",].version == 0
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        snapshot.open(["three"])


def test_what_can_not_be_told_is_not(catalog: DirectoryNamespace, tmp_path: Path) -> None:
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        catalog.versions.snapshot(999)
    with refused(ErrorCode.INVALID_TABLE_STATE):
        catalog.versions.snapshot(1)
    with refused(ErrorCode.UNSUPPORTED):
        tiltyard.connect(tmp_path / "flat", manifest_enabled=False).versions.snapshot()
    with refused(ErrorCode.INVALID_TABLE_STATE):
        tiltyard.connect(tmp_path / "other").versions.snapshot()
