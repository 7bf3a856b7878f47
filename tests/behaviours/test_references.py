"""Tags, branches, and going back to a version."""

from __future__ import annotations

from typing import Any

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client import models
from lance_namespace_urllib3_client.models.version_range import VersionRange

from tests.behaviours import data
from tests.behaviours.calls import create, drop, refused
from tests.behaviours.data import POINTS, branch, count, ids, insert, query, tag
from tests.behaviours.modes import V2
from tests.behaviours.trash import on_disk
from tiltyard.catalog import names
from tiltyard.catalog.boundary import Boundary
from tiltyard.store import Retry

Catalog = api.LanceNamespace

one_mode = pytest.mark.parametrize("mode", [V2], indirect=True, ids=str)


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    """Version 1 has the rows 1 to 4, version 2 the first as well as those, version 3 no rows."""
    create(catalog, "points", data=POINTS)
    insert(catalog, POINTS.slice(0, 1))
    data.delete(catalog, "true")
    return catalog


def _restore(catalog: Catalog, version: int, **rest: Any) -> None:
    catalog.restore_table(api.RestoreTableRequest(id=["points"], version=version, **rest))


def _tags(catalog: Catalog, **rest: Any) -> dict[str, int]:
    answer = catalog.list_table_tags(api.ListTableTagsRequest(id=["points"], **rest))
    return {name: contents.version for name, contents in answer.tags.items()}


def _move_tag(catalog: Catalog, name: str, version: int, **rest: Any) -> None:
    catalog.update_table_tag(
        api.UpdateTableTagRequest(id=["points"], tag=name, version=version, **rest)
    )


def _untag(catalog: Catalog, name: str) -> None:
    catalog.delete_table_tag(api.DeleteTableTagRequest(id=["points"], tag=name))


def _tagged(catalog: Catalog, name: str) -> tuple[int, str | None]:
    request = api.GetTableTagVersionRequest(id=["points"], tag=name)
    answer = catalog.get_table_tag_version(request)
    return answer.version, answer.branch


def _branches(catalog: Catalog, **rest: Any) -> dict[str, models.BranchContents]:
    request = api.ListTableBranchesRequest(id=["points"], **rest)
    return catalog.list_table_branches(request).branches


def _cut(catalog: Catalog, name: str) -> None:
    catalog.delete_table_branch(api.DeleteTableBranchRequest(id=["points"], name=name))


def _delete_versions(catalog: Catalog, first: int, last: int) -> None:
    catalog.batch_delete_table_versions(
        api.BatchDeleteTableVersionsRequest(
            id=["points"], ranges=[VersionRange(start_version=first, end_version=last + 1)]
        )
    )


# -- going back


def test_an_older_version_becomes_the_latest_again(points: Catalog) -> None:
    _restore(points, 1)
    assert (ids(points), ids(points, version=3)) == ([1, 2, 3, 4], [])
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        _restore(points, 9)
    assert count(points) == 4


def test_a_version_that_stayed_behind_the_boundary_can_be_restored(points: Catalog) -> None:
    tag(points, "good", 1)
    _delete_versions(points, 2, 2)
    _restore(points, 1)
    assert count(points) == 4
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        _restore(points, 2)


# -- tags


def test_a_version_gets_a_name(points: Catalog) -> None:
    tag(points, "full", 2)
    tag(points, "empty", 3)
    assert _tags(points) == {"empty": 3, "full": 2}
    assert _tagged(points, "full") == (2, None)
    described = api.DescribeTableRequest(id=["points"], tag="full")
    assert points.describe_table(described).version == 2


def test_a_tag_moves_and_goes(points: Catalog) -> None:
    tag(points, "good", 1)
    _move_tag(points, "good", 2)
    assert _tagged(points, "good") == (2, None)
    _untag(points, "good")
    assert _tags(points) == {}


def test_a_tagged_version_stays(points: Catalog) -> None:
    tag(points, "good", 1)
    with refused(ErrorCode.UNSUPPORTED):
        _delete_versions(points, 1, 2)
    _untag(points, "good")
    _delete_versions(points, 1, 2)
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        tag(points, "late", 1)


def test_what_is_wrong_with_a_tag_is_said(points: Catalog) -> None:
    tag(points, "good", 1)
    with refused(ErrorCode.TABLE_TAG_ALREADY_EXISTS):
        tag(points, "good", 2)
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        tag(points, "new", 9)
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        _move_tag(points, "good", 9)
    with refused(ErrorCode.TABLE_BRANCH_NOT_FOUND):
        tag(points, "new", 1, branch="nope")
    for call in (_untag, _tagged, lambda c, name: _move_tag(c, name, 1)):
        with refused(ErrorCode.TABLE_TAG_NOT_FOUND):
            call(points, "nope")
    for name in ("", "a b", "../x"):
        with refused(ErrorCode.INVALID_INPUT):
            tag(points, name, 1)
    assert _tags(points) == {"good": 1}


@pytest.mark.parametrize("moves", [False, True])
def test_a_tag_on_a_version_that_goes_meanwhile_is_taken_back(
    points: Catalog, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if moves:
        tag(points, "good", 2)
    shows = points.services.versions.shows  # type: ignore[attr-defined]

    def after_a_collector(table: Any, version: int, of: str | None = None) -> bool:
        """One that had looked at the tags just before ours was written."""
        monkeypatch.undo()
        context = points.context  # type: ignore[attr-defined]
        directory = f"{names.BOUNDARIES}/{table.location}"
        Boundary(context.store, directory, context.clock, Retry()).advance(1, [], [1])
        return bool(shows(table, version, of))

    monkeypatch.setattr(points.services.versions, "shows", after_a_collector)  # type: ignore[attr-defined]
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND) as caught:
        _move_tag(points, "good", 1) if moves else tag(points, "good", 1)
    assert "deleted meanwhile" in caught.value.message
    assert _tags(points) == ({"good": 2} if moves else {})


def test_a_tag_on_a_table_that_is_dropped_meanwhile_is_taken_back(
    points: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tiltyard.tables import refs

    create_tag = refs.create_tag

    def then_drop(*given: Any) -> None:
        create_tag(*given)
        drop(points, "points")

    monkeypatch.setattr(refs, "create_tag", then_drop)
    with refused(ErrorCode.TABLE_NOT_FOUND):
        tag(points, "good", 1)
    points.undrop_table(["points"])  # type: ignore[attr-defined]
    assert _tags(points) == {}


# -- branches


def test_a_branch_grows_by_itself(points: Catalog) -> None:
    branch(points, "side", from_version=1)
    insert(points, POINTS.slice(1, 1), branch="side")
    data.update(points, ("id", "id + 10"), where="id = 4", branch="side")
    assert ids(points, branch="side") == [1, 2, 2, 3, 14]
    assert (count(points), count(points, branch="main")) == (0, 0)
    assert count(points, branch="side", version=1) == 4
    side = _branches(points)["side"]
    assert (side.parent_branch, side.parent_version) == (None, 1)


def test_every_change_can_go_to_a_branch(points: Catalog) -> None:
    branch(points, "side", from_version=1)
    data.index(points, "id", "BTREE", branch="side")
    points.alter_table_add_columns(data.add_column(branch="side"))
    data.delete(points, "id = 1", branch="side")
    _restore(points, 1, branch="side")
    assert query(points, branch="side") == POINTS
    assert data.indexes(points) == {}
    assert list(data.indexes(points, branch="side", version=2)) == ["id_idx"]
    stats = points.get_table_stats(api.GetTableStatsRequest(id=["points"], branch="side"))
    assert stats.num_rows == 4


def test_a_branch_grows_from_a_branch_and_has_tags(points: Catalog) -> None:
    branch(points, "side", from_version=2)
    branch(points, "side/twig", from_branch="side")
    tag(points, "there", 2, branch="side")
    assert _branches(points)["side/twig"].parent_branch == "side"
    assert _tagged(points, "there") == (2, "side")
    assert count(points, branch="side/twig") == 5


def test_a_branch_is_deleted_unless_it_is_needed(points: Catalog) -> None:
    branch(points, "side", from_version=1)
    branch(points, "twig", from_branch="side")
    with refused(ErrorCode.UNSUPPORTED):
        _cut(points, "side")
    _cut(points, "twig")
    tag(points, "there", 1, branch="side")
    with refused(ErrorCode.UNSUPPORTED) as caught:
        _cut(points, "side")
    assert "tag 'there'" in caught.value.message
    _untag(points, "there")
    _cut(points, "side")
    assert _branches(points) == {}
    with refused(ErrorCode.TABLE_BRANCH_NOT_FOUND):
        insert(points, branch="side")


def test_a_name_of_a_branch_that_is_gone_can_be_used_again(points: Catalog) -> None:
    branch(points, "side", from_version=1)
    for _ in range(3):
        insert(points, branch="side")
    request = api.BatchDeleteTableVersionsRequest(
        id=["points"], branch="side", ranges=[VersionRange(start_version=1, end_version=4)]
    )
    assert points.batch_delete_table_versions(request).deleted_count == 3
    _cut(points, "side")
    branch(points, "side", from_version=1)
    insert(points, branch="side")
    assert count(points, branch="side") == 8
    assert count(points, branch="side", version=1) == 4


def test_what_is_wrong_with_a_branch_is_said(points: Catalog) -> None:
    branch(points, "side", from_version=1)
    with refused(ErrorCode.TABLE_BRANCH_ALREADY_EXISTS):
        branch(points, "side")
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        branch(points, "new", from_version=9)
    with refused(ErrorCode.TABLE_VERSION_NOT_FOUND):
        branch(points, "new", from_version=0)
    with refused(ErrorCode.TABLE_BRANCH_NOT_FOUND):
        branch(points, "new", from_branch="nope")
    with refused(ErrorCode.TABLE_BRANCH_NOT_FOUND):
        _cut(points, "nope")
    for name in ("", "main", "a b", "../x", "a//b"):
        with refused(ErrorCode.INVALID_INPUT):
            branch(points, name)
    assert list(_branches(points)) == ["side"]
    assert count(points, branch="side") == 4


@on_disk
@one_mode
def test_names_are_listed_in_pages(points: Catalog) -> None:
    for name in ("b", "c", "a"):
        tag(points, name, 1)
        branch(points, name, from_version=1)
    first = points.list_table_tags(api.ListTableTagsRequest(id=["points"], limit=2))
    assert list(first.tags) == ["a", "b"]
    assert list(_tags(points, page_token=first.page_token)) == ["c"]
    begun = points.list_table_branches(api.ListTableBranchesRequest(id=["points"], limit=1))
    assert list(begun.branches) == ["a"]
    assert list(_branches(points, page_token=begun.page_token)) == ["b", "c"]
