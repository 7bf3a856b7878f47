"""New versions of several tables as one operation, also where there is no manifest to commit.

Versions that are rows come in one commit. Those that are files come one by one, so they are covered
by a sidecar: after a crash, or once one of them is refused, all of them are there or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Catalog
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, ServiceUnavailableError, TiltyardError
from tiltyard.maintenance.recovery import Recovery, Resolution
from tiltyard.maintenance.sidecars import Covered, Kind, Sidecar
from tiltyard.store import NotThere, Outcome, Store
from tiltyard.versions.base import NewVersion
from tiltyard.versions.lance_format import read_staged, transaction_of
from tiltyard.versions.table_versions import TableVersions


class Batches:
    """Publishes versions of several tables of one catalog."""

    def __init__(
        self, store: Store, catalog: Catalog, versions: TableVersions, recovery: Recovery
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._versions = versions
        self._recovery = recovery

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        """Publish staged manifests as versions: all of them, or none.

        A sidecar costs four requests, and looking at each table first three or four. Branches are
        not covered: a batch with one of them is carried out one by one.
        """
        if not self._needs_cover(wanted):
            return self._versions.create_all(wanted)
        sidecars = self._recovery.sidecars
        sidecar = sidecars.arm(Kind.BATCH, [self._checked(each) for each in wanted])
        sidecar = sidecars.publishing(sidecar)
        try:
            created = self._versions.create_all(wanted)
        except (TiltyardError, Outcome) as error:
            if self._resolved(sidecar, error) is not Resolution.FORWARD:
                raise ConcurrentModificationError(
                    f"no table of the batch was changed: {error}", hint="look, and try again"
                ) from error
            return [self._landed(each) for each in sidecar.tables]
        self._confirm(sidecar)
        return created

    def _needs_cover(self, wanted: Sequence[NewVersion]) -> bool:
        if len(wanted) < 2 or any(each.branch is not None for each in wanted):
            return False
        return not self._versions.are_rows(wanted)

    def _checked(self, new: NewVersion) -> Covered:
        """What is refused has to be before a sidecar is armed: the number, the base, the bytes."""
        table = self._catalog.find(new.table)
        key = version_files.key_of(table.location, new.version, new.naming)
        shown = names.display(new.table)
        body = read_staged(self._store, new.staged, table.location, key, shown)
        base, transaction = transaction_of(body, new.staged)
        newest = self._versions.latest(new.table)
        head = newest.version if newest else 0
        if new.version != head + 1:
            raise ConcurrentModificationError(
                f"version {new.version} of table {shown} can't follow {head}",
                hint="rebase onto it and commit again",
            )
        if head:
            self._versions.check_base(table, base)
        return Covered(new.table, table.location, head, head, transaction, new.staged, new.naming)

    def _confirm(self, sidecar: Sidecar) -> None:
        """Whether it is still ours. A sweep that rolls back says so in the sidecar before it does,
        so one that has not by now finds every version, and leaves them alone."""
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

    def _resolved(self, sidecar: Sidecar, error: Exception) -> Resolution:
        try:
            return self._recovery.resolve(sidecar).outcome
        except (TiltyardError, Outcome) as another:
            raise ServiceUnavailableError(
                f"the batch was interrupted, and could not be ended: {another}",
                hint="`tiltyard recover` ends it, one way or the other",
            ) from error

    def _landed(self, covered: Covered) -> VersionFile:
        key = version_files.key_of(covered.location, covered.version, covered.naming)
        try:
            found = version_files.parse(self._store.head(key))
        except NotThere:
            found = None
        return found or VersionFile(covered.version, key)
