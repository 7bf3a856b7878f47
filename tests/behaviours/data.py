"""Requests about the data of a table, in the words of a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lance_namespace as api
import pyarrow as pa
from lance_namespace.errors import ErrorCode
from lance_namespace_urllib3_client import models

from tests.behaviours.calls import ipc

Catalog = api.LanceNamespace

POINTS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4]),
        "text": pa.array(["the red fox", "a blue bird", "the red bird", "a grey cat"]),
        "vector": pa.array([[1, 0], [2, 0], [3, 0], [4, 0]], pa.list_(pa.float32(), 2)),
        "inner": pa.array([{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}]),
    }
)


def query_request(
    *table: str, vector: Sequence[Any] = (), k: int = 10, **rest: Any
) -> api.QueryTableRequest:
    """A plain scan, unless a vector is given, or several."""
    if isinstance(rest.get("columns"), dict):
        rest["columns"] = models.QueryTableRequestColumns(column_aliases=rest["columns"])
    elif "columns" in rest:
        rest["columns"] = models.QueryTableRequestColumns(column_names=rest["columns"])
    if "text" in rest:
        rest["full_text_query"] = text_query(rest.pop("text"))
    many = bool(vector) and isinstance(vector[0], list)
    given = {"multi_vector" if many else "single_vector": list(vector)} if vector else {}
    return api.QueryTableRequest(
        id=list(table or ("points",)), k=k, vector=models.QueryTableRequestVector(**given), **rest
    )


def text_query(asked: str | models.FtsQuery) -> models.QueryTableRequestFullTextQuery:
    if isinstance(asked, str):
        return models.QueryTableRequestFullTextQuery(
            string_query=models.StringFtsQuery(query=asked)
        )
    return models.QueryTableRequestFullTextQuery(
        structured_query=models.StructuredFtsQuery(query=asked)
    )


def query(catalog: Catalog, *table: str, **rest: Any) -> pa.Table:
    answer = catalog.query_table(query_request(*table, **rest))
    assert isinstance(answer.data, bytes)
    return pa.ipc.open_file(answer.data).read_all()


def ids(catalog: Catalog, **rest: Any) -> list[int]:
    return sorted(query(catalog, k=0, columns=["id"], **rest)["id"].to_pylist())


def matching_ids(catalog: Catalog, **rest: Any) -> list[int]:
    """The ids that a search finds, best first."""
    return query(catalog, **rest)["id"].to_pylist()


def count(catalog: Catalog, **rest: Any) -> int | None:
    return catalog.count_table_rows(api.CountTableRowsRequest(id=["points"], **rest)).count


def insert(catalog: Catalog, data: pa.Table = POINTS, **rest: Any) -> api.InsertIntoTableResponse:
    return catalog.insert_into_table(api.InsertIntoTableRequest(id=["points"], **rest), ipc(data))


def merge(catalog: Catalog, data: pa.Table, **rest: Any) -> api.MergeInsertIntoTableResponse:
    request = api.MergeInsertIntoTableRequest(id=["points"], **{"on": ["id"], **rest})
    return catalog.merge_insert_into_table(request, ipc(data))


def update(
    catalog: Catalog, *updates: tuple[str, str], where: str | None = None, **rest: Any
) -> api.UpdateTableResponse:
    return catalog.update_table(
        api.UpdateTableRequest(
            id=["points"], updates=[list(pair) for pair in updates], predicate=where, **rest
        )
    )


def delete(catalog: Catalog, where: str, **rest: Any) -> api.DeleteFromTableResponse:
    return catalog.delete_from_table(
        api.DeleteFromTableRequest(id=["points"], predicate=where, **rest)
    )


def index(catalog: Catalog, column: str, kind: str, **rest: Any) -> api.CreateTableIndexResponse:
    return catalog.create_table_index(
        api.CreateTableIndexRequest(id=["points"], column=column, index_type=kind, **rest)
    )


def indexes(catalog: Catalog, **rest: Any) -> dict[str, models.IndexContent]:
    answer = catalog.list_table_indices(api.ListTableIndicesRequest(id=["points"], **rest))
    return {index.index_name: index for index in answer.indexes}


def tag(catalog: Catalog, name: str, version: int, **rest: Any) -> None:
    catalog.create_table_tag(
        api.CreateTableTagRequest(id=["points"], tag=name, version=version, **rest)
    )


def branch(catalog: Catalog, name: str, **rest: Any) -> None:
    catalog.create_table_branch(api.CreateTableBranchRequest(id=["points"], name=name, **rest))


def add_column(name: str = "twice", expression: str | None = "id * 2", **rest: Any) -> Any:
    return api.AlterTableAddColumnsRequest(
        id=["points"],
        new_columns=[models.AddColumnsEntry(name=name, expression=expression)],
        **rest,
    )


_AS_IT_IS = models.AlterTransactionAction(
    set_status_action=models.AlterTransactionSetStatus(status="Succeeded")
)

# -- every operation on the data of the table "points", by its name

READS: dict[str, Callable[[Catalog], object]] = {
    "count_table_rows": count,
    "query_table": query,
    "explain_table_query_plan": lambda c: c.explain_table_query_plan(
        api.ExplainTableQueryPlanRequest(id=["points"], query=query_request())
    ),
    "analyze_table_query_plan": lambda c: c.analyze_table_query_plan(
        api.AnalyzeTableQueryPlanRequest(
            id=["points"], k=1, vector=models.QueryTableRequestVector()
        )
    ),
    "get_table_stats": lambda c: c.get_table_stats(api.GetTableStatsRequest(id=["points"])),
    "list_table_indices": indexes,
    "describe_table_index_stats": lambda c: c.describe_table_index_stats(
        api.DescribeTableIndexStatsRequest(id=["points"], index_name="id_idx")
    ),
    "list_table_tags": lambda c: c.list_table_tags(api.ListTableTagsRequest(id=["points"])),
    "get_table_tag_version": lambda c: c.get_table_tag_version(
        api.GetTableTagVersionRequest(id=["points"], tag="first")
    ),
    "list_table_branches": lambda c: c.list_table_branches(
        api.ListTableBranchesRequest(id=["points"])
    ),
    "describe_transaction": lambda c: c.describe_transaction(
        api.DescribeTransactionRequest(id=["points", "1"])
    ),
    "alter_transaction": lambda c: c.alter_transaction(
        api.AlterTransactionRequest(id=["points", "1"], actions=[_AS_IT_IS])
    ),
}
CHANGES: dict[str, Callable[[Catalog], object]] = {
    "insert_into_table": insert,
    "merge_insert_into_table": lambda c: merge(c, POINTS, when_matched_update_all=True),
    "update_table": lambda c: update(c, ("id", "id + 1")),
    "delete_from_table": lambda c: delete(c, "id = 1"),
    "alter_table_add_columns": lambda c: c.alter_table_add_columns(add_column()),
    "alter_table_alter_columns": lambda c: c.alter_table_alter_columns(
        api.AlterTableAlterColumnsRequest(
            id=["points"], alterations=[models.AlterColumnsEntry(path="text", rename="words")]
        )
    ),
    "alter_table_drop_columns": lambda c: c.alter_table_drop_columns(
        api.AlterTableDropColumnsRequest(id=["points"], columns=["text"])
    ),
    "update_table_schema_metadata": lambda c: c.update_table_schema_metadata(
        api.UpdateTableSchemaMetadataRequest(id=["points"], metadata={"owner": "ada"})
    ),
    "update_field_metadata": lambda c: c.update_field_metadata(
        api.UpdateFieldMetadataRequest(
            id=["points"],
            updates=[models.UpdateFieldMetadataEntry(path="id", metadata={"unit": "none"})],
        )
    ),
    "create_table_index": lambda c: index(c, "text", "FTS"),
    "create_table_scalar_index": lambda c: c.create_table_scalar_index(
        api.CreateTableIndexRequest(id=["points"], column="id", index_type="BTREE", name="other")
    ),
    "drop_table_index": lambda c: c.drop_table_index(
        api.DropTableIndexRequest(id=["points"], index_name="id_idx")
    ),
    "restore_table": lambda c: c.restore_table(api.RestoreTableRequest(id=["points"], version=1)),
}
# They write, and make no version.
NAMES: dict[str, Callable[[Catalog], object]] = {
    "create_table_tag": lambda c: tag(c, "second", 1),
    "update_table_tag": lambda c: c.update_table_tag(
        api.UpdateTableTagRequest(id=["points"], tag="first", version=2)
    ),
    "delete_table_tag": lambda c: c.delete_table_tag(
        api.DeleteTableTagRequest(id=["points"], tag="first")
    ),
    "create_table_branch": lambda c: branch(c, "other"),
    "delete_table_branch": lambda c: c.delete_table_branch(
        api.DeleteTableBranchRequest(id=["points"], name="side")
    ),
}
DATA_CALLS = READS | CHANGES | NAMES


def _alter(catalog: Catalog, path: str, **rest: Any) -> object:
    return catalog.alter_table_alter_columns(
        api.AlterTableAlterColumnsRequest(
            id=["points"], alterations=[models.AlterColumnsEntry(path=path, **rest)]
        )
    )


# For every operation a request that is wrong, and the code of the error.
REFUSALS: dict[str, tuple[Callable[[Catalog], object], ErrorCode]] = {
    "count_table_rows": (
        lambda c: count(c, predicate="nope = 1"),
        ErrorCode.TABLE_COLUMN_NOT_FOUND,
    ),
    "query_table": (lambda c: query(c, filter="id = 1 AN id"), ErrorCode.INVALID_INPUT),
    "explain_table_query_plan": (
        lambda c: c.explain_table_query_plan(
            api.ExplainTableQueryPlanRequest(id=["points"], query=query_request(vector=[1]))
        ),
        ErrorCode.INVALID_INPUT,
    ),
    "analyze_table_query_plan": (
        lambda c: c.analyze_table_query_plan(
            api.AnalyzeTableQueryPlanRequest(
                id=["points"], k=1, vector=models.QueryTableRequestVector(), version=9
            )
        ),
        ErrorCode.TABLE_VERSION_NOT_FOUND,
    ),
    "get_table_stats": (
        lambda c: c.get_table_stats(api.GetTableStatsRequest(id=["points"], branch="nope")),
        ErrorCode.TABLE_BRANCH_NOT_FOUND,
    ),
    "insert_into_table": (
        lambda c: insert(c, pa.table({"id": ["one"]})),
        ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR,
    ),
    "merge_insert_into_table": (
        lambda c: merge(c, POINTS, on=["nope"], when_matched_update_all=True),
        ErrorCode.TABLE_COLUMN_NOT_FOUND,
    ),
    "update_table": (lambda c: update(c, ("id", "1 1")), ErrorCode.INVALID_INPUT),
    "delete_from_table": (lambda c: delete(c, "nope = 1"), ErrorCode.TABLE_COLUMN_NOT_FOUND),
    "alter_table_add_columns": (
        lambda c: c.alter_table_add_columns(add_column("id", "1")),
        ErrorCode.INVALID_INPUT,
    ),
    "alter_table_alter_columns": (
        lambda c: _alter(c, "nope", rename="x"),
        ErrorCode.TABLE_COLUMN_NOT_FOUND,
    ),
    "alter_table_drop_columns": (
        lambda c: c.alter_table_drop_columns(
            api.AlterTableDropColumnsRequest(id=["points"], columns=["nope"])
        ),
        ErrorCode.TABLE_COLUMN_NOT_FOUND,
    ),
    "update_table_schema_metadata": (
        lambda c: c.update_table_schema_metadata(
            api.UpdateTableSchemaMetadataRequest(id=["points"])
        ),
        ErrorCode.INVALID_INPUT,
    ),
    "update_field_metadata": (
        lambda c: c.update_field_metadata(
            api.UpdateFieldMetadataRequest(
                id=["points"],
                updates=[models.UpdateFieldMetadataEntry(path="nope", metadata={"a": "b"})],
            )
        ),
        ErrorCode.TABLE_COLUMN_NOT_FOUND,
    ),
    "create_table_index": (
        lambda c: index(c, "id", "BTREE"),
        ErrorCode.TABLE_INDEX_ALREADY_EXISTS,
    ),
    "create_table_scalar_index": (
        lambda c: c.create_table_scalar_index(
            api.CreateTableIndexRequest(id=["points"], column="id", index_type="IVF_PQ")
        ),
        ErrorCode.INVALID_INPUT,
    ),
    "list_table_indices": (lambda c: indexes(c, version=9), ErrorCode.TABLE_VERSION_NOT_FOUND),
    "describe_table_index_stats": (
        lambda c: c.describe_table_index_stats(
            api.DescribeTableIndexStatsRequest(id=["points"], index_name="nope")
        ),
        ErrorCode.TABLE_INDEX_NOT_FOUND,
    ),
    "drop_table_index": (
        lambda c: c.drop_table_index(api.DropTableIndexRequest(id=["points"], index_name="nope")),
        ErrorCode.TABLE_INDEX_NOT_FOUND,
    ),
    "restore_table": (
        lambda c: c.restore_table(api.RestoreTableRequest(id=["points"], version=9)),
        ErrorCode.TABLE_VERSION_NOT_FOUND,
    ),
    "create_table_tag": (lambda c: tag(c, "first", 1), ErrorCode.TABLE_TAG_ALREADY_EXISTS),
    "update_table_tag": (
        lambda c: c.update_table_tag(
            api.UpdateTableTagRequest(id=["points"], tag="nope", version=1)
        ),
        ErrorCode.TABLE_TAG_NOT_FOUND,
    ),
    "delete_table_tag": (
        lambda c: c.delete_table_tag(api.DeleteTableTagRequest(id=["points"], tag="nope")),
        ErrorCode.TABLE_TAG_NOT_FOUND,
    ),
    "get_table_tag_version": (
        lambda c: c.get_table_tag_version(api.GetTableTagVersionRequest(id=["points"], tag="nope")),
        ErrorCode.TABLE_TAG_NOT_FOUND,
    ),
    "create_table_branch": (lambda c: branch(c, "side"), ErrorCode.TABLE_BRANCH_ALREADY_EXISTS),
    "delete_table_branch": (
        lambda c: c.delete_table_branch(api.DeleteTableBranchRequest(id=["points"], name="nope")),
        ErrorCode.TABLE_BRANCH_NOT_FOUND,
    ),
    "describe_transaction": (
        lambda c: c.describe_transaction(api.DescribeTransactionRequest(id=["points", "9"])),
        ErrorCode.TRANSACTION_NOT_FOUND,
    ),
    "alter_transaction": (
        lambda c: c.alter_transaction(
            api.AlterTransactionRequest(id=["points", "9"], actions=[_AS_IT_IS])
        ),
        ErrorCode.TRANSACTION_NOT_FOUND,
    ),
}
