"""What became of a transaction, and several operations as one batch."""

from __future__ import annotations

from typing import Any

import lance_namespace as api
import pytest
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client import models

from tests.behaviours import data
from tests.behaviours.calls import create, make_namespace, refused, tables
from tests.behaviours.data import POINTS, insert
from tests.behaviours.modes import in_directory_mode, with_manifest

Catalog = api.LanceNamespace


@pytest.fixture
def points(catalog: Catalog) -> Catalog:
    create(catalog, "points", data=POINTS)
    return catalog


def _describe(catalog: Catalog, *id: str) -> dict[str, str]:
    answer = catalog.describe_transaction(api.DescribeTransactionRequest(id=list(id)))
    assert answer.status == "SUCCEEDED"
    assert answer.properties is not None
    return answer.properties


def _alter(catalog: Catalog, transaction: str, **action: Any) -> str:
    request = api.AlterTransactionRequest(
        id=["points", transaction], actions=[models.AlterTransactionAction(**action)]
    )
    return catalog.alter_transaction(request).status


def test_a_transaction_is_found_by_its_id_and_by_its_version(points: Catalog) -> None:
    transaction = insert(points).transaction_id
    assert transaction is not None
    told = _describe(points, "points", transaction)
    assert (told["version"], told["read_version"], told["operation"]) == ("2", "1", "Append")
    assert _describe(points, "points", "2") == told


def test_a_transaction_of_a_branch_is_found(points: Catalog) -> None:
    data.branch(points, "side")
    transaction = data.delete(points, "id = 1", branch="side").transaction_id
    assert transaction is not None
    assert _describe(points, "points", transaction)["operation"] == "Delete"


def test_a_missing_transaction_is_not_found(points: Catalog) -> None:
    for wanted in ("9", "nope", "00000000-0000-0000-0000-000000000000"):
        with refused(ErrorCode.TRANSACTION_NOT_FOUND):
            _describe(points, "points", wanted)
    with refused(ErrorCode.TABLE_NOT_FOUND):
        _describe(points, "nope", "1")
    with refused(ErrorCode.INVALID_INPUT):
        _describe(points, "points")


def test_a_transaction_that_is_committed_stays_as_it_is(points: Catalog) -> None:
    status, setting = models.AlterTransactionSetStatus, models.AlterTransactionSetProperty
    unsetting = models.AlterTransactionUnsetProperty
    assert _alter(points, "1", set_status_action=status(status="succeeded")) == "SUCCEEDED"
    assert _alter(points, "1", unset_property_action=unsetting(key="none")) == "SUCCEEDED"
    for refusal in (
        {"set_status_action": status(status="Canceled")},
        {"set_property_action": setting(key="a", value="b")},
        {"unset_property_action": unsetting(key="uuid")},
    ):
        with refused(ErrorCode.UNSUPPORTED):
            _alter(points, "1", **refusal)
    with refused(ErrorCode.INVALID_INPUT):
        _alter(points, "1")
    with refused(ErrorCode.INVALID_INPUT):
        _alter(points, "1", unset_property_action=unsetting(key="none", mode="Fail"))


# -- batches


def _commit(catalog: Catalog, *operations: dict[str, Any]) -> api.BatchCommitTablesResponse:
    request = api.BatchCommitTablesRequest(
        operations=[models.CommitTableOperation(**wanted) for wanted in operations]
    )
    return catalog.batch_commit_tables(request)


def _declaring(*id: str) -> dict[str, Any]:
    return {"declare_table": api.DeclareTableRequest(id=list(id))}


@with_manifest
def test_tables_are_declared_together_or_not_at_all(catalog: Catalog) -> None:
    make_namespace(catalog, "lake")
    answer = _commit(catalog, _declaring("lake", "a"), _declaring("lake", "b"))
    assert all(result.declare_table and result.declare_table.location for result in answer.results)
    assert tables(catalog, "lake") == ["a", "b"]
    with refused(ErrorCode.TABLE_ALREADY_EXISTS):
        _commit(catalog, _declaring("lake", "c"), _declaring("lake", "a"))
    assert tables(catalog, "lake") == ["a", "b"]


def test_one_operation_of_any_kind_is_a_batch_too(points: Catalog) -> None:
    insert(points)
    ranges = [models.VersionRange(start_version=1, end_version=2)]
    delete = api.BatchDeleteTableVersionsRequest(id=["points"], ranges=ranges)
    answer = _commit(points, {"delete_table_versions": delete})
    assert answer.results[0].delete_table_versions is not None
    assert answer.results[0].delete_table_versions.deleted_count == 1
    deregister = api.DeregisterTableRequest(id=["points"])
    assert _commit(points, {"deregister_table": deregister}).results[0].deregister_table
    assert tables(points) == []


@in_directory_mode
def test_what_would_take_several_commits_is_refused(catalog: Catalog) -> None:
    with refused(ErrorCode.UNSUPPORTED):
        _commit(catalog, _declaring("a"), _declaring("b"))
    assert tables(catalog) == []


def test_versions_of_several_tables_need_a_managed_catalog(points: Catalog) -> None:
    new = api.CreateTableVersionRequest(id=["points"], version=2, manifest_path="nowhere")
    with refused(ErrorCode.UNSUPPORTED) as caught:
        _commit(points, {"create_table_version": new}, {"create_table_version": new})
    assert "versions.manage" in (caught.value.hint or "")


def test_operations_of_several_kinds_are_refused_before_any_is_done(points: Catalog) -> None:
    deregister = {"deregister_table": api.DeregisterTableRequest(id=["points"])}
    with refused(ErrorCode.UNSUPPORTED):
        _commit(points, _declaring("other"), deregister)
    with refused(ErrorCode.INVALID_INPUT):
        _commit(points, {})
    assert tables(points) == ["points"]
