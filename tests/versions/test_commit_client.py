"""Our own commits are published by `TableVersions`, in every mode, tracked or not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import PEOPLE, create, drop
from tests.kit.catalogs import to_change
from tests.versions.calls import MORE, delete
from tiltyard import DirectoryNamespace
from tiltyard.catalog.base import Table
from tiltyard.errors import (
    ConcurrentModificationError,
    TableNotFoundError,
    VersionBehindBoundaryError,
)
from tiltyard.versions.base import NewVersion
from tiltyard.versions.file_versions import FileVersions

MODES = {
    "directory": {"manifest_enabled": False},
    "manifest": {"dir_listing_enabled": False},
    "both": {},
}


@pytest.fixture(params=MODES.values(), ids=MODES)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> DirectoryNamespace:
    opened = tiltyard.connect(tmp_path / "root", **request.param)
    create(opened, "people")
    return opened


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The versions that were published."""
    seen: list[int] = []
    publish = FileVersions.create

    def watching(self: FileVersions, new: NewVersion) -> object:
        answer = publish(self, new)
        seen.append(answer.version)
        return answer

    monkeypatch.setattr(FileVersions, "create", watching)
    return seen


def _people(catalog: DirectoryNamespace) -> Table:
    return catalog.context.catalog.find(("people",))


def test_every_kind_of_change_is_published(
    catalog: DirectoryNamespace, published: list[int]
) -> None:
    dataset = to_change(catalog, "people")
    dataset.insert(MORE)
    dataset.delete("id = 2")
    dataset.update({"name": "'nobody'"}, where="id = 3")
    dataset.merge_insert("id").when_matched_update_all().execute(MORE)
    dataset.add_columns({"twice": "id * 2"})
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    assert published == list(range(2, dataset.version + 1))
    assert len(published) >= 7
    assert catalog.services.access.open(_people(catalog)).version == dataset.version


def test_a_tag_is_no_commit(catalog: DirectoryNamespace, published: list[int]) -> None:
    to_change(catalog, "people").tags.create("first", 1)
    assert not published


def test_a_lost_race_is_rebased(catalog: DirectoryNamespace, published: list[int]) -> None:
    one, other = (to_change(catalog, "people") for _ in range(2))
    one.insert(MORE)
    to_change(catalog, "people", version=1).insert(MORE)
    other.insert(MORE)
    assert published == [2, 3, 4]
    assert catalog.services.access.open(_people(catalog)).count_rows() == len(PEOPLE) + 3


def _insert(catalog: DirectoryNamespace, meanwhile: Callable[[], object]) -> None:
    with catalog.services.access.change(_people(catalog)) as dataset:
        meanwhile()
        dataset.insert(MORE)


def test_a_dropped_table_is_not_written_to(catalog: DirectoryNamespace) -> None:
    with pytest.raises((TableNotFoundError, ConcurrentModificationError)):
        _insert(catalog, lambda: drop(catalog, "people"))


def test_nor_is_another_of_its_name(tmp_path: Path) -> None:
    catalog = tiltyard.connect(tmp_path / "root", dir_listing_enabled=False)
    create(catalog, "people")

    def replaced() -> None:
        drop(catalog, "people")
        create(catalog, "people")

    with pytest.raises(ConcurrentModificationError):
        _insert(catalog, replaced)
    assert catalog.services.access.open(_people(catalog)).count_rows() == len(PEOPLE)


def test_who_slept_through_a_deletion_is_told(catalog: DirectoryNamespace) -> None:
    def cleaned_up() -> None:
        for _ in range(3):
            to_change(catalog, "people").insert(MORE)
        delete(catalog, "people", first=1, last=3)

    with pytest.raises(VersionBehindBoundaryError):
        _insert(catalog, cleaned_up)
    assert catalog.services.access.open(_people(catalog)).count_rows() == len(PEOPLE) + 3


def test_others_may_change_the_catalog_meanwhile(tmp_path: Path) -> None:
    """Lance asks in a thread of its own, where a scan of the manifest would end the process."""
    catalog = tiltyard.connect(tmp_path / "root", dir_listing_enabled=False)
    create(catalog, "people")
    other = tiltyard.connect(tmp_path / "root", dir_listing_enabled=False)
    _insert(catalog, lambda: create(other, "plants"))
    assert catalog.services.access.open(_people(catalog)).version == 2


def test_errors_of_lance_stay_what_they_are(catalog: DirectoryNamespace) -> None:
    with (
        pytest.raises(OSError, match="nothing"),
        catalog.services.access.change(_people(catalog)) as dataset,
    ):
        dataset.delete("nothing = 1")
    with (
        pytest.raises(OSError, match="other"),
        catalog.services.access.change(_people(catalog)) as dataset,
    ):
        dataset.insert(pa.table({"other": ["column"]}))
