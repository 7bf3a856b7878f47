"""Guards and orders of `versions`, each left out or turned round, and where that shows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from tests.simulation.actors import mutated
from tests.simulation.mutants import Mutant
from tests.simulation.scenarios import Scenario
from tests.simulation.search import Bounds
from tiltyard.catalog.base import Table
from tiltyard.catalog.boundary import Boundary, Kept, Mark
from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits import (
    AddVersion,
    AllOf,
    RaiseBoundary,
    RemoveVersions,
    require_managed,
)
from tiltyard.catalog.manifest.rows import MANIFEST_PATH, STAGED, Row
from tiltyard.catalog.manifest.snapshot import Snapshot
from tiltyard.catalog.version_files import VersionFile
from tiltyard.names import TableId
from tiltyard.versions.collecting import chosen_of
from tiltyard.versions.directory import DirectoryVersions, NewVersion
from tiltyard.versions.managed import ManagedVersions
from tiltyard.versions.reading import TableGuard, branch_of


class NoGuardA(DirectoryVersions):
    """Rule: a writer whose base is behind the boundary starts over."""

    def _guard_base(self, table: Table, branch: str | None, base: int) -> Mark:
        return self._boundary(table, branch).mark()


class NoGuardB(DirectoryVersions):
    """Rule: the boundary is read once more after the version was put."""

    def _guard_number(
        self, boundary: Boundary, before: Mark, version: int, key: str, body: bytes
    ) -> None:
        """Nothing."""


class NoGuardC(DirectoryVersions):
    """Rule: the table is looked at once more after the version was put."""

    def _guard_table(self, guard: TableGuard, branch: str | None) -> None:
        """Nothing."""


class GivesNumbersAgain(DirectoryVersions):
    """Rule: what a purged table had reached nobody builds on, nor on a number that was passed."""

    def _guard_floor(self, new: NewVersion, location: str, base: int, floor: int) -> None:
        """Nothing."""

    def _is_there(self, location: str, new: NewVersion) -> bool:
        return True


class LooksAtTagsOnce(DirectoryVersions):
    """Rule: a collector reads tags again after the boundary has moved."""

    _looks = 0

    def _needed(self, table: Table, branch: str | None) -> Mapping[int, str]:
        self._looks += 1
        return {} if self._looks % 2 == 0 else super()._needed(table, branch)


class TagsBlindly(DirectoryVersions):
    """Rule: a tagger reads the boundary after its tag is there."""

    def refer(
        self,
        table: TableId,
        version: int,
        put: Callable[[Table], object],
        take_back: Callable[[Table], object],
        branch: str | None = None,
    ) -> None:
        self.describe(table, version, branch)
        put(self._catalog.find(table))


class AdvancesLate(DirectoryVersions):
    """Rule: the boundary moves before anything is deleted."""

    def delete(
        self,
        table: TableId,
        ranges: Sequence[tuple[int, int]],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        found = self._catalog.find(table)
        boundary = self._boundary(found, branch)
        kept = boundary.kept()
        every = {each.version: each for each in self._files(branch_of(found.location, branch))}
        chosen = chosen_of(table, ranges, every, kept.shows, ignore_missing)
        if chosen:
            self._refuse_needed(table, found, branch, chosen, max(every))
            self._store.delete_many(each.key for each in chosen.values())
            staying = {v for v in every if v not in chosen and kept.shows(v)}
            boundary.advance(max(chosen), staying, chosen, kept.incarnation)
        return sorted(chosen)


class _NotesLate(Boundary):
    def advance(
        self,
        to: int,
        keep: Iterable[int],
        let_go: Container[int] = (),
        incarnation: int | None = None,
    ) -> None:
        self._move(incarnation or 1, to)
        self._note(incarnation or 1, keep, let_go, to)


class RetainsLate(DirectoryVersions):
    """Rule: what stays is noted before the boundary moves past it."""

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        return _as(_NotesLate, super()._boundary(table, branch))


class _TakesBack(Boundary):
    def _note(
        self, incarnation: int, keep: Iterable[int], let_go: Container[int], below: int
    ) -> None:
        super()._note(incarnation, keep, let_go, 0)


class TakesBack(DirectoryVersions):
    """Rule: what one collector gave up, another does not note as kept."""

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        return _as(_TakesBack, super()._boundary(table, branch))


def _as(kind: type[Boundary], boundary: Boundary) -> Boundary:
    boundary.__class__ = kind
    return boundary


class ScrubsRetained(DirectoryVersions):
    """Rule: a scrub spares what is retained."""

    def scrub(self, table: TableId, branch: str | None = None) -> Sequence[int]:
        found = self._catalog.find(table)
        last = self._kept(found, branch).boundary
        stale = [each for each in self._files(found.location) if each.version <= last]
        self._store.delete_many(each.key for each in stale)
        return [each.version for each in stale]


class ScrubsTagged(DirectoryVersions):
    """Rule: a scrub spares what a tag refers to, whatever the list of what stays says."""

    def _hidden(
        self, table: Table, branch: str | None, kept: Kept, found: Sequence[VersionFile]
    ) -> set[int]:
        return {each.version for each in found if not kept.shows(each.version)}


class RenewsUnseen(DirectoryVersions):
    """Rule: versions that begin again count only if nobody purged the table meanwhile."""

    _is_renewing = False

    def _renewed(self, table: Table, branch: str | None) -> bool:
        self._is_renewing = True
        try:
            return super()._renewed(table, branch)
        finally:
            self._is_renewing = False

    def _holds(self, guard: TableGuard, branch: str | None) -> bool:
        return self._is_renewing or super()._holds(guard, branch)


class NoHeadCheck(ManagedVersions):
    """Rule: a version that is a row comes right after the last one."""

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        return _commit(self, wanted, lambda each: AddAnywhere(**vars(each)))


class NoGuardAInRows(ManagedVersions):
    """Rule: the commit of a row looks at the boundary in the row of its table."""

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        return _commit(self, wanted, lambda each: replace(each, base=2**63))


def _commit(
    self: ManagedVersions,
    wanted: Sequence[NewVersion],
    change: Callable[[AddVersion], AddVersion],
) -> list[VersionFile]:
    proposed = [change(self._proposal(version)) for version in wanted]
    return self._commit(AllOf(tuple(proposed)), proposed)


class AddAnywhere(AddVersion):
    """Adds a version whatever the head is."""

    def apply(self, draft: Draft) -> Change:
        row = require_managed(draft, self.table, self.location)
        present = draft.version_row(row.object_id, self.file.version)
        return self.added(row, *([present.object_id] if present else []))


class DeletesFilesFirst(ManagedVersions):
    """Rule: the rows of versions go before their files."""

    def delete(
        self,
        owner: Row,
        snapshot: Snapshot,
        ranges: Sequence[tuple[int, int]],
        *,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        last = max(end for _, end in ranges)
        numbers = {n for n in snapshot.version_numbers(owner.object_id) if n <= last}
        location = owner.location or ""
        self._manifest.submit(RaiseBoundary(owner.id, location, max(numbers)))
        rows = [snapshot.version_row(owner.object_id, n) for n in sorted(numbers)]
        self._store.delete_many(row.file.key for row in rows if row)
        seen = {row.version: row.metadata for row in rows if row}
        self._manifest.submit(RemoveVersions(owner.id, location, seen))
        return sorted(numbers)


class CopiesBlindly(ManagedVersions):
    """Rule: whoever copies a version looks afterwards whether its row is still there."""

    def _copy(self, rows: Sequence[Row]) -> None:
        self._store.move_many({row.metadata[STAGED]: row.metadata[MANIFEST_PATH] for row in rows})
        for row in rows:
            self._remember(row.metadata[MANIFEST_PATH])


class CommitsOneByOne(ManagedVersions):
    """Rule: a commit to several tables is one commit of the manifest."""

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        return [super(CommitsOneByOne, self).create_all([each])[0] for each in wanted]


class TrustsTheDirectory(DirectoryVersions):
    """Rule: a commit as a file counts only if the versions of its table are still files."""

    def _guard_table(self, guard: TableGuard, branch: str | None) -> None:
        """Nothing."""


def _mutant(
    name: str,
    kind: type[DirectoryVersions | ManagedVersions],
    start: str,
    *actors: str,
    arbiter: str = "versions",
    faults: int = 0,
    switches: int | None = None,
) -> Mutant:
    split = tuple(tuple(each.split("+")) for each in actors)
    scenario = Scenario(arbiter, tuple(start.split("+")), split, Bounds(faults, switches))
    if issubclass(kind, ManagedVersions):
        return Mutant(name, mutated(row_versions_type=kind), scenario)
    return Mutant(name, mutated(file_versions_type=kind), scenario)


def _managed(
    name: str,
    kind: type[DirectoryVersions | ManagedVersions],
    start: str,
    *actors: str,
    switches: int | None = None,
) -> Mutant:
    return _mutant(name, kind, start, *actors, arbiter="managed versions", switches=switches)


_THREE = "create+append+append"
_ROWS = f"{_THREE}+manage"
COMMIT_MUTANTS = [
    _mutant("no guard A", NoGuardA, "create", "update", "update+append+collect"),
    _mutant("no guard B", NoGuardB, "create", "append", "append+append+collect"),
    _mutant("no guard C", NoGuardC, "create", "append", "drop+purge"),
    _mutant(
        "no guard C with rows",
        NoGuardC,
        "create",
        "append",
        "drop+purge",
        arbiter="versions of a row",
    ),
    _mutant("gives numbers again", GivesNumbersAgain, "create", "append", "drop+purge+create"),
    _mutant("looks at tags once", LooksAtTagsOnce, _THREE, "tag2", "collect"),
    _mutant("tags blindly", TagsBlindly, _THREE, "tag2", "collect"),
    _mutant("advances late", AdvancesLate, "create", "update", "update+append+collect"),
    _mutant("retains late", RetainsLate, f"{_THREE}+append", "delete3", "scrub"),
    _mutant("takes back", TakesBack, f"{_THREE}+append", "delete2", "delete3", "tag2"),
    _mutant("scrubs what is retained", ScrubsRetained, f"{_THREE}+append+delete3", "scrub"),
    _mutant(
        "scrubs what is tagged",
        ScrubsTagged,
        f"{_THREE}+append+delete3",
        "delete2",
        "tag2",
        "scrub",
    ),
    _mutant(
        "renews unseen",
        RenewsUnseen,
        "create",
        "append",
        "append+append+delete2+drop+purge",
    ),
    _managed("no check of the head", NoHeadCheck, _ROWS, "append", "append"),
    _managed(
        "no guard A in rows",
        NoGuardAInRows,
        "create+manage",
        "update",
        "update+append+collect",
        switches=1,
    ),
    _managed("deletes files first", DeletesFilesFirst, _ROWS, "collect"),
    _managed("copies blindly", CopiesBlindly, _ROWS, "append", "append+collect"),
    _managed("commits one by one", CommitsOneByOne, "create+create_other+manage_both", "batch"),
    _managed("trusts the directory", TrustsTheDirectory, "create+append", "append", "manage"),
]
