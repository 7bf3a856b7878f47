"""Operations that change the columns of a table, and what is noted about them."""

from __future__ import annotations

import lance_namespace as api

from tiltyard.errors import UnsupportedOperationError
from tiltyard.namespace.data import DataOperations
from tiltyard.namespace.requests import operation
from tiltyard.tables import columns, transactions


class ColumnOperations(DataOperations):
    """Adding, altering and dropping columns; metadata of the schema and of fields."""

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

    # -- what a directory has nobody for

    @operation("backfill columns of table")
    def alter_table_backfill_columns(
        self, request: api.AlterTableBackfillColumnsRequest
    ) -> api.AlterTableBackfillColumnsResponse:
        self._found(request.id)
        raise UnsupportedOperationError(
            f"columns can't be backfilled: {columns.NO_FUNCTIONS}",
            hint="add the column with an expression, or write it with Spark",
        )

    @operation("create materialized view")
    def create_materialized_view(
        self, request: api.CreateMaterializedViewRequest
    ) -> api.CreateMaterializedViewResponse:
        raise UnsupportedOperationError(
            "there are no materialized views: a directory has nobody to refresh them",
            hint="write the result of the query as a table",
        )

    @operation("refresh materialized view")
    def refresh_materialized_view(
        self, request: api.RefreshMaterializedViewRequest
    ) -> api.RefreshMaterializedViewResponse:
        raise UnsupportedOperationError(
            "there are no materialized views: a directory has nobody to refresh them",
            hint="write the result of the query as a table again",
        )
