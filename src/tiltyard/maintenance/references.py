"""The files of a table that its versions refer to, those of every branch included.

Read from the manifests by pylance. Files that lie elsewhere (of a table that this one was cloned
from) are nobody's to remove here, and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import lance

from tiltyard.catalog.pylance import FAILURES, Lance
from tiltyard.errors import InvalidTableStateError
from tiltyard.store import Retry

_COLUMNS = ("version", "base_uri", "path", "type")
# What the versions room takes care of.
_MANIFEST = "manifest"


@dataclass(frozen=True)
class References:
    """Which versions of the main branch refer to which files, and what other branches do."""

    by_version: Mapping[int, frozenset[str]]
    by_branches: frozenset[str]

    def only_of(self, going: Collection[int]) -> set[str]:
        """The files that some of these versions refer to, and nobody else does."""
        candidates = {each for number in going for each in self.by_version.get(number, ())}
        return candidates - self.without(going)

    def without(self, going: Collection[int]) -> set[str]:
        """The files that anybody but these versions refers to."""
        others = (files for number, files in self.by_version.items() if number not in going)
        return set(self.by_branches).union(*others)


def read(
    access: Lance, location: str, retry: Retry, present: Callable[[], Collection[int]]
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
            if is_last or "not found" not in str(error).lower():
                raise access.explain(error, f"read the versions of {location}") from error
        else:
            missing = (begun | known) - found.by_version.keys()
            if not missing:
                return found
            if is_last:
                raise _incomplete(location, min(missing), is_base=min(missing) in begun)
        retry.pause(attempt)
    raise AssertionError("unreachable")


def _incomplete(location: str, version: int, *, is_base: bool) -> InvalidTableStateError:
    what = "a branch began there" if is_base else "the catalog has it"
    return InvalidTableStateError(
        f"version {version} of {location} has no file, and {what}",
        hint="no file of this table can be removed until that is mended",
    )


def _read(access: Lance, location: str) -> tuple[References, set[int]]:
    """What refers to files, and the versions of the main branch at which others began."""
    dataset = access.open(location)
    main = _tracked(dataset, access.uri(location), location)
    branches: dict[str, Any] = dict(dataset.branches.list())
    of_branches: set[str] = set()
    for name in branches:
        branch = dataset.checkout_version((name, None))
        of_branches.update(*_tracked(branch, access.uri(location), location).values())
    begun = {each["parent_version"] for each in branches.values() if not each["parent_branch"]}
    return References(main, frozenset(of_branches)), begun


def _tracked(dataset: lance.LanceDataset, uri: str, location: str) -> dict[int, frozenset[str]]:
    """The files at one address that each version of a branch refers to, as keys of the store."""
    found: dict[int, set[str]] = {}
    for batch in dataset.tracked_files():
        columns = (
            batch.column(name).to_pylist() for name in ("version", "base_uri", "path", "type")
        )
        for version, base, path, kind in zip(*columns, strict=True):
            files = found.setdefault(version, set())
            if kind != _MANIFEST and base == uri:
                files.add(f"{location}/{path}")
    return {version: frozenset(files) for version, files in found.items()}
