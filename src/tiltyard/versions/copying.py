"""From where Lance has staged a manifest to where it keeps versions, once the row is committed.

The row tells both places, so whoever finds the staged file still there copies it: the bytes are the
row's, however often and by whomever they are written. Once the staged file is gone the copy is
complete.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from tiltyard import names
from tiltyard.catalog.manifest.catalog import ManifestCatalog
from tiltyard.catalog.manifest.edits import AddVersion
from tiltyard.catalog.manifest.rows import MANIFEST_PATH, STAGED, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.version_files import VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import PermissionDeniedError, TiltyardError
from tiltyard.store import NotThere, Outcome, Store
from tiltyard.versions.refusals import Refusals

log = logging.getLogger(__name__)

# How many copies a process remembers to be complete.
REMEMBERED = 100_000


class Copying:
    """Copies the manifests of versions that are rows, and remembers which are complete."""

    def __init__(self, store: Store, clock: Clock, manifest: ManifestCatalog) -> None:
        self._store = store
        self._clock = clock
        self._manifest = manifest
        self._complete: dict[str, None] = {}
        self.refusals = Refusals(clock)

    def _finish(
        self, committed: Sequence[tuple[Sequence[AddVersion], Sequence[Row]]]
    ) -> list[list[VersionFile]]:
        """Copy what a group has committed. Should this fail, whoever reads it does so."""
        with suppress(TiltyardError, Outcome):  # then one by one
            self._copy([row for _, rows in committed for row in rows])
            # Of one that was committed before, and the answer lost, the first bytes count.
            self._store.delete_many(
                each.staged
                for proposed, rows in committed
                for each, row in zip(proposed, rows, strict=True)
                if each.staged != row.metadata[STAGED]
            )
        return [[self._finished(row) for row in rows] for _, rows in committed]

    def _finished(self, row: Row) -> VersionFile:
        file = row.file
        if file.key not in self._complete:
            try:
                self._copy([row])
            except (TiltyardError, Outcome) as error:
                log.warning("version %s is committed, but not copied yet: %s", file.key, error)
                return replace(file, key=row.metadata[STAGED])
        return file

    def _copy(self, rows: Sequence[Row]) -> None:
        """Put the bytes of versions where Lance keeps them, and take the staged ones away.

        If a version was deleted meanwhile, so is the copy. On a disk it lasts as Lance's own
        files do, to which it refers: those are not flushed one by one either.
        """
        self._store.move_many({row.metadata[STAGED]: row.metadata[MANIFEST_PATH] for row in rows})
        snapshot = self._manifest.read()
        self._store.delete_many(
            row.metadata[MANIFEST_PATH] for row in rows if _is_gone(snapshot, row)
        )
        for row in rows:
            self._remember(row.metadata[MANIFEST_PATH])

    def _remember(self, key: str) -> None:
        if len(self._complete) >= REMEMBERED:
            self._complete.clear()
        self._complete[key] = None

    def ready(self, number: int, row: Row) -> VersionFile:
        """A version of which a row tells, copied to its place if that was left undone."""
        file = row.file
        if STAGED not in row.metadata or file.key in self._complete:
            return file
        try:
            self._store.head(row.metadata[STAGED])
            log.info("version %s was committed, but not copied: copying it", file.key)
            self._copy([row])
        except NotThere:  # it goes when the copy is made
            self._remember(file.key)
        except PermissionDeniedError:  # a reader that may not write gets what there is
            return replace(file, key=row.metadata[STAGED])
        return file

    def _complete_all(self, location: str, found: Sequence[tuple[int, Row]]) -> None:
        """Copy whatever of many versions was left undone; one listing shows that."""
        unsure = [
            (number, row)
            for number, row in found
            if STAGED in row.metadata and row.file.key not in self._complete
        ]
        if not unsure:
            return
        listed = self._store.list(f"{location}/{names.VERSIONS_DIRECTORY}").objects
        left = {each.key for each in listed}
        for number, row in unsure:
            if row.metadata[STAGED] in left:
                self.ready(number, row)
            else:
                self._remember(row.file.key)


def _is_gone(snapshot: Snapshot, row: Row) -> bool:
    """Whether the row of a version was removed, from a table that lies where it lay."""
    table, number = row.table, row.version
    if snapshot.has_version(table, number):
        return False
    owner = snapshot.get(table)
    return owner is not None and row.metadata[MANIFEST_PATH].startswith(f"{owner.location}/")
