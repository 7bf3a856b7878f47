"""Drift: versions in the directory of a managed table that the manifest does not know.

They were written by clients that go past the catalog. Readers do not see them, and Lance finds no
number for the next commit until they are settled. Versions that leave the rows as they were are
taken in by whoever writes next; for all others somebody has to say whether they count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import lance

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.base import Catalog, Table
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import AdoptVersions, DriftedError
from tiltyard.catalog.pylance import FAILURES, Lance
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.maintenance.operations import BENIGN, operation_of
from tiltyard.names import TableId
from tiltyard.store import Store
from tiltyard.versions.directory import NewVersion
from tiltyard.versions.room import TableVersions


@dataclass(frozen=True, slots=True)
class Foreign:
    """A version that the manifest does not know, and what it did."""

    file: VersionFile
    operation: str

    @property
    def version(self) -> int:
        return self.file.version

    @property
    def is_benign(self) -> bool:
        return self.operation in BENIGN


@dataclass(frozen=True, slots=True)
class Drift:
    """Versions above the head of a managed table; none is the usual case.

    `follows` says that they go on from the head: without a gap, and written after it was.
    """

    id: TableId
    location: str
    head: int
    foreign: tuple[Foreign, ...]
    follows: bool

    def __bool__(self) -> bool:
        return bool(self.foreign)

    @property
    def is_benign(self) -> bool:
        return self.follows and all(each.is_benign for each in self.foreign)

    @property
    def summary(self) -> str:
        told = ", ".join(f"{each.version} ({each.operation})" for each in self.foreign)
        return f"versions {told} were written past the catalog"


class Mending(StrEnum):
    """What was done about the drift of a table."""

    NOTHING = "nothing"
    ADOPTED = "adopted"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of one table, and of which versions."""

    id: TableId
    action: Mending
    versions: tuple[int, ...] = ()


class Drifts:
    """Finds and mends the drift of managed tables."""

    def __init__(
        self, store: Store, clock: Clock, access: Lance, manifest: ManifestCatalog
    ) -> None:
        self._store = store
        self._clock = clock
        self._lance = access
        self._manifest = manifest

    def of(self, table: Table) -> Drift:
        """What lies above the head. Two requests, and two for each version that does.

        The files are listed before the head is read, so none of them is a commit of ours.
        """
        files = version_files.every(self._store, table.location)
        snapshot = self._manifest.read()
        head = snapshot.head(names.object_id(table.id))
        above = [each for each in files if each.version > head]
        foreign = tuple(
            Foreign(each, operation_of(self._store, table.location, each)) for each in above
        )
        at_head = next((each for each in files if each.version == head), None)
        return Drift(table.id, table.location, head, foreign, _follow(head, at_head, above))

    def reconcile(self, table: Table) -> Repaired:
        """Take in versions that leave every row as it was; any other drift stays as it is."""
        drift = self.of(table)
        return self._adopt(drift) if drift and drift.is_benign else Repaired(table.id, _NOTHING)

    def adopt(self, table: Table) -> Repaired:
        """Let all foreign versions count, in one commit: their rows are the table's from then on.

        InvalidTableStateError if they do not go on from the head: what came between would be lost.
        """
        drift = self.of(table)
        if not drift:
            return Repaired(table.id, _NOTHING)
        if not drift.follows:
            raise InvalidTableStateError(
                f"{drift.summary}, and not on top of version {drift.head} of table "
                f"{names.display(table.id)}: adopting them would lose what that holds",
                hint="read them by their numbers with pylance, write what is missing through the "
                "catalog, and discard them",
            )
        return self._adopt(drift)

    def _adopt(self, drift: Drift) -> Repaired:
        self._manifest.submit(_adopting(drift))
        return Repaired(drift.id, Mending.ADOPTED, tuple(each.version for each in drift.foreign))

    def discard(self, table: Table) -> Repaired:
        """Let the table be as it was at its head, by one version on top of the foreign ones.

        It is written past the catalog as they were, and one commit makes it the head, with the
        others hidden below it. So nobody sees them, and nothing is deleted.
        """
        drift = self.of(table)
        numbers = tuple(each.version for each in drift.foreign)
        if not drift:
            return Repaired(table.id, _NOTHING)
        if not drift.head:
            raise InvalidTableStateError(
                f"{drift.summary}, and table {names.display(table.id)} has no version to return to",
                hint="adopt them, or drop the table",
            )
        restored = self._restore(drift)
        found = self.of(table)
        if found.head != drift.head or [each.version for each in found.foreign] != [
            *numbers,
            restored,
        ]:
            raise ConcurrentModificationError(
                f"others wrote to table {names.display(table.id)} meanwhile", hint="look again"
            )
        self._manifest.submit(_adopting(found, hidden_at_ms=self._clock.now_ms()))
        return Repaired(table.id, Mending.DISCARDED, numbers)

    def _restore(self, drift: Drift) -> int:
        """The version that has what the head has, on top of all others in the directory."""
        try:
            dataset = self._lance.open(drift.location)
            operation = lance.LanceOperation.Restore(drift.head)
            transaction = lance.Transaction(dataset.version, operation)
            committed = lance.LanceDataset.commit(dataset, transaction, max_retries=0)
        except FAILURES as error:
            raise self._lance.explain(error, f"repair table {names.display(drift.id)}") from error
        return committed.version


class TolerantVersions:
    """The versions room, for writers: a commit that meets only harmless drift takes it in."""

    def __init__(self, versions: TableVersions, catalog: Catalog, drifts: Drifts | None) -> None:
        self._versions = versions
        self._catalog = catalog
        self._drifts = drifts
        self.visible = versions.visible
        self.latest = versions.latest
        self.describe = versions.describe

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, or say who was first."""
        try:
            return self._versions.create(new)
        except DriftedError:
            if self._drifts is None:
                raise
            table = self._catalog.find(new.table)
            if self._drifts.reconcile(table).action is not Mending.ADOPTED:
                raise
        return self._versions.create(new)


_NOTHING = Mending.NOTHING


def _follow(head: int, at_head: VersionFile | None, above: list[VersionFile]) -> bool:
    """Who writes a version has seen the file of the one before, so it can't be the older of both.

    A file that is older than that of the head was built on a version that the head has replaced.
    """
    numbers = [each.version for each in above]
    if numbers != list(range(head + 1, head + 1 + len(above))):
        return False
    if not above or not head:
        return True
    if at_head is None:
        return False
    return all((each.modified_ms or 0) >= (at_head.modified_ms or 0) for each in above)


def _adopting(drift: Drift, hidden_at_ms: int | None = None) -> AdoptVersions:
    """Rows for the very versions that were looked at, on top of the very head."""
    files = tuple(foreign.file for foreign in drift.foreign)
    return AdoptVersions(drift.id, drift.location, drift.head, files, hidden_at_ms)
