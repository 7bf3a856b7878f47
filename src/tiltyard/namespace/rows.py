"""Operations that change rows of a table, each in one commit."""

from __future__ import annotations

from enum import StrEnum

import lance_namespace as api
import pyarrow as pa

from tiltyard import names
from tiltyard.catalog.base import CreateMode
from tiltyard.errors import TableAlreadyExistsError, UnsupportedOperationError
from tiltyard.namespace.data import DataOperations, NoDataYetError, branch_of
from tiltyard.namespace.requests import choice, operation
from tiltyard.tables import rows, transactions
from tiltyard.tables.ipc import check_schema, read_ipc


class InsertMode(StrEnum):
    """What becomes of the rows that are there."""

    APPEND = "append"
    OVERWRITE = "overwrite"


class RowOperations(DataOperations):
    """Inserting, merging, updating and deleting."""

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
            created = self._creation.create(
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
