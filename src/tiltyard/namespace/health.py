"""`catalog.health`: ending what crashes left, finding what is amiss, and mending it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tiltyard.catalog import names
from tiltyard.catalog.base import DropTerms, Table
from tiltyard.catalog.names import TableId
from tiltyard.errors import InvalidInputError, InvalidTableStateError, UnsupportedOperationError
from tiltyard.maintenance.context import Progress
from tiltyard.maintenance.doctor import Finding
from tiltyard.maintenance.orphan_candidates import ORPHAN_MIN_AGE_MS, Orphan
from tiltyard.maintenance.policy import Duration, auto_cleanup_settings
from tiltyard.maintenance.recovery import RECOVERY_MIN_AGE_MS, Recovered
from tiltyard.maintenance.recovery_log import RecoveryRecord, list_records
from tiltyard.namespace.base import OperationGroup, operation
from tiltyard.settings import duration
from tiltyard.versions.branches import RemovedBranch
from tiltyard.versions.drift import Drift, Drifts, Mending, Repaired


class Health(OperationGroup):
    """Recovery, drift, orphans, and the doctor."""

    @operation("recover")
    def recover(self, *, older_than: Duration | None = None) -> list[Recovered]:
        """End what a crash interrupted: forward where all of it can be done, else back.

        Batches of versions, renames, and creates over dropped tables. What began less than a
        minute ago, or than `older_than`, is left to its owner. A second run finds nothing.
        """
        min_age_ms = RECOVERY_MIN_AGE_MS if older_than is None else _ms(older_than, "older_than")
        self.context.store.require_conditions()
        recovered = self.services.recovery.recover(min_age_ms=min_age_ms)
        return [*recovered, *self.services.unfinished.finish(min_age_ms=min_age_ms)]

    @operation("recover")
    def recover_compactions(
        self, tables: Collection[TableId], *, older_than: Duration
    ) -> list[Recovered]:
        """End what a crash left of compactions of some tables, and of nothing else."""
        min_age_ms = _ms(older_than, "older_than")
        self.context.store.require_conditions()
        return self.services.recovery.recover_compactions(tables, min_age_ms=min_age_ms)

    @operation("list what was recovered in")
    def list_recovered(self, *, most: int = 100) -> list[RecoveryRecord]:
        """The last operations that recoveries brought to an end, newest first."""
        return list(list_records(self.context.store, most))

    # -- drift

    @operation("look for drift of table")
    def drift(self, id: Sequence[str]) -> Drift:
        """The versions that others wrote to the directory of a managed table past the catalog."""
        table, drifts = self._managed_table(id)
        return drifts.of(table)

    @operation("repair table")
    def repair_table(
        self,
        id: Sequence[str],
        *,
        adopt: bool = False,
        discard: bool = False,
        dry_run: bool = False,
    ) -> Repaired:
        """Mend the drift of a managed table, or only tell what would be done.

        Versions that leave every row as it was are taken in. Any others need to be told: `adopt`
        makes them count, `discard` puts a version on top that has what the table had before.
        """
        if adopt and discard:
            raise InvalidInputError("versions can't be adopted and discarded both")
        table, drifts = self._managed_table(id)
        if dry_run:
            return _would_mend(drifts.of(table), adopt=adopt, discard=discard)
        self.services.access.before_write([table.id])
        if adopt:
            return drifts.adopt(table)
        if discard:
            return drifts.discard(table)
        repaired = drifts.reconcile(table)
        _require_none(drifts.of(table))
        return repaired

    def _managed_table(self, id: Sequence[str]) -> tuple[Table, Drifts]:
        table = self.services.access.find(id)
        if not table.managed or table.becoming_managed:
            raise UnsupportedOperationError(
                f"the versions of table {names.display(table.id)} are files, so whoever writes one "
                f"has written a version",
                hint="versions.manage makes rows of them",
            )
        return table, self.services.versions.drifts

    # -- branches and settings

    @operation("reconcile the branches of table")
    def reconcile_branches(
        self, id: Sequence[str], *, dry_run: bool = False
    ) -> list[RemovedBranch]:
        """Remove branches that Lance has and the catalog's list of the table's branches has not.

        Never `main`, and nothing if there is no list. One that a tag or a branch needs stays.
        """
        table = self.services.access.find(id)
        if not dry_run:
            self.context.store.require_conditions()
        return self.services.branches.reconcile(
            table, self.services.access.open(table), dry_run=dry_run
        )

    @operation("stop the automatic clean-up of table")
    def stop_auto_cleanup(self, id: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Take away the settings by which Lance deletes versions on its own. One commit."""
        table = self.services.access.find(id)
        if dry_run:
            return auto_cleanup_settings(self.services.access.open(table))
        with self.services.access.change(table) as dataset:
            keys = auto_cleanup_settings(dataset)
            if keys:
                dataset.delete_config_keys(keys)
        return keys

    # -- orphans

    @operation("look for orphans of")
    def find_orphans(
        self, ids: Sequence[Sequence[str]] | None = None, *, older_than: Duration | None = None
    ) -> Iterator[Orphan]:
        """What nothing refers to, older than seven days or `older_than`: of the whole catalog, or
        the files of some tables. Found one after the other."""
        tables = None
        if ids is not None:
            tables = [self.services.access.find(id) for id in ids]
        return self.services.orphans.find(tables, orphan_floor_ms(older_than))

    @operation("remove orphans of")
    def remove_orphans(
        self,
        orphans: Iterable[Orphan],
        *,
        older_than: Duration | None = None,
        even_if_young: bool = False,
    ) -> list[Orphan]:
        """Delete what is still an orphan, and return what went.

        A time below seven days can take files of a write that is under way, and needs
        `even_if_young`. Tables without a name stay: `adopt_orphan` puts one into the trash.
        """
        floor_ms = orphan_floor_ms(older_than, removes=True, even_if_young=even_if_young)
        return self.services.orphans.remove(orphans, floor_ms)

    @operation("adopt")
    def adopt_orphan(self, directory: str, *, ttl: Duration | None = None) -> TableId:
        """Put a table that has no name into the trash; from there it is purged or brought back.

        The answer is the name under which the trash has it.
        """
        location = names.relative_location(self.context.settings.root, directory)
        seconds = self.context.settings.default_ttl if ttl is None else duration(ttl)
        ttl_ms = None if seconds is None else round(seconds * 1000)
        terms = DropTerms(ttl_ms, self.context.settings.actor, "it had no name")
        return self.services.lifecycle.adopt(location, terms)

    # -- the doctor

    @operation("examine")
    def doctor(self, *, progress: Progress | None = None) -> list[Finding]:
        """Everything that is not as it should be, errors first. Nothing is changed."""
        return self.services.doctor.examine(progress)


def orphan_floor_ms(
    older_than: Duration | None, *, removes: bool = False, even_if_young: bool = False
) -> int:
    """The age below which nothing is an orphan. InvalidInputError for one that is too low to
    remove anything by it."""
    floor_ms = ORPHAN_MIN_AGE_MS if older_than is None else _ms(older_than, "older_than")
    if removes and floor_ms < ORPHAN_MIN_AGE_MS and not even_if_young:
        raise InvalidInputError(
            "files of writes that are under way may be younger than seven days",
            hint="pass even_if_young if nothing writes to the catalog",
        )
    return floor_ms


def _ms(value: Duration, name: str) -> int:
    seconds = duration(value, name)
    if seconds is None:
        raise InvalidInputError(f"{name} takes a time, not 'never'")
    return round(seconds * 1000)


def _would_mend(drift: Drift, *, adopt: bool, discard: bool) -> Repaired:
    if not (adopt or discard or drift.is_benign):
        _require_none(drift)
    versions = tuple(foreign.version for foreign in drift.foreign)
    if not versions:
        return Repaired(drift.id, Mending.NOTHING)
    return Repaired(drift.id, Mending.DISCARDED if discard else Mending.ADOPTED, versions)


def _require_none(drift: Drift) -> None:
    """Whether versions count that change rows, somebody has to decide."""
    if drift:
        raise InvalidTableStateError(
            f"{drift.summary} of table {names.display(drift.id)}",
            hint="say whether to adopt them or to discard them",
        )
