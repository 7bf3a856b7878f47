"""A tag or a branch counts only if its table is the same one after it was written; a version that
is restored stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import PEOPLE, PLANTS, create, drop, ipc, refused
from tests.behaviours.modes import COMPATIBILITY, V1, Mode
from tests.kit.catalogs import open_over
from tests.kit.stores import Fault, FaultyStore
from tiltyard import DirectoryNamespace
from tiltyard.catalog.version_files import key_of
from tiltyard.store import Retry, read_back

TABLE = ["people"]


def _tag(catalog: DirectoryNamespace) -> None:
    catalog.create_table_tag(api.CreateTableTagRequest(id=TABLE, tag="good", version=1))


def _move_tag(catalog: DirectoryNamespace) -> None:
    catalog.update_table_tag(api.UpdateTableTagRequest(id=TABLE, tag="good", version=1))


def _branch(catalog: DirectoryNamespace) -> None:
    catalog.create_table_branch(api.CreateTableBranchRequest(id=TABLE, name="side", from_version=1))


def _references(catalog: DirectoryNamespace) -> tuple[dict[str, int], list[str]]:
    tags = catalog.list_table_tags(api.ListTableTagsRequest(id=TABLE)).tags
    branches = catalog.list_table_branches(api.ListTableBranchesRequest(id=TABLE)).branches
    return {name: tag.version for name, tag in tags.items()}, list(branches)


@pytest.mark.parametrize("refer", [_tag, _move_tag, _branch])
@pytest.mark.parametrize("mode", [V1, COMPATIBILITY], ids=str)
def test_a_table_that_another_replaces_in_its_directory_gets_no_reference(
    tmp_path: Path, mode: Mode, refer: Callable[[DirectoryNamespace], None]
) -> None:
    """The files of the version are still there, and the new table lies where the old one lay."""
    properties = {"root": str(tmp_path / "root"), **mode.properties}
    other = tiltyard.DirectoryNamespace(**properties)
    create(other, *TABLE, data=PEOPLE)
    other.insert_into_table(api.InsertIntoTableRequest(id=TABLE), ipc(PEOPLE))
    before: dict[str, int] = {}
    if refer is _move_tag:
        other.create_table_tag(api.CreateTableTagRequest(id=TABLE, tag="good", version=2))
        before = {"good": 2}

    def replace() -> None:
        drop(other, *TABLE)
        create(other, *TABLE, data=PLANTS)

    catalog, store = open_over(FaultyStore, **properties)
    stall = store.plan(Fault.STALL_AFTER, verb="head", key=key_of("people.lance", 1), hook=replace)
    with refused(ErrorCode.TABLE_NOT_FOUND, ErrorCode.CONCURRENT_MODIFICATION):
        refer(catalog)
    assert stall.is_spent
    assert catalog.open_table(TABLE).schema == PLANTS.schema
    assert _references(other) == (before, [])


def test_a_restore_in_doubt_keeps_the_version_that_it_restores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer comes for its version, which arrives after a clean-up."""
    monkeypatch.setattr(read_back, "Retry", partial(Retry, sleep=lambda _: None))
    catalog, store = open_over(FaultyStore, root=str(tmp_path / "root"), manifest_enabled=False)
    create(catalog, *TABLE, data=PEOPLE)
    for _ in range(2):
        catalog.insert_into_table(api.InsertIntoTableRequest(id=TABLE), ipc(PEOPLE))
    late = key_of("people.lance", 4)
    store.plan(Fault.LATE, verb="put_new", key=late, times=Retry().attempts)
    with pytest.raises(tiltyard.TiltyardError):
        catalog.restore_table(api.RestoreTableRequest(id=TABLE, version=1))
    with refused(ErrorCode.UNSUPPORTED) as caught:
        catalog.batch_delete_table_versions(
            api.BatchDeleteTableVersionsRequest(
                id=TABLE, ranges=[VersionRange(start_version=1, end_version=2)]
            )
        )
    assert "pin" in caught.value.message
    store.deliver_late()
    assert catalog.open_table(TABLE).count_rows() == len(PEOPLE)
