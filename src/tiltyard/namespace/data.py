"""Operations on the rows, the columns and the indexes of a table.

Each change is one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from typing import TYPE_CHECKING, BinaryIO

import lance_namespace as api
import pyarrow as pa

from tiltyard.catalog import names
from tiltyard.catalog.base import CreateMode
from tiltyard.errors import InvalidInputError, TableAlreadyExistsError, UnsupportedOperationError
from tiltyard.namespace.access import NoDataYetError, branch_of
from tiltyard.namespace.base import CatalogBase, choice, operation
from tiltyard.paging import page
from tiltyard.tables import columns, describe, indexes, queries, rows, sql, transactions
from tiltyard.tables.ipc import check_schema, read_ipc, write_ipc, write_ipc_to

if TYPE_CHECKING:
    import lance


class InsertMode(StrEnum):
    """What becomes of the rows that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class DataOperations(CatalogBase):
    """Rows, queries, columns and indexes."""

    def _read(
        self, id: Sequence[str] | None, version: int | None = None, branch: str | None = None
    ) -> lance.LanceDataset:
        """A version of a table or of a branch; by default the latest of the main branch."""
        access = self.services.access
        return access.read(access.find(id), describe.At(version, branch=branch_of(branch)))

    def _change(
        self, id: Sequence[str] | None, branch: str | None
    ) -> AbstractContextManager[lance.LanceDataset]:
        """A branch of a table, open for one change."""
        return self.services.access.change(self.services.access.find(id), branch)

    # -- rows

    @operation("insert into table")
    def insert_into_table(
        self, request: api.InsertIntoTableRequest, request_data: bytes
    ) -> api.InsertIntoTableResponse:
        """Add rows, or replace all of them. A declared table gets its first version."""
        mode = choice(InsertMode, request.mode, "insert mode")
        data = read_ipc(request_data)
        check_schema(data.schema)
        try:
            return self._insert(request, data, mode)
        except NoDataYetError:
            if branch_of(request.branch) is not None:
                raise
        try:
            created = self.services.creation.create(
                names.parse_table_id(request.id), data, CreateMode.CREATE, {}
            )
        except TableAlreadyExistsError:  # another's first version came first
            return self._insert(request, data, mode)
        return api.InsertIntoTableResponse(num_inserted_rows=len(data), version=created.version)

    def _insert(
        self, request: api.InsertIntoTableRequest, data: pa.Table, mode: InsertMode
    ) -> api.InsertIntoTableResponse:
        with self._change(request.id, request.branch) as dataset:
            rows.insert(dataset, data, overwrite=mode is InsertMode.OVERWRITE)
            return api.InsertIntoTableResponse(
                num_inserted_rows=len(data),
                version=dataset.version,
                transaction_id=transactions.of(dataset),
            )

    @operation("merge into table")
    def merge_insert_into_table(
        self, request: api.MergeInsertIntoTableRequest, request_data: bytes
    ) -> api.MergeInsertIntoTableResponse:
        """Insert, update and delete by comparing rows with those that are there."""
        data = read_ipc(request_data)
        with self._change(request.id, request.branch) as dataset:
            merged = rows.merge(dataset, data, request)
            return api.MergeInsertIntoTableResponse(
                num_inserted_rows=merged.inserted,
                num_updated_rows=merged.updated,
                num_deleted_rows=merged.deleted,
                version=dataset.version,
                transaction_id=transactions.of(dataset),
            )

    @operation("update table")
    def update_table(self, request: api.UpdateTableRequest) -> api.UpdateTableResponse:
        """Set columns to expressions, in the rows that a predicate chooses or in all."""
        if request.properties:
            raise UnsupportedOperationError(
                "an update changes rows; the properties of a table can't be changed with it"
            )
        with self._change(request.id, request.branch) as dataset:
            updated = rows.update(dataset, request)
            return api.UpdateTableResponse(
                updated_rows=updated,
                version=dataset.version,
                transaction_id=transactions.of(dataset),
            )

    @operation("delete from table")
    def delete_from_table(self, request: api.DeleteFromTableRequest) -> api.DeleteFromTableResponse:
        """Delete the rows that a predicate chooses."""
        with self._change(request.id, request.branch) as dataset:
            rows.delete(dataset, request.predicate)
            return api.DeleteFromTableResponse(
                version=dataset.version, transaction_id=transactions.of(dataset)
            )

    # -- queries

    @operation("count the rows of table")
    def count_table_rows(self, request: api.CountTableRowsRequest) -> api.CountTableRowsResponse:
        """Without a predicate from the table's metadata alone."""
        dataset = self._read(request.id, request.version, request.branch)
        counted = dataset.count_rows(sql.condition(request.predicate))
        return api.CountTableRowsResponse(count=counted)

    @operation("query table")
    def query_table(self, request: api.QueryTableRequest) -> api.QueryTableResponse:
        """Rows by filter, by a vector or by a text, as an Arrow IPC file."""
        dataset = self._read(request.id, request.version, request.branch)
        schema, batches = queries.batches(queries.scanner(dataset, request))
        return api.QueryTableResponse(data=write_ipc(schema, batches))

    @operation("query table")
    def query_table_to(self, request: api.QueryTableRequest, sink: BinaryIO) -> None:
        """The same into a file, batch after batch: the answer need not fit into memory."""
        dataset = self._read(request.id, request.version, request.branch)
        write_ipc_to(sink, *queries.batches(queries.scanner(dataset, request)))

    @operation("explain a query of table")
    def explain_table_query_plan(self, request: api.ExplainTableQueryPlanRequest) -> str:
        """How Lance would answer a query, without a row being read."""
        query = request.query
        if query.id is not None and request.id is not None and query.id != request.id:
            raise InvalidInputError("the query names another table than the request")
        branches = {name for name in (request.branch, query.branch) if name is not None}
        if len(branches) > 1:
            raise InvalidInputError("the query names another branch than the request")
        dataset = self._read(request.id or query.id, query.version, next(iter(branches), None))
        return queries.scanner(dataset, query).explain_plan(verbose=bool(request.verbose))

    @operation("analyze a query of table")
    def analyze_table_query_plan(self, request: api.AnalyzeTableQueryPlanRequest) -> str:
        """How Lance answers a query, and what each step took. The query is run."""
        dataset = self._read(request.id, request.version, request.branch)
        return queries.scanner(dataset, request).analyze_plan()

    @operation("get statistics of table")
    def get_table_stats(self, request: api.GetTableStatsRequest) -> api.GetTableStatsResponse:
        """Rows, bytes, indexes and how the rows are spread over fragments."""
        return describe.statistics(self._read(request.id, branch=request.branch))

    # -- columns

    @operation("add columns to table")
    def alter_table_add_columns(
        self, request: api.AlterTableAddColumnsRequest
    ) -> api.AlterTableAddColumnsResponse:
        """Add columns by SQL expressions over those that are there, all in one commit."""
        with self._change(request.id, request.branch) as dataset:
            columns.add(dataset, request.new_columns)
            return api.AlterTableAddColumnsResponse(version=dataset.version)

    @operation("alter columns of table")
    def alter_table_alter_columns(
        self, request: api.AlterTableAlterColumnsRequest
    ) -> api.AlterTableAlterColumnsResponse:
        """Rename columns, change their types or whether they may be null, in one commit."""
        with self._change(request.id, request.branch) as dataset:
            columns.alter(dataset, request.alterations)
            return api.AlterTableAlterColumnsResponse(version=dataset.version)

    @operation("drop columns of table")
    def alter_table_drop_columns(
        self, request: api.AlterTableDropColumnsRequest
    ) -> api.AlterTableDropColumnsResponse:
        """Take columns out of the table; older versions keep them."""
        with self._change(request.id, request.branch) as dataset:
            columns.drop(dataset, request.columns)
            return api.AlterTableDropColumnsResponse(
                version=dataset.version, transaction_id=transactions.of(dataset)
            )

    @operation("update the schema metadata of table")
    def update_table_schema_metadata(
        self, request: api.UpdateTableSchemaMetadataRequest
    ) -> api.UpdateTableSchemaMetadataResponse:
        """Set keys of the schema's metadata; the others stay."""
        with self._change(request.id, request.branch) as dataset:
            kept = columns.note(dataset, request.metadata or {})
            return api.UpdateTableSchemaMetadataResponse(
                metadata=kept, transaction_id=transactions.of(dataset)
            )

    @operation("update the metadata of fields of table")
    def update_field_metadata(
        self, request: api.UpdateFieldMetadataRequest
    ) -> api.UpdateFieldMetadataResponse:
        """Set, replace or delete keys of fields' metadata, of all of them in one commit."""
        with self._change(request.id, request.branch) as dataset:
            kept = columns.note_fields(dataset, request.updates)
            return api.UpdateFieldMetadataResponse(version=dataset.version, fields=kept)

    @operation("backfill columns of table")
    def alter_table_backfill_columns(
        self, request: api.AlterTableBackfillColumnsRequest
    ) -> api.AlterTableBackfillColumnsResponse:
        """Always refused: there are no stored functions. UnsupportedOperationError."""
        self.services.access.find(request.id)
        raise UnsupportedOperationError(
            f"columns can't be backfilled: {columns.NO_FUNCTIONS}",
            hint="add the column with an expression, or write it with Spark",
        )

    @operation("create materialized view")
    def create_materialized_view(
        self, request: api.CreateMaterializedViewRequest
    ) -> api.CreateMaterializedViewResponse:
        """Always refused. UnsupportedOperationError."""
        raise UnsupportedOperationError(
            "there are no materialized views: nothing would refresh them",
            hint="write the result of the query as a table",
        )

    @operation("refresh materialized view")
    def refresh_materialized_view(
        self, request: api.RefreshMaterializedViewRequest
    ) -> api.RefreshMaterializedViewResponse:
        """Always refused. UnsupportedOperationError."""
        raise UnsupportedOperationError(
            "there are no materialized views: nothing would refresh them",
            hint="write the result of the query as a table again",
        )

    # -- indexes

    @operation("create an index of table")
    def create_table_index(
        self, request: api.CreateTableIndexRequest
    ) -> api.CreateTableIndexResponse:
        """Build a vector, scalar or full-text index; returns when it is built."""
        with self._change(request.id, request.branch) as dataset:
            indexes.build(dataset, request)
            return api.CreateTableIndexResponse(transaction_id=transactions.of(dataset))

    @operation("create a scalar index of table")
    def create_table_scalar_index(
        self, request: api.CreateTableIndexRequest
    ) -> api.CreateTableScalarIndexResponse:
        """Build a scalar or full-text index; returns when it is built."""
        with self._change(request.id, request.branch) as dataset:
            indexes.build(dataset, request, indexes.SCALAR_TYPES)
            return api.CreateTableScalarIndexResponse(transaction_id=transactions.of(dataset))

    @operation("list the indexes of table")
    def list_table_indices(
        self, request: api.ListTableIndicesRequest
    ) -> api.ListTableIndicesResponse:
        """The indexes of a version, in the order of their names."""
        dataset = self._read(request.id, request.version, request.branch)
        by_name = {index.index_name: index for index in indexes.describe(dataset)}
        chosen, token = page(list(by_name), request.page_token, request.limit)
        return api.ListTableIndicesResponse(
            indexes=[by_name[name] for name in chosen], page_token=token
        )

    @operation("describe an index of table")
    def describe_table_index_stats(
        self, request: api.DescribeTableIndexStatsRequest
    ) -> api.DescribeTableIndexStatsResponse:
        """How many rows an index covers, and how many came after it."""
        dataset = self._read(request.id, request.version, request.branch)
        return indexes.statistics(dataset, request.index_name)

    @operation("drop an index of table")
    def drop_table_index(self, request: api.DropTableIndexRequest) -> api.DropTableIndexResponse:
        """Take an index away; older versions keep it."""
        with self._change(request.id, request.branch) as dataset:
            indexes.drop(dataset, request.index_name)
            return api.DropTableIndexResponse(transaction_id=transactions.of(dataset))
