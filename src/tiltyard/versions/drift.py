"""Drift: versions in the directory of a managed table that the manifest does not know.

They were written by clients that go past the catalog. Readers do not see them, and Lance finds no
number for the next commit until they are dealt with. Versions that leave every row as it was are
adopted by whoever writes next; for all others somebody has to say whether they count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import lance

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.manifest.edits import AdoptVersions
from tiltyard.catalog.names import TableId
from tiltyard.catalog.pylance import FAILURES
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import ConcurrentModificationError, InvalidTableStateError
from tiltyard.versions.lance_format import BENIGN, operation_of


@dataclass(frozen=True, slots=True)
class ForeignVersion:
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
    foreign: tuple[ForeignVersion, ...]
    follows: bool

    def __bool__(self) -> bool:
        return bool(self.foreign)

    @property
    def versions(self) -> tuple[int, ...]:
        return tuple(version.version for version in self.foreign)

    @property
    def is_benign(self) -> bool:
        return self.follows and all(version.is_benign for version in self.foreign)

    @property
    def summary(self) -> str:
        listed = ", ".join(f"{it.version} ({it.operation})" for it in self.foreign)
        return f"versions {listed} were written past the catalog"


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

    def __init__(self, context: CatalogContext) -> None:
        self._store = context.store
        self._clock = context.clock
        self._lance = context.lance
        self._manifest = context.manifest

    def of(self, table: Table) -> Drift:
        """What lies above the head. Two requests, and two for each version that does.

        The files are listed before the head is read, so none of them is a commit of ours.
        """
        files = version_files.every(self._store, table.location)
        head = self._manifest.read().head(names.object_id(table.id))
        above = [file for file in files if file.version > head]
        foreign = tuple(
            ForeignVersion(file, operation_of(self._store, table.location, file)) for file in above
        )
        at_head = next((file for file in files if file.version == head), None)
        return Drift(table.id, table.location, head, foreign, _follow(head, at_head, above))

    def reconcile(self, table: Table) -> Repaired:
        """Adopt versions that leave every row as it was; any other drift stays as it is."""
        drift = self.of(table)
        if drift and drift.is_benign:
            return self._adopt(drift)
        return Repaired(table.id, Mending.NOTHING)

    def adopt(self, table: Table) -> Repaired:
        """Let all foreign versions count, in one commit: their rows are the table's from then on.

        InvalidTableStateError if they do not go on from the head: what came between would be lost.
        """
        drift = self.of(table)
        if not drift:
            return Repaired(table.id, Mending.NOTHING)
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
        return Repaired(drift.id, Mending.ADOPTED, drift.versions)

    def discard(self, table: Table) -> Repaired:
        """Let the table be as it was at its head, by one version on top of the foreign ones.

        It is written past the catalog as they were, and one commit makes it the head, with the
        others hidden below it. So nobody sees them, and nothing is deleted.
        """
        drift = self.of(table)
        if not drift:
            return Repaired(table.id, Mending.NOTHING)
        if not drift.head:
            raise InvalidTableStateError(
                f"{drift.summary}, and table {names.display(table.id)} has no version to return to",
                hint="adopt them, or drop the table",
            )
        restored = self._restore(drift)
        after = self.of(table)
        if after.head != drift.head or after.versions != (*drift.versions, restored):
            raise ConcurrentModificationError(
                f"others wrote to table {names.display(table.id)} meanwhile", hint="look again"
            )
        self._manifest.submit(_adopting(after, hidden_at_ms=self._clock.now_ms()))
        return Repaired(table.id, Mending.DISCARDED, drift.versions)

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


def _follow(head: int, at_head: VersionFile | None, above: list[VersionFile]) -> bool:
    """Who writes a version has seen the file of the one before, so it can't be the older of both.

    A file that is older than that of the head was built on a version that the head has replaced.
    """
    numbers = [file.version for file in above]
    if numbers != list(range(head + 1, head + 1 + len(above))):
        return False
    if not above or not head:
        return True
    if at_head is None:
        return False
    return all((file.modified_ms or 0) >= (at_head.modified_ms or 0) for file in above)


def _adopting(drift: Drift, hidden_at_ms: int | None = None) -> AdoptVersions:
    """Rows for the very versions that were looked at, on top of the very head."""
    files = tuple(foreign.file for foreign in drift.foreign)
    return AdoptVersions(drift.id, drift.location, drift.head, files, hidden_at_ms)
