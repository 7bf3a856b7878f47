"""The files of a table that its versions refer to, on every branch.

Read from the manifests by pylance. Files that lie elsewhere (of a table that this one was cloned
from) are nobody's to remove here, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import lance

from tiltyard import names
from tiltyard.catalog.pylance import FAILURES, Lance, is_missing
from tiltyard.errors import InvalidTableStateError
from tiltyard.store import Retry

_COLUMNS = ("version", "base_uri", "path", "type")
# What the versions room takes care of.
_MANIFEST = "manifest"


class At(NamedTuple):
    """One version, of the main branch or of another."""

    branch: str | None
    version: int

    def __str__(self) -> str:
        on = "" if self.branch is None else f" on branch '{self.branch}'"
        return f"version {self.version}{on}"


def on(branch: str | None, versions: Iterable[int]) -> set[At]:
    return {At(branch, each) for each in versions}


@dataclass(frozen=True)
class References:
    """Which versions refer to which files, as keys of the store."""

    by_version: Mapping[At, frozenset[str]]

    def only_of(self, going: Collection[At]) -> set[str]:
        """The files that some of these versions refer to, and nobody else does."""
        candidates = {each for at in going for each in self.by_version.get(at, ())}
        return candidates - self.without(going)

    def without(self, going: Collection[At]) -> set[str]:
        """The files that anybody but these versions refers to."""
        return set().union(*(files for at, files in self.by_version.items() if at not in going))


def read(
    access: Lance, location: str, retry: Retry, present: Callable[[], Collection[At]]
) -> References:
    """Read what refers to files now. Whoever deletes versions meanwhile makes it begin again.

    InvalidTableStateError if a version that is `present` was not among them, or one at which a
    branch began: without it nothing can be said about any file. A branch has everything from the
    version at which it began, or has written it itself; it may name those files by another address
    than ours, and Lance does not tell at all which indexes it uses.
    """
    for attempt in range(retry.attempts):
        is_last = attempt + 1 == retry.attempts
        known = set(present())
        try:
            found, begun = _read(access, location)
        except FAILURES as error:
            if is_last or not is_missing(error):
                raise access.explain(error, f"read the versions of {location}") from error
        else:
            missing = (begun | known) - found.by_version.keys()
            if not missing:
                return found
            if is_last:
                first = min(missing, key=lambda each: (each.branch or "", each.version))
                raise _incomplete(location, first, is_base=first in begun)
        retry.pause(attempt)
    raise AssertionError("unreachable")


def _incomplete(location: str, missing: At, *, is_base: bool) -> InvalidTableStateError:
    what = "a branch began there" if is_base else "the catalog has it"
    return InvalidTableStateError(
        f"{missing} of {location} has no file, and {what}",
        hint="no file of this table can be removed until that is mended",
    )


def _read(access: Lance, location: str) -> tuple[References, set[At]]:
    """What refers to files, and the versions at which branches began."""
    dataset = access.open(location)
    branches: dict[str, Any] = dict(dataset.branches.list())
    found: dict[At, frozenset[str]] = {}
    for branch in (None, *branches):
        line = dataset if branch is None else dataset.checkout_version((branch, None))
        tracked = _tracked(line, access.uri(location), location)
        found.update({At(branch, version): files for version, files in tracked.items()})
    begun = {At(each["parent_branch"], each["parent_version"]) for each in branches.values()}
    return References(found), begun


def _tracked(dataset: lance.LanceDataset, uri: str, location: str) -> dict[int, frozenset[str]]:
    """The files inside one table that each version of a branch refers to, as keys of the store."""
    found: dict[int, set[str]] = {}
    for batch in dataset.tracked_files():
        columns = (batch.column(name).to_pylist() for name in _COLUMNS)
        for version, base, path, kind in zip(*columns, strict=True):
            files = found.setdefault(version, set())
            inside = _inside(base, uri)
            if kind != _MANIFEST and inside is not None:
                files.add(f"{location}{inside}/{path}")
    return {version: frozenset(files) for version, files in found.items()}


def _inside(base: str, uri: str) -> str | None:
    """Where the files of a branch lie below its table; None if it is not below this one."""
    inside = base.removeprefix(uri)
    if base == uri or (base != inside and inside.startswith(f"/{names.BRANCHES_DIRECTORY}/")):
        return inside
    return None
