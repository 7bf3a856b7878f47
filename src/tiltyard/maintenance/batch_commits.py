"""New versions of several tables as one operation: all of them, or none.

Versions that are rows are published by one commit. Those that are files are published one by one,
so a sidecar covers them: after a crash, or once one of them is refused, all are there or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard.catalog import names, version_files
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, ServiceUnavailableError, TiltyardError
from tiltyard.maintenance.context import MaintenanceContext
from tiltyard.maintenance.recovery_log import Resolution
from tiltyard.maintenance.sidecars import CoveredTable, OperationKind, Sidecar
from tiltyard.store import NotThere, Outcome
from tiltyard.versions.base import NewVersion
from tiltyard.versions.lance_format import read_staged, transaction_of


class BatchCommits:
    """Publishes versions of several tables of one catalog."""

    def __init__(self, maintenance: MaintenanceContext) -> None:
        self._context = maintenance.context
        self._versions = maintenance.versions
        self._recovery = maintenance.recovery

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish staged manifests as versions: all of them, or none.

        A sidecar costs four requests, and checking each table before it three or four. Branches are
        not covered: a batch with one of them is published one by one.
        """
        if not self._needs_sidecar(wanted):
            return self._versions.create_all(wanted)
        sidecars = self._recovery.sidecars
        sidecar = sidecars.arm(OperationKind.BATCH, [self.check(new) for new in wanted])
        sidecar = sidecars.publishing(sidecar)
        try:
            created = self._versions.create_all(wanted)
        except (TiltyardError, Outcome) as error:
            if self._resolve(sidecar, error) is not Resolution.FORWARD:
                raise ConcurrentModificationError(
                    f"no table of the batch was changed: {error}", hint="look, and try again"
                ) from error
            return [self._landed(covered) for covered in sidecar.tables]
        self._confirm(sidecar)
        return created

    def _needs_sidecar(self, wanted: Sequence[NewVersion]) -> bool:
        if len(wanted) < 2 or any(new.branch is not None for new in wanted):
            return False
        return not self._versions.are_rows(wanted)

    def check(self, new: NewVersion) -> CoveredTable:
        """Refuse what can't be published, before a sidecar is written: by the number, the base and
        the bytes of a staged manifest."""
        table = self._context.catalog.find(new.table)
        key = version_files.key_of(table.location, new.version, new.naming)
        shown = names.display(new.table)
        body = read_staged(self._context.store, new.staged, table.location, key, shown)
        base, transaction = transaction_of(body, new.staged)
        latest = self._versions.latest(new.table)
        head = latest.version if latest else 0
        if new.version != head + 1:
            raise ConcurrentModificationError(
                f"version {new.version} of table {shown} can't follow {head}",
                hint="rebase onto it and commit again",
            )
        if head:
            self._versions.check_base(table, base)
        return CoveredTable(
            new.table, table.location, head, head, transaction, new.staged, new.naming
        )

    def _confirm(self, sidecar: Sidecar) -> None:
        """Check that no recovery has rolled the batch back. One that does writes so into the
        sidecar first; one that has not by now finds every version, and leaves them alone."""
        try:
            present = self._recovery.sidecars.read(sidecar.operation)
            if present.nonce == sidecar.nonce:
                self._recovery.sidecars.done(sidecar)
                return
        except NotThere:
            pass
        if self._recovery.resolve(sidecar).outcome is not Resolution.FORWARD:
            self._recovery.undo_own(sidecar)
            raise ConcurrentModificationError(
                "the batch was rolled back by a recovery while it went on",
                hint="look at the tables before trying again",
            )

    def _resolve(self, sidecar: Sidecar, error: Exception) -> Resolution:
        try:
            return self._recovery.resolve(sidecar).outcome
        except (TiltyardError, Outcome) as another:
            raise ServiceUnavailableError(
                f"the batch was interrupted, and could not be ended: {another}",
                hint="`tiltyard recover` ends it, one way or the other",
            ) from error

    def _landed(self, covered: CoveredTable) -> VersionFile:
        key = version_files.key_of(covered.location, covered.version, covered.naming)
        try:
            file = version_files.parse(self._context.store.head(key))
        except NotThere:
            file = None
        return file or VersionFile(covered.version, key)
