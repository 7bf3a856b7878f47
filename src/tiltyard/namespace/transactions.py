"""Operations on transactions: what became of one, and several of the catalog's at once."""

from __future__ import annotations

from typing import Any

import lance_namespace as api
from lance_namespace_urllib3_client.models.alter_transaction_action import AlterTransactionAction
from lance_namespace_urllib3_client.models.commit_table_operation import CommitTableOperation
from lance_namespace_urllib3_client.models.commit_table_result import CommitTableResult
from lance_namespace_urllib3_client.models.create_table_version_entry import (
    CreateTableVersionEntry,
)

from tiltyard.catalog import names
from tiltyard.catalog.base import Table
from tiltyard.errors import (
    InvalidInputError,
    TableVersionNotFoundError,
    TransactionNotFoundError,
    UnsupportedOperationError,
)
from tiltyard.namespace.base import CatalogBase, operation
from tiltyard.namespace.tables import declare
from tiltyard.tables import refs, transactions
from tiltyard.tables.describe import At
from tiltyard.tables.transactions import SUCCEEDED, Commit


class TransactionOperations(CatalogBase):
    """Describing transactions, and committing to several tables."""

    @operation("describe transaction")
    def describe_transaction(
        self, request: api.DescribeTransactionRequest
    ) -> api.DescribeTransactionResponse:
        """A commit of a table, by the table's id and after it the transaction's, or a version."""
        commit = self._commit(request.id)
        return api.DescribeTransactionResponse(status=SUCCEEDED, properties=commit.described())

    @operation("alter transaction")
    def alter_transaction(
        self, request: api.AlterTransactionRequest
    ) -> api.AlterTransactionResponse:
        """What is asked of a transaction that is committed may change nothing of it."""
        properties = self._commit(request.id).described()
        for action in request.actions:
            _must_change_nothing(action, properties)
        return api.AlterTransactionResponse(status=SUCCEEDED, properties=properties)

    def _commit(self, id: list[str] | None) -> Commit:
        parts = list(id or ())
        if len(parts) < 2 or not parts[-1]:
            raise InvalidInputError(
                "a transaction is named by the id of its table and, after it, its own"
            )
        table, wanted = self.services.access.find(parts[:-1]), parts[-1]
        dataset = self.services.access.read(table)
        for branch in (None, *refs.branches(dataset)):
            commit = self._commit_on(table, branch, wanted)
            if commit is not None:
                return commit
        raise TransactionNotFoundError(
            f"table {names.display(table.id)} has no transaction '{wanted}'"
        )

    def _commit_on(self, table: Table, branch: str | None, wanted: str) -> Commit | None:
        if wanted.isdecimal():
            try:
                self.services.versions.describe(table.id, int(wanted), branch)
            except TableVersionNotFoundError:
                return None
            return transactions.at(self.services.access.open(table, At(branch=branch)), int(wanted))
        inside = "" if branch is None else f"/{names.BRANCHES_DIRECTORY}/{branch}"
        location = f"{table.location}{inside}"
        begun = transactions.read_versions(self.context.store, location, wanted)
        if not begun:
            return None
        visible = [file.version for file in self.services.versions.visible(table.id, branch)]
        later = (version for version in visible if version > min(begun))
        return transactions.find(self.services.access.open(table, At(branch=branch)), later, wanted)

    @operation("commit to tables")
    def batch_commit_tables(
        self, request: api.BatchCommitTablesRequest
    ) -> api.BatchCommitTablesResponse:
        """Operations of one kind, all of them or none: declared tables, or new versions.

        New versions need tables whose versions are managed, and declared ones a manifest.
        """
        if not request.operations:
            raise InvalidInputError("no operation is given to commit")
        kinds = [_kind_of(wanted) for wanted in request.operations]
        requests = [
            getattr(wanted, kind) for wanted, kind in zip(request.operations, kinds, strict=True)
        ]
        if len(set(kinds)) > 1:
            raise UnsupportedOperationError(
                f"operations of several kinds can't be committed at once: "
                f"{', '.join(sorted(set(kinds)))}",
                hint="commit those of each kind by themselves",
            )
        answers = self._batch(kinds[0], requests)
        return api.BatchCommitTablesResponse(
            results=[CommitTableResult(**{kinds[0]: answer}) for answer in answers]
        )

    def _batch(self, kind: str, requests: list[Any]) -> list[Any]:
        if len(requests) > 1:
            self._must_be_one_commit(kind, requests)
        if kind == "declare_table":
            return list(declare(self.services, requests))
        if kind == "create_table_version":
            entries = [
                CreateTableVersionEntry(**request.model_dump(exclude={"context", "identity"}))
                for request in requests
            ]
            created = self.batch_create_table_versions(
                api.BatchCreateTableVersionsRequest(entries=entries)
            )
            return [api.CreateTableVersionResponse(version=version) for version in created.versions]
        if kind == "delete_table_versions":
            return [self.batch_delete_table_versions(requests[0])]
        return [self.deregister_table(requests[0])]

    def _must_be_one_commit(self, kind: str, requests: list[Any]) -> None:
        hint = "commit them one after the other"
        if kind == "create_table_version":
            at_once = all(self.services.access.find(request.id).managed for request in requests)
            hint = "versions.manage makes that possible"
        else:
            at_once = kind == "declare_table" and self.context.settings.manifest_enabled
        if not at_once:
            raise UnsupportedOperationError(
                f"{kind} can't be done here for several tables in one commit", hint=hint
            )


_KINDS = ("declare_table", "create_table_version", "delete_table_versions", "deregister_table")


def _kind_of(operation: CommitTableOperation) -> str:
    given = [kind for kind in _KINDS if getattr(operation, kind) is not None]
    if len(given) != 1:
        raise InvalidInputError(f"an operation is one of {', '.join(_KINDS)}")
    return given[0]


def _must_change_nothing(action: AlterTransactionAction, properties: dict[str, str]) -> None:
    status, setting, unsetting = (
        action.set_status_action,
        action.set_property_action,
        action.unset_property_action,
    )
    if [status, setting, unsetting].count(None) != 2:
        raise InvalidInputError("an action sets a status, or sets or unsets a property")
    if status is not None and (status.status or "").replace("_", "").upper() == SUCCEEDED:
        return
    if setting is not None and properties.get(setting.key or "") == setting.value:
        return
    if unsetting is not None and unsetting.key not in properties:
        if (unsetting.mode or "skip").lower() == "fail":
            raise InvalidInputError(f"the transaction has no property {unsetting.key!r}")
        return
    raise UnsupportedOperationError(
        "the transaction is committed, and Lance keeps what it has committed as it is"
    )
