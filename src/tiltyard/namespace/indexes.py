"""Operations on the indexes of a table."""

from __future__ import annotations

import lance_namespace as api

from tiltyard.namespace.data import DataOperations
from tiltyard.namespace.requests import operation
from tiltyard.paging import page
from tiltyard.tables import indexes, transactions


class IndexOperations(DataOperations):
    """Building, listing, describing and dropping."""

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
        found = {each.index_name: each for each in indexes.describe(dataset)}
        chosen, token = page(list(found), request.page_token, request.limit)
        return api.ListTableIndicesResponse(
            indexes=[found[name] for name in chosen], page_token=token
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
