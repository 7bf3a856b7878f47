"""Operations that read rows of a table, or tell how they would."""

from __future__ import annotations

from typing import BinaryIO

import lance_namespace as api

from tiltyard.errors import InvalidInputError
from tiltyard.namespace.data import DataOperations
from tiltyard.namespace.requests import operation
from tiltyard.tables import describe, queries, sql
from tiltyard.tables.ipc import write_ipc, write_ipc_to


class QueryOperations(DataOperations):
    """Counting and querying, and the plans of queries."""

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
        branches = {each for each in (request.branch, query.branch) if each is not None}
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
