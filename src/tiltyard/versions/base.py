"""What can be asked about the versions of a table, whether they are files or rows of the manifest.

`FileVersions` and `RowVersions` implement `VersionStore`; `TableVersions` chooses between them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiltyard.catalog import names, version_files
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.manifest.edits import no_such_version
from tiltyard.catalog.names import TableId
from tiltyard.catalog.version_files import Naming, VersionFile
from tiltyard.clock import Clock
from tiltyard.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from tiltyard.store import NotThere, Store

# Versions in a row, both ends included; None is the first, or the latest, that exists.
VersionSpan = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version to publish: its number, and the staged manifest that is to become it.

    With a `location` the table has to lie there still.
    """

    table: TableId
    version: int
    staged: str
    naming: Naming = Naming.NEWEST_FIRST
    branch: str | None = None
    location: str | None = None


class NowManagedError(ConcurrentModificationError):
    """The versions of a table have become rows since the caller looked."""


class VersionStore(Protocol):
    """Publishes, lists and deletes versions. Branch None is the main one; rows have no other."""

    def create(self, new: NewVersion) -> VersionFile:
        """Publish a staged manifest as a version, atomically. ConcurrentModificationError if the
        number is another's, VersionBehindBoundaryError if the writer's base may be gone."""

    def visible(self, table_id: TableId, branch: str | None = None) -> Sequence[VersionFile]:
        """Every version that readers may see, oldest first."""

    def every(self, table_id: TableId) -> Sequence[VersionFile]:
        """Every version that can be deleted or kept, also one that is hidden, oldest first."""

    def latest(self, table_id: TableId, branch: str | None = None) -> VersionFile | None:
        """The latest version."""

    def describe(
        self, table_id: TableId, version: int | None = None, branch: str | None = None
    ) -> VersionFile:
        """One version, the latest if no number is given. TableVersionNotFoundError."""

    def delete(
        self,
        table_id: TableId,
        ranges: Sequence[VersionSpan],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        """Delete versions, given as ranges with both ends, and return which.

        Never the latest, nor one that a tag, a branch or a pin refers to. The boundary moves first,
        then what refers to versions is read once more, and only then is anything deleted.
        """

    def scrub(self, table_id: TableId, branch: str | None = None) -> Sequence[int]:
        """Delete the manifests behind the boundary that nothing retains: what a stale writer left
        that crashed before it could delete its version."""

    def stale(self, table: Table) -> Sequence[int]:
        """The versions of the main branch that `scrub` would delete."""

    def hide(self, table_id: TableId, version: int, reason: str | None) -> None:
        """Keep readers from one version without deleting it. InvalidTableStateError for files."""

    def show(self, table_id: TableId, version: int) -> None:
        """Let readers see a version again."""

    def shows(self, table: Table, version: int, branch: str | None = None) -> bool:
        """Whether a version stays that a tag or a branch refers to since a moment ago.

        A collector moves the boundary and then reads the references, so whoever writes a reference
        asks this afterwards: one of both sees the other.
        """

    def check_base(self, table: Table, version: int) -> None:
        """Guard A for a commit that is made elsewhere, based on a version of the main branch."""

    def check_landed(self, table: Table, version: int) -> None:
        """Guard B for a commit of ours that was made elsewhere."""


# Lance asks twice after each try; what it does not ask at once it never asks.
QUESTIONS = 2
LONGEST_MS = 5_000


class Refusals:
    """Numbers that a stale writer wanted and did not get, remembered for a moment.

    Lance asks after a refusal who has the number that it wanted. If nobody has, it tells its user
    that the outcome of the commit is unknown, although the commit was refused. So for the writer's
    next questions the latest version stands in. Lance sees that it is another's, and says
    "conflict".
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # By location and number: how many questions it still answers, and until when.
        self._refused: dict[tuple[str, int], tuple[int, int]] = {}
        self._lock = threading.Lock()

    def note(self, location: str, version: int) -> None:
        now = self._clock.now_ms()
        with self._lock:
            self._refused = {key: left for key, left in self._refused.items() if left[1] > now}
            self._refused[location, version] = (QUESTIONS, now + LONGEST_MS)

    def answers(self, location: str, version: int) -> bool:
        """Whether a question for a number is one that its refused writer would ask."""
        with self._lock:
            questions, until = self._refused.pop((location, version), (0, 0))
            if not questions or self._clock.now_ms() > until:
                return False
            if questions > 1:
                self._refused[location, version] = (questions - 1, until)
            return True


def branch_location(location: str, branch: str | None) -> str:
    """Where the versions of a branch lie; the main one's in the table's own directory."""
    if branch is None:
        return location
    if not branch or any(part in ("", ".", "..") for part in branch.split("/")):
        raise InvalidInputError(f"{branch!r} can't be the name of a branch")
    return f"{location}/{names.BRANCHES_DIRECTORY}/{branch}"


def read_staged(store: Store, new: NewVersion, location: str) -> bytes:
    """The staged manifest that is to become a version at a location. One request."""
    inside = f"{location}/{names.VERSIONS_DIRECTORY}/"
    final = version_files.key_of(location, new.version, new.naming)
    if not new.staged.startswith(inside) or new.staged == final:
        table = names.display(new.table)
        raise InvalidInputError(f"{new.staged!r} is not a staged manifest of table {table}")
    try:
        return store.get(new.staged).body
    except NotThere as missing:
        # Whoever asks again after a lost answer finds the version, and knows it for its own.
        raise ConcurrentModificationError(
            f"the staged manifest {new.staged} is gone",
            hint="look whether the version is there already",
        ) from missing


def select(
    table_id: TableId,
    ranges: Sequence[VersionSpan],
    existing: Mapping[int, VersionFile],
    shows: Callable[[int], bool],
    ignore_missing: bool,
) -> dict[int, VersionFile]:
    """The versions that a request to delete names, of those that exist and are shown."""
    if not existing:
        raise no_such_table(table_id)
    selected: dict[int, VersionFile] = {}
    for start, end in ranges:
        first = min(existing) if start is None else start
        last = max(existing) if end is None else end
        inside = {
            version: file
            for version, file in existing.items()
            if first <= version <= last and shows(version)
        }
        if not ignore_missing and len(inside) < last - first + 1:
            gone = next(version for version in range(first, last + 1) if version not in inside)
            raise no_such_version(table_id, gone)
        selected |= inside
    return selected


def require_unreferenced(
    table_id: TableId,
    selected: Mapping[int, VersionFile],
    latest: int,
    references: Callable[[], Mapping[int, str]],
) -> None:
    """UnsupportedOperationError for a version that must stay: the latest, or a referenced one."""
    if latest in selected:
        raise UnsupportedOperationError(
            f"version {latest} is the latest of table {names.display(table_id)}, and stays"
        )
    for version, referrer in references().items():
        if version in selected:
            raise UnsupportedOperationError(
                f"version {version} of table {names.display(table_id)} can't be deleted: "
                f"{referrer} refers to it"
            )


def no_version_yet(table_id: TableId) -> TableVersionNotFoundError:
    return TableVersionNotFoundError(f"table {names.display(table_id)} has no version yet")


def number_taken(new: NewVersion) -> ConcurrentModificationError:
    return ConcurrentModificationError(
        f"version {new.version} of table {names.display(new.table)} is another's",
        hint="rebase onto it and commit again",
    )
