"""The versions that an operation under a sidecar makes: seen, let land, taken back, kept out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import lance

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.rows import TRANSACTION
from tiltyard.catalog.pylance import FAILURES
from tiltyard.errors import ConcurrentModificationError, TableNotFoundError, TiltyardError
from tiltyard.maintenance.sidecars import Covered, Sidecar
from tiltyard.maintenance.verdicts import Found, Sight, fencing, undoing
from tiltyard.store import NotThere, Store
from tiltyard.versions.base import NewVersion
from tiltyard.versions.commit_client import CommitClient
from tiltyard.versions.lance_format import transaction_of
from tiltyard.versions.table_versions import TableVersions

log = logging.getLogger(__name__)

# How often Lance puts a fence on top of others that came first.
TRIES = 8


class Effects:
    """What operations do to the tables of one catalog. Each may be done twice."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        manifest: ManifestCatalog | None,
        versions: TableVersions,
        client_of: Callable[[Table], CommitClient],
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._manifest = manifest
        self._versions = versions
        self._client_of = client_of

    def look(self, sidecar: Sidecar, covered: Covered) -> Sight:
        """The staged manifest first: it goes after its version came."""
        staged = covered.staged is not None and self._is_there(covered.staged)
        table = self._table_of(covered)
        writer = self._writer(table, covered, covered.version)
        undone = False
        if writer == covered.transaction:
            after = self._writer(table, covered, covered.version + 1)
            undone = after == undoing(sidecar.operation, covered.location)
        head = 0
        if table is not None:
            newest = self._versions.latest(table.id)
            head = newest.version if newest else 0
        return Sight(table is not None, head, writer, undone, staged)

    def _is_there(self, key: str) -> bool:
        try:
            self._store.head(key)
        except NotThere:
            return False
        return True

    def _table_of(self, covered: Covered) -> Table | None:
        """The table where it was, under whatever name it goes by now."""
        try:
            found = self._catalog.find(covered.id)
        except TiltyardError:
            found = None
        if found is not None and found.location == covered.location:
            return found
        return None if self._manifest is None else self._manifest.table_at(covered.location)

    def _writer(self, table: Table | None, covered: Covered, version: int) -> str | None:
        """The transaction of a version, None if there is no such version."""
        if table is not None and table.managed and self._manifest is not None:
            row = self._manifest.read().version_row(names.object_id(table.id), version)
            if row is None or TRANSACTION in row.metadata:
                return None if row is None else row.metadata[TRANSACTION]
        key = version_files.key_of(covered.location, version, covered.naming)
        try:
            return transaction_of(self._store.get(key).body, key)[1]
        except NotThere:
            return None

    # -- forward

    def put_rest(self, sidecar: Sidecar, found: Sequence[Found]) -> None:
        """Let the rest land. What is refused is seen by the next look."""
        for covered, what in zip(sidecar.tables, found, strict=True):
            table = self._table_of(covered)
            if what is not Found.FREE or table is None or covered.staged is None:
                continue
            try:
                self._versions.create(
                    NewVersion(
                        table.id,
                        covered.version,
                        covered.staged,
                        covered.naming,
                        location=covered.location,
                    )
                )
            except (ConcurrentModificationError, TableNotFoundError) as refused:
                log.info("%s could not go forward: %s", names.display(table.id), refused)

    # -- back

    def take_back(self, sidecar: Sidecar, found: Sequence[Found], sights: Sequence[Sight]) -> bool:
        """Undo what landed, and keep out what has not; whether there was anything to do."""
        acted = False
        for covered, what, sight in zip(sidecar.tables, found, sights, strict=True):
            table = self._table_of(covered)
            if table is None:
                continue
            if what is Found.LANDED and sight.head == covered.version:
                self._undo(sidecar, covered, table)
                acted = True
            elif what in (Found.FREE, Found.STUCK) and covered.base_head:
                # A table without a version can't be fenced: what lands there, its owner undoes.
                self._fence(sidecar, covered, table)
                acted = True
        return acted

    def _undo(self, sidecar: Sidecar, covered: Covered, table: Table) -> None:
        """Commit what was there before, exactly after the version that is taken back."""
        uuid = undoing(sidecar.operation, covered.location)

        def operation(dataset: lance.LanceDataset) -> Any:
            if covered.expected_version:
                return lance.LanceOperation.Restore(covered.expected_version)
            return lance.LanceOperation.Overwrite(dataset.schema, [])

        self._commit(table, covered.version, uuid, operation, strictly=True)

    def _fence(self, sidecar: Sidecar, covered: Covered, table: Table) -> None:
        """Take the number that a slow owner would use, without changing what the table holds."""
        uuid = fencing(sidecar.operation, covered.location)
        config = lance.LanceOperation.UpdateMap({"tiltyard.fence": sidecar.operation})

        def operation(dataset: lance.LanceDataset) -> Any:
            return lance.LanceOperation.UpdateConfig(config_updates=config)

        self._commit(table, covered.base_head, uuid, operation, strictly=False)

    def _commit(
        self,
        table: Table,
        onto: int,
        uuid: str,
        operation: Callable[[lance.LanceDataset], Any],
        *,
        strictly: bool,
    ) -> None:
        client = self._client_of(table)
        try:
            with client.raising_refusals():
                dataset = client.open(onto)
                transaction = lance.Transaction(onto, operation(dataset), uuid=uuid)
                lance.LanceDataset.commit(
                    dataset, transaction, max_retries=0 if strictly else TRIES
                )
        except TiltyardError:
            raise
        except FAILURES as error:
            raise ConcurrentModificationError(
                f"could not commit to table {names.display(table.id)}: {error}"
            ) from error
