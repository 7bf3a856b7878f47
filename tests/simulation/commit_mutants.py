"""Guards and orders of `versions`, each left out or turned round, and where that shows."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from tests.simulation.actors import mutated
from tests.simulation.mutants import Mutant
from tests.simulation.scenarios import Scenario
from tests.simulation.search import Bounds
from tiltyard.catalog.base import Table
from tiltyard.catalog.boundary import Boundary, Mark, Retention
from tiltyard.catalog.guard import TableGuard
from tiltyard.catalog.manifest.draft import Change, Draft
from tiltyard.catalog.manifest.edits import (
    AddVersion,
    RaiseBoundary,
    RemoveVersions,
    require_managed,
)
from tiltyard.catalog.manifest.rows import MANIFEST_PATH, STAGED, Row
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import VersionFile
from tiltyard.tables.refs import Point
from tiltyard.versions.base import NewVersion, require_unreferenced, select
from tiltyard.versions.file_versions import FileVersions
from tiltyard.versions.references import References
from tiltyard.versions.row_versions import RowVersions


class NoGuardA(FileVersions):
    """Rule: a writer whose base is behind the boundary starts over."""

    def _guard_a(self, table: Table, branch: str | None, base: int) -> Mark:
        return self._boundary(table, branch).mark()


class NoGuardB(FileVersions):
    """Rule: the boundary is read once more after the version was put."""

    def _guard_b(
        self, boundary: Boundary, before: Mark, version: int, key: str, body: bytes
    ) -> None:
        """Nothing."""


class NoGuardC(FileVersions):
    """Rule: the table is looked at once more after the version was put."""

    def _guard_c(self, guard: TableGuard, branch: str | None) -> None:
        """Nothing."""


class GivesNumbersAgain(FileVersions):
    """Rule: what a purged table had reached nobody builds on, nor on a number that was passed."""

    def _require_above_floor(self, new: NewVersion, location: str, base: int, floor: int) -> None:
        """Nothing."""

    def _exists(self, location: str, new: NewVersion) -> bool:
        return True


class LooksAtTagsOnce(FileVersions):
    """Rule: a collector reads tags again after the boundary has moved."""

    _looks = 0

    def _references(self, table: Table, branch: str | None) -> Mapping[int, str]:
        self._looks += 1
        return {} if self._looks % 2 == 0 else super()._references(table, branch)


class TagsBlindly(References):
    """Rule: a tagger reads the boundary after its tag is there."""

    def _require_shown(self, table: Table, point: Point) -> None:
        """Nothing."""


class TagsAnyTable(References):
    """Rule: a tagger looks at the table once more after its tag is there."""

    def _guard_c(self, guard: TableGuard) -> Table:
        return guard.table


class RestoresUnpinned(FileVersions):
    """Rule: the version that is restored is pinned until it is a version again."""

    def _pinning(
        self, boundary: Boundary, location: str, restored: int | None
    ) -> AbstractContextManager[None]:
        return nullcontext()


class AdvancesLate(FileVersions):
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
        retention = boundary.retention()
        files = self._by_number(found, branch)
        selected = select(table, ranges, files, retention.shows, ignore_missing)
        if selected:
            require_unreferenced(
                table, selected, max(files), lambda: self._references(found, branch)
            )
            self._store.delete_many(file.key for file in selected.values())
            staying = {v for v in files if v not in selected and retention.shows(v)}
            boundary.advance(max(selected), staying, selected, retention.incarnation)
        return sorted(selected)


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


class RetainsLate(FileVersions):
    """Rule: what stays is noted before the boundary moves past it."""

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        return _as(_NotesLate, super()._boundary(table, branch))


class _TakesBack(Boundary):
    def _note(
        self, incarnation: int, keep: Iterable[int], let_go: Container[int], below: int
    ) -> None:
        super()._note(incarnation, keep, let_go, 0)


class TakesBack(FileVersions):
    """Rule: what one collector gave up, another does not note as kept."""

    def _boundary(self, table: Table, branch: str | None) -> Boundary:
        return _as(_TakesBack, super()._boundary(table, branch))


def _as(kind: type[Boundary], boundary: Boundary) -> Boundary:
    boundary.__class__ = kind
    return boundary


class ScrubsRetained(FileVersions):
    """Rule: a scrub spares what is retained."""

    def scrub(self, table: TableId, branch: str | None = None) -> Sequence[int]:
        found = self._catalog.find(table)
        last = self._boundary(found, branch).read()
        files = self._by_number(found, branch)
        stale = [version for version in files if version <= last]
        self._store.delete_many(files[version].key for version in stale)
        return stale


class ScrubsTagged(FileVersions):
    """Rule: a scrub spares what a tag refers to, whatever the list of what stays says."""

    def _hidden(
        self, table: Table, branch: str | None, retention: Retention, files: Sequence[VersionFile]
    ) -> set[int]:
        return {file.version for file in files if not retention.shows(file.version)}


class RenewsUnseen(FileVersions):
    """Rule: versions that begin again count only if nobody purged the table meanwhile."""

    _is_renewing = False

    def _renewed(self, table: Table, branch: str | None) -> bool:
        self._is_renewing = True
        try:
            return super()._renewed(table, branch)
        finally:
            self._is_renewing = False

    def _is_same(self, guard: TableGuard, branch: str | None) -> bool:
        return self._is_renewing or super()._is_same(guard, branch)


class NoHeadCheck(RowVersions):
    """Rule: a version that is a row comes right after the last one."""

    def _edit(self, new: NewVersion) -> AddVersion:
        return AddAnywhere(**vars(super()._edit(new)))


class AddAnywhere(AddVersion):
    """Adds a version whatever the head is."""

    def apply(self, draft: Draft) -> Change:
        row = require_managed(draft, self.table, self.location)
        present = draft.version_row(row.object_id, self.file.version)
        return self.added(row, *([present.object_id] if present else []))


class NoGuardAInRows(RowVersions):
    """Rule: the commit of a row looks at the boundary in the row of its table."""

    def _edit(self, new: NewVersion) -> AddVersion:
        return replace(super()._edit(new), base=2**63)


class DeletesFilesFirst(RowVersions):
    """Rule: the rows of versions go before their files."""

    def delete(
        self,
        table: TableId,
        ranges: Sequence[tuple[int, int]],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        owner, snapshot = self._owner(table)
        last, location = max(end for _, end in ranges), owner.location or ""
        numbers = sorted(n for n in snapshot.version_numbers(owner.object_id) if n <= last)
        self._manifest.submit(RaiseBoundary(table, location, max(numbers)))
        rows = [snapshot.version_row(owner.object_id, number) for number in numbers]
        self._store.delete_many(row.file.key for row in rows if row)
        seen = {row.version: row.metadata for row in rows if row}
        self._manifest.submit(RemoveVersions(table, location, seen))
        return numbers


class CopiesBlindly(RowVersions):
    """Rule: whoever copies a version looks afterwards whether its row is still there."""

    def _copy(self, rows: Sequence[Row]) -> None:
        self._store.move_many({row.metadata[STAGED]: row.metadata[MANIFEST_PATH] for row in rows})
        for row in rows:
            self._remember(row.metadata[MANIFEST_PATH])


class CommitsOneByOne(RowVersions):
    """Rule: a commit to several tables is one commit of the manifest."""

    def create_all(self, wanted: Sequence[NewVersion]) -> list[VersionFile]:
        return [super(CommitsOneByOne, self).create_all([each])[0] for each in wanted]


class TrustsTheDirectory(FileVersions):
    """Rule: a commit as a file counts only if the versions of its table are still files."""

    def _guard_c(self, guard: TableGuard, branch: str | None) -> None:
        """Nothing."""


def _mutant(
    name: str,
    kind: type[FileVersions | RowVersions | References],
    start: str,
    *actors: str,
    arbiter: str = "versions",
    faults: int = 0,
    switches: int | None = None,
) -> Mutant:
    split = tuple(tuple(actor.split("+")) for actor in actors)
    scenario = Scenario(arbiter, tuple(start.split("+")), split, Bounds(faults, switches))
    if issubclass(kind, FileVersions):
        return Mutant(name, mutated(file_versions_type=kind), scenario)
    if issubclass(kind, RowVersions):
        return Mutant(name, mutated(row_versions_type=kind), scenario)
    return Mutant(name, mutated(references_type=kind), scenario)


def _managed(
    name: str,
    kind: type[FileVersions | RowVersions | References],
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
    _mutant("tags any table", TagsAnyTable, "create+append", "tag1", "drop+create"),
    _mutant("branches blindly", TagsBlindly, _THREE, "branch", "append+collect"),
    _mutant("restores unpinned", RestoresUnpinned, _THREE, "restore1", "collect"),
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
