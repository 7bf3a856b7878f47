"""Operations on the names of versions: tags and branches, and going back to a version."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import lance_namespace as api

from tiltyard import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.errors import TableVersionNotFoundError, TiltyardError
from tiltyard.namespace.data import DataOperations, branch_of
from tiltyard.namespace.requests import operation
from tiltyard.paging import page
from tiltyard.tables import refs, transactions
from tiltyard.tables.refs import Point

if TYPE_CHECKING:
    import lance


class ReferenceOperations(DataOperations):
    """Tags, branches, restoring."""

    @operation("restore table")
    def restore_table(self, request: api.RestoreTableRequest) -> api.RestoreTableResponse:
        """Make an older version the latest one again; what came since stays in the history."""
        branch = branch_of(request.branch)
        with self._change(request.id, branch) as dataset:
            self._versions.describe(names.parse_table_id(request.id), request.version, branch)
            restored = refs.restore(dataset, request.version)
            return api.RestoreTableResponse(transaction_id=transactions.of(restored))

    # -- tags

    @operation("list the tags of table")
    def list_table_tags(self, request: api.ListTableTagsRequest) -> api.ListTableTagsResponse:
        found = refs.tags(self._read(request.id))
        chosen, token = page(list(found), request.page_token, request.limit)
        return api.ListTableTagsResponse(
            tags={name: found[name] for name in chosen}, page_token=token
        )

    @operation("look up a tag of table")
    def get_table_tag_version(
        self, request: api.GetTableTagVersionRequest
    ) -> api.GetTableTagVersionResponse:
        table = self._found(request.id)
        point = refs.tagged(self._read_found(table), table, request.tag)
        return api.GetTableTagVersionResponse(version=point.version, branch=point.branch)

    @operation("tag table")
    def create_table_tag(self, request: api.CreateTableTagRequest) -> api.CreateTableTagResponse:
        """Give a version a name; it is kept as long as it has one."""
        table = self._found(request.id)
        dataset = self._read_found(table)
        point = Point(request.version, branch_of(request.branch))
        self._must_exist(table, point)
        refs.create_tag(dataset, table, request.tag, point)
        self._must_stay(table, point, lambda: dataset.tags.delete(request.tag))
        return api.CreateTableTagResponse()

    @operation("move a tag of table")
    def update_table_tag(self, request: api.UpdateTableTagRequest) -> api.UpdateTableTagResponse:
        """Let a tag name another version."""
        table = self._found(request.id)
        dataset = self._read_found(table)
        before = refs.tagged(dataset, table, request.tag)
        point = Point(request.version, branch_of(request.branch))
        self._must_exist(table, point)
        dataset.tags.update(request.tag, point.reference)
        self._must_stay(table, point, lambda: dataset.tags.update(request.tag, before.reference))
        return api.UpdateTableTagResponse()

    @operation("delete a tag of table")
    def delete_table_tag(self, request: api.DeleteTableTagRequest) -> api.DeleteTableTagResponse:
        """Take a name away; the version stays until versions are deleted."""
        table = self._found(request.id)
        dataset = self._read_found(table)
        refs.tagged(dataset, table, request.tag)
        dataset.tags.delete(request.tag)
        return api.DeleteTableTagResponse()

    # -- branches

    @operation("list the branches of table")
    def list_table_branches(
        self, request: api.ListTableBranchesRequest
    ) -> api.ListTableBranchesResponse:
        found = refs.branches(self._read(request.id))
        chosen, token = page(list(found), request.page_token, request.limit)
        return api.ListTableBranchesResponse(
            branches={name: found[name] for name in chosen}, page_token=token
        )

    @operation("create a branch of table")
    def create_table_branch(
        self, request: api.CreateTableBranchRequest
    ) -> api.CreateTableBranchResponse:
        """Let a branch grow from a version. No data is copied."""
        table, origin = self._found(request.id), branch_of(request.from_branch)
        with self._change(request.id, origin) as dataset:
            version = request.from_version
            base = Point(dataset.version if version is None else version, origin)
            self._must_exist(table, base)
            refs.must_be_free(dataset, table, request.name)
            self._versions.begin_branch(table, request.name)
            self._branches.create(
                table,
                request.name,
                dataset,
                lambda: refs.create_branch(dataset, request.name, base),
            )
            self._must_stay(table, base, lambda: self._remove_branch(table, request.name, dataset))
        return api.CreateTableBranchResponse()

    @operation("delete a branch of table")
    def delete_table_branch(
        self, request: api.DeleteTableBranchRequest
    ) -> api.DeleteTableBranchResponse:
        """Remove a branch with its versions, unless a tag or another branch needs them."""
        table = self._found(request.id)
        self._remove_branch(table, request.name, self._read_found(table))
        return api.DeleteTableBranchResponse()

    def _remove_branch(self, table: Table, name: str, dataset: lance.LanceDataset) -> None:
        self._branches.delete(
            table, name, dataset, lambda: refs.delete_branch(dataset, table, name)
        )

    # -- what they share

    def _must_exist(self, table: Table, point: Point) -> None:
        """TableBranchNotFoundError, TableVersionNotFoundError."""
        if point.branch is not None:
            refs.must_have_branch(self._read_found(table), table, point.branch)
        self._versions.describe(table.id, point.version, point.branch)

    def _must_stay(self, table: Table, point: Point, take_back: Callable[[], None]) -> None:
        """A name counts if, after it was written, its table and its version are still there."""
        try:
            if self._catalog.find(table.id).location != table.location:
                raise no_such_table(table.id)
            if not self._versions.shows(table, point.version, point.branch):
                raise TableVersionNotFoundError(
                    f"version {point.version} of table {names.display(table.id)} was deleted "
                    f"meanwhile",
                    hint="choose another version",
                )
        except TiltyardError:
            take_back()
            raise
