"""Deleting versions: the boundary moves first, then everything that refers to versions is looked
at once more, and only then is anything deleted. Several may do so at once, and any may crash.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tiltyard import names
from tiltyard.catalog.base import Table, no_such_table
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError, UnsupportedOperationError
from tiltyard.names import TableId
from tiltyard.versions.reading import Reading, begins_again, branch_of, missing, must_be_files


class Collecting(Reading):
    """Deletes versions in one catalog, and what stale writers left."""

    def delete(
        self,
        table: TableId,
        ranges: Sequence[tuple[int, int]],
        *,
        branch: str | None = None,
        ignore_missing: bool = True,
    ) -> Sequence[int]:
        """Delete versions, given as ranges with both ends, and return which.

        Never the latest, nor one that a tag or branch refers to. The boundary moves first, then
        what refers to versions is read once more, and only then is anything deleted.
        """
        self._store.require_conditions()
        found = self._catalog.find(table)
        must_be_files(found, branch)
        location = branch_of(found.location, branch)
        boundary = self._boundary(found, branch)
        kept = boundary.kept()
        every = {each.version: each for each in self._files(location)}
        if begins_again(found, kept, every) and self._renewed(found, branch):
            kept = boundary.kept()
        chosen = chosen_of(table, ranges, every, kept.shows, ignore_missing)
        if not chosen:
            return []
        self._refuse_needed(table, found, branch, chosen, max(every))
        highest = max(chosen)
        staying = {v for v in every if v <= highest and v not in chosen and kept.shows(v)}
        boundary.advance(highest, staying, chosen, kept.incarnation)
        # If its versions become rows after this look, they are made with the boundary in view.
        must_be_files(self._catalog.find(table), branch)
        going = sorted(chosen.keys() - self._needed(found, branch).keys())
        self._store.delete_many(every[version].key for version in going)
        return going

    def _refuse_needed(
        self,
        table: TableId,
        found: Table,
        branch: str | None,
        chosen: Mapping[int, VersionFile],
        latest: int,
    ) -> None:
        if latest in chosen:
            raise UnsupportedOperationError(
                f"version {latest} is the latest of table {names.display(table)}, and stays"
            )
        for version, what in self._needed(found, branch).items():
            if version in chosen:
                raise UnsupportedOperationError(
                    f"version {version} of table {names.display(table)} can't be deleted: "
                    f"{what} refers to it"
                )

    def scrub(self, table: TableId, branch: str | None = None) -> Sequence[int]:
        """Delete the manifests behind the boundary that nothing retains: what a stale writer left
        that died before it could take its version back."""
        found = self._catalog.find(table)
        kept = self._kept(found, branch)
        every = {each.version: each for each in self._files(branch_of(found.location, branch))}
        if begins_again(found, kept, every):
            self._renewed(found, branch)
            return []
        stale = sorted(self._hidden(found, branch, kept, list(every.values())))
        self._store.delete_many(every[version].key for version in stale)
        return stale


def chosen_of(
    table: TableId,
    ranges: Sequence[tuple[int, int]],
    every: Mapping[int, VersionFile],
    shows: Callable[[int], bool],
    ignore_missing: bool,
) -> dict[int, VersionFile]:
    """The versions that a request names, of those that there are."""
    if not every:
        raise no_such_table(table)
    chosen: dict[int, VersionFile] = {}
    for first, last in ranges:
        if first < 0 or last < first:
            raise InvalidInputError(f"{first} to {last} is not a range of versions")
        inside = {v: each for v, each in every.items() if first <= v <= last and shows(v)}
        if not ignore_missing and len(inside) < last - first + 1:
            gone = next(v for v in range(first, last + 1) if v not in inside)
            raise missing(table, gone)
        chosen |= inside
    return chosen
