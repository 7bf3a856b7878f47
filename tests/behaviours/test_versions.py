"""Versions of a table: published once, listed in order, deleted in the right order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import lance
import lance_namespace as api
import pyarrow as pa
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client.models.create_table_version_entry import (
    CreateTableVersionEntry,
)
from lance_namespace_urllib3_client.models.version_range import VersionRange

import tiltyard
from tests.behaviours.calls import PEOPLE, create, drop, refused
from tests.behaviours.modes import MANAGED, MANAGED_COMPATIBILITY, MODES, Mode, every_mode
from tests.behaviours.places import Place
from tests.behaviours.trash import on_disk
from tiltyard import DirectoryNamespace
from tiltyard.catalog import version_files
from tiltyard.errors import (
    InvalidInputError,
    UnsupportedOperationError,
    VersionBehindBoundaryError,
)
from tiltyard.tables import fragments
from tiltyard.versions.lance_format import transaction_of

MORE = PEOPLE.slice(0, 1)


@pytest.fixture(params=[*MODES, MANAGED, MANAGED_COMPATIBILITY], ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture
def tracked(mode: Mode, place: Place) -> DirectoryNamespace:
    storage = {f"storage.{name}": value for name, value in place.storage_options.items()}
    catalog = tiltyard.connect(
        place.root,
        table_version_tracking_enabled=True,
        vend_input_storage_options=True,
        **mode.properties,
        **storage,
    )
    if mode.manages_versions:
        catalog.versions.manage()
    return catalog


def _append(catalog: DirectoryNamespace, times: int = 1) -> lance.LanceDataset:
    for _ in range(times):
        written = lance.write_dataset(
            MORE, namespace_client=catalog, table_id=["people"], mode="append"
        )
    return written


def _open(catalog: DirectoryNamespace, version: int | None = None) -> lance.LanceDataset:
    return lance.dataset(namespace_client=catalog, table_id=["people"], version=version)


def _versions(catalog: DirectoryNamespace, **options: object) -> list[int]:
    request = api.ListTableVersionsRequest(id=["people"], **options)
    return [version.version for version in catalog.list_table_versions(request).versions]


def _delete(catalog: DirectoryNamespace, *ranges: tuple[int, int], **options: bool) -> int | None:
    request = api.BatchDeleteTableVersionsRequest(
        id=["people"],
        ranges=[VersionRange(start_version=first, end_version=last + 1) for first, last in ranges],
    )
    return catalog.batch_delete_table_versions(request, **options).deleted_count


def _stage(catalog: DirectoryNamespace, version: int, like: int) -> str:
    """What Lance does before it asks: the bytes of a manifest under a name of their own."""
    store, location = catalog.context.store, catalog.context.catalog.find(("people",)).location
    body = store.get(version_files.key_of(location, like)).body
    key = f"{version_files.key_of(location, version)}-{'0' * 8}-staged"
    store.put(key, body)
    return key


def _publish(catalog: DirectoryNamespace, version: int, staged: str, scheme: str = "V2") -> int:
    request = api.CreateTableVersionRequest(
        id=["people"], version=version, manifest_path=_path(catalog, staged), naming_scheme=scheme
    )
    answer = catalog.create_table_version(request)
    assert answer.version is not None
    return answer.version.version


def _path(catalog: DirectoryNamespace, key: str) -> str:
    return tiltyard.catalog.names.store_path(catalog.context.settings.root, key)


# -- pylance writes through us


def test_every_commit_of_lance_arrives_here(
    tracked: DirectoryNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    publish = DirectoryNamespace.create_table_version

    def watching(self: DirectoryNamespace, request: object) -> object:
        answer = publish(self, request)  # type: ignore[arg-type]
        seen.append(answer.version.version)  # type: ignore[union-attr]
        return answer

    monkeypatch.setattr(DirectoryNamespace, "create_table_version", watching)
    dataset = lance.write_dataset(PEOPLE, namespace_client=tracked, table_id=["people"])
    _append(tracked, 2)
    dataset = _open(tracked)
    dataset.delete("id = 1")
    dataset.create_scalar_index("id", "BTREE")
    dataset.optimize.compact_files()
    dataset.merge_insert("id").when_not_matched_insert_all().execute(MORE)
    assert seen == list(range(1, dataset.version + 1))
    assert _versions(tracked) == seen
    assert not [entry for entry in tracked.context.store.walk("") if "manifest-" in entry.key], (
        "staged"
    )


@pytest.mark.parametrize(
    ("start", "end", "left"),
    [
        (1, 3, [3, 4, 5]),
        (2, 3, [1, 3, 4, 5]),
        (0, 3, [3, 4, 5]),
        (3, 3, [1, 2, 3, 4, 5]),
        (2, 99, None),
        (2, -1, None),
        (0, -1, None),
    ],
)
def test_a_range_has_its_start_and_not_its_end(
    tracked: DirectoryNamespace, start: int, end: int, left: list[int] | None
) -> None:
    """0 is the first version, -1 is after the latest, which is never deleted."""
    create(tracked, "people")
    _append(tracked, 4)
    request = api.BatchDeleteTableVersionsRequest(
        id=["people"], ranges=[VersionRange(start_version=start, end_version=end)]
    )
    if left is None:
        with pytest.raises(UnsupportedOperationError, match="latest"):
            tracked.batch_delete_table_versions(request)
    else:
        tracked.batch_delete_table_versions(request)
    assert _versions(tracked) == (left or [1, 2, 3, 4, 5])


@pytest.mark.parametrize(("start", "end"), [(-1, 3), (3, 2), (1, -2)])
def test_a_range_that_makes_no_sense_is_refused(
    tracked: DirectoryNamespace, start: int, end: int
) -> None:
    create(tracked, "people")
    _append(tracked, 2)
    request = api.BatchDeleteTableVersionsRequest(
        id=["people"], ranges=[VersionRange(start_version=start, end_version=end)]
    )
    with pytest.raises(InvalidInputError, match="not a range"):
        tracked.batch_delete_table_versions(request)
    assert _versions(tracked) == [1, 2, 3]


def test_a_lost_race_is_rebased(tracked: DirectoryNamespace) -> None:
    lance.write_dataset(PEOPLE, namespace_client=tracked, table_id=["people"])
    one, other = _open(tracked), _open(tracked)
    one.insert(MORE)
    other.insert(MORE)
    assert _open(tracked).count_rows() == len(PEOPLE) + 2
    assert _versions(tracked) == [1, 2, 3]


@every_mode
def test_untracked_catalogs_leave_commits_to_lance(catalog: DirectoryNamespace) -> None:
    create(catalog, "people")
    described = catalog.describe_table(api.DescribeTableRequest(id=["people"]))
    assert not described.managed_versioning
    assert _versions(catalog) == [1]


# -- publishing


def test_a_version_is_published_once(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    staged = _stage(tracked, 2, like=1)
    assert _publish(tracked, 2, staged) == 2
    assert not [entry for entry in tracked.context.store.walk("") if entry.key == staged]
    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        _publish(tracked, 2, _other(tracked, 2))


def _other(catalog: DirectoryNamespace, version: int) -> str:
    staged = _stage(catalog, version, like=1)
    body = catalog.context.store.get(staged).body
    _, ours = transaction_of(body, staged)
    catalog.context.store.put(staged, body.replace(ours.encode(), str(uuid4()).encode()))
    return staged


def test_the_same_bytes_again_are_the_same_version(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _publish(tracked, 2, _stage(tracked, 2, like=1))
    assert _publish(tracked, 2, _stage(tracked, 2, like=1)) == 2
    assert _versions(tracked) == [1, 2]


def test_plain_names_of_old_tables(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _publish(tracked, 2, _stage(tracked, 2, like=1), scheme="V1")
    assert _versions(tracked) == [1, 2]
    described = tracked.describe_table_version(
        api.DescribeTableVersionRequest(id=["people"], version=2)
    )
    assert described.version.manifest_path.endswith("/_versions/2.manifest")


@pytest.mark.parametrize(
    "path", ["elsewhere/x.manifest-1", "../x.manifest-1", "s3://other/bucket/x", "/etc/passwd"]
)
def test_only_staged_manifests_of_the_table_itself(tracked: DirectoryNamespace, path: str) -> None:
    create(tracked, "people")
    with refused(ErrorCode.INVALID_INPUT):
        _publish_path(tracked, path)
    assert _versions(tracked) == [1]


def _publish_path(catalog: DirectoryNamespace, path: str) -> None:
    catalog.create_table_version(
        api.CreateTableVersionRequest(id=["people"], version=2, manifest_path=path)
    )


def test_a_staged_manifest_that_is_gone_is_a_conflict(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    staged = _stage(tracked, 2, like=1)
    tracked.context.store.delete(staged)
    with refused(ErrorCode.CONCURRENT_MODIFICATION):
        _publish(tracked, 2, staged)


def test_bytes_that_name_no_transaction_are_refused(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    staged = _stage(tracked, 2, like=1)
    tracked.context.store.put(staged, b"not a manifest")
    with refused(ErrorCode.INVALID_INPUT):
        _publish(tracked, 2, staged)
    assert _versions(tracked) == [1]


def test_a_batch_is_checked_before_the_first_is_published(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    good = CreateTableVersionEntry(
        id=["people"], version=2, manifest_path=_path(tracked, _stage(tracked, 2, like=1))
    )
    bad = CreateTableVersionEntry(id=["people"], version=0, manifest_path=good.manifest_path)
    with refused(ErrorCode.INVALID_INPUT):
        tracked.batch_create_table_versions(
            api.BatchCreateTableVersionsRequest(entries=[good, bad])
        )
    assert _versions(tracked) == [1]
    answer = tracked.batch_create_table_versions(
        api.BatchCreateTableVersionsRequest(entries=[good])
    )
    assert [version.version for version in answer.versions] == [2]


def test_a_dropped_table_takes_no_version(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    staged = _stage(tracked, 2, like=1)
    drop(tracked, "people")
    with refused(ErrorCode.TABLE_NOT_FOUND):
        _publish(tracked, 2, staged)


# -- listing and describing


def test_versions_come_in_order_and_in_pages(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 4)
    assert _versions(tracked) == [1, 2, 3, 4, 5]
    assert _versions(tracked, descending=True) == [5, 4, 3, 2, 1]
    for descending in (False, True):
        numbers: list[int] = []
        token = None
        while True:
            request = api.ListTableVersionsRequest(
                id=["people"], limit=2, page_token=token, descending=descending
            )
            answer = tracked.list_table_versions(request)
            numbers += [version.version for version in answer.versions]
            token = answer.page_token
            if token is None:
                break
        assert numbers == _versions(tracked, descending=descending)
    assert _versions(tracked, limit=1, descending=True) == [5]
    assert _versions(tracked, limit=0) == []


def test_a_version_tells_its_file(tracked: DirectoryNamespace, place: Place) -> None:
    create(tracked, "people")
    listed = tracked.list_table_versions(api.ListTableVersionsRequest(id=["people"])).versions[0]
    described = tracked.describe_table_version(
        api.DescribeTableVersionRequest(id=["people"], version=1)
    ).version
    latest = tracked.describe_table_version(api.DescribeTableVersionRequest(id=["people"])).version
    for version in (listed, latest):  # some servers show full seconds in a listing
        version.timestamp_millis = described.timestamp_millis
    assert listed == described == latest
    key = tiltyard.catalog.names.from_store_path(place.root, described.manifest_path)
    assert tracked.context.store.head(key).size == described.manifest_size
    assert (described.timestamp_millis or 0) > 1_600_000_000_000


@pytest.mark.parametrize("request_", [{"limit": -1}, {"page_token": "x"}])
def test_bad_pages(tracked: DirectoryNamespace, request_: dict[str, object]) -> None:
    create(tracked, "people")
    with refused(ErrorCode.INVALID_INPUT):
        _versions(tracked, **request_)


def test_a_missing_version_is_not_found(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        tracked.describe_table_version(api.DescribeTableVersionRequest(id=["people"], version=9))
    with refused(ErrorCode.TABLE_NOT_FOUND):
        tracked.describe_table_version(api.DescribeTableVersionRequest(id=["plants"], version=1))


# -- deleting


def test_deleted_versions_are_gone_and_the_others_stay(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 5)
    assert _delete(tracked, (2, 3), (5, 5)) == 3
    assert _versions(tracked) == [1, 4, 6]
    assert _open(tracked, 4).count_rows() == len(PEOPLE) + 3
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        tracked.describe_table_version(api.DescribeTableVersionRequest(id=["people"], version=2))
    assert _delete(tracked, (1, 3)) == 1
    assert _versions(tracked) == [4, 6]


def test_missing_versions_are_skipped_or_refused(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 2)
    assert _delete(tracked, (1, 1)) == 1
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        _delete(tracked, (1, 2), ignore_missing=False)
    assert _versions(tracked) == [2, 3]
    assert _delete(tracked, (0, 1)) == 0


def test_the_latest_tagged_and_branched_versions_stay(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 4)
    dataset = _open(tracked)
    dataset.tags.create("release", 2)
    dataset.create_branch("trial", 3)
    for needed in (2, 3, 5):
        with refused(ErrorCode.UNSUPPORTED):
            _delete(tracked, (needed, needed))
    assert _versions(tracked) == [1, 2, 3, 4, 5]
    assert _delete(tracked, (1, 1), (4, 4)) == 2
    assert _versions(tracked) == [2, 3, 5]


def test_a_number_never_comes_back(tracked: DirectoryNamespace) -> None:
    """Guard A: a writer that started before the deletion does not know what it missed."""
    create(tracked, "people")
    _append(tracked, 3)
    staged = _stage(tracked, 2, like=2)
    _delete(tracked, (2, 3))
    with pytest.raises(VersionBehindBoundaryError):
        _publish(tracked, 2, staged)
    assert _versions(tracked) == [1, 4]


@on_disk
def test_a_stale_handle_gets_a_conflict(tracked: DirectoryNamespace) -> None:
    """Lance asks who has the number; without an answer it calls the outcome unknown."""
    create(tracked, "people")
    stale = _open(tracked)
    _append(tracked, 3)
    _delete(tracked, (1, 2))
    with pytest.raises(OSError, match=r"conflict|concurrent writers") as caught:
        stale.insert(MORE)
    assert "unknown" not in str(caught.value)
    assert _versions(tracked) == [3, 4]
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        for _ in range(50):
            tracked.describe_table_version(
                api.DescribeTableVersionRequest(id=["people"], version=5)
            )


def test_a_write_in_two_halves_is_fenced_too(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 2)
    pending = tracked.writes.begin(["people"], "append")
    written = fragments.write(pending, MORE.to_reader())
    _append(tracked)
    _delete(tracked, (1, 2))
    stale = replace(pending, read_version=1)
    with pytest.raises(VersionBehindBoundaryError):
        tracked.writes.finish(stale, written, MORE.schema)
    assert _versions(tracked) == [3, 4]
    again = fragments.write(pending, MORE.to_reader())
    assert tracked.writes.finish(pending, again, MORE.schema).version == 5


def test_what_a_stale_writer_left_is_hidden_and_scrubbed(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 3)
    location = tracked.context.catalog.find(("people",)).location
    body = tracked.context.store.get(version_files.key_of(location, 2)).body
    _delete(tracked, (2, 3))
    tracked.context.store.put(version_files.key_of(location, 2), body)
    assert _versions(tracked) == [1, 4]
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        tracked.describe_table_version(api.DescribeTableVersionRequest(id=["people"], version=2))
    assert tracked.services.versions.scrub(("people",)) == [2]
    assert [file.version for file in version_files.every(tracked.context.store, location)] == [1, 4]


def test_branches_have_versions_of_their_own(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked)
    branch = _open(tracked).create_branch("trial")
    lance.write_dataset(MORE, branch, mode="append")
    assert _versions(tracked) == [1, 2]
    on_branch: Sequence[int] = _versions(tracked, branch="trial")
    assert on_branch == [2, 3]
    with refused(ErrorCode.INVALID_INPUT):
        _versions(tracked, branch="../people")


def test_rows_survive(tracked: DirectoryNamespace) -> None:
    create(tracked, "people")
    _append(tracked, 3)
    _delete(tracked, (1, 3))
    assert _open(tracked).to_table() == pa.concat_tables([PEOPLE, MORE, MORE, MORE])
