"""What the versions of one table refer to, by the names of files: those are random, so a name is
enough wherever the file lies.

Every version counts that has a manifest in the directory, on every branch, also those that readers
do not see. A staged manifest counts while a row or a sidecar names it, or while it is young.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from uuid import UUID

import lance

from tiltyard import names
from tiltyard.catalog import version_files
from tiltyard.catalog.pylance import FAILURES, Lance
from tiltyard.errors import InvalidTableStateError
from tiltyard.store import Entry, NotThere, Store

READING_THREADS = 8

_DATA = re.compile(rb"[0-9A-Za-z_.-]+?\.lance")
_TRANSACTION = re.compile(rb"\d{1,20}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.txn")
_BRANCH = re.compile(
    rf"{names.BRANCHES_DIRECTORY}/(?P<branch>.+)/{names.VERSIONS_DIRECTORY}/[^/]+", re.DOTALL
)


@dataclass
class References:
    """Names of files that some version needs; `bodies` are manifests, in which names of indexes
    stand as bytes. What a staged manifest says of deleted rows can't be read from outside, so then
    all of it counts."""

    files: set[str] = field(default_factory=set)
    indexes: set[str] = field(default_factory=set)
    all_deletions: bool = False

    def needs(self, parts: Collection[str]) -> bool:
        """Whether any part of a path is needed: a file, or the folder of a blob or an index."""
        return any(
            part in self.files or f"{part}.lance" in self.files or part in self.indexes
            for part in parts
        )


Keeps = Callable[[Entry], bool]


def read(store: Store, access: Lance, location: str, keeps: Keeps) -> References:
    """Read every version of a table. Two requests each, several at a time, and one for each staged
    manifest that `keeps` says counts.

    InvalidTableStateError if one can't be read: then nothing can be told.
    """
    found = References()
    manifests: list[Entry] = []
    indexes: set[str] = set()
    for entry in store.walk(location):
        inside = entry.key[len(location) + 1 :]
        folders = inside.split("/")
        if names.VERSIONS_DIRECTORY in folders[:-1]:
            manifests.append(entry)
        elif "_indices" in folders[:-2]:
            indexes.add(folders[folders.index("_indices") + 1])
    known = [each for each in indexes if _is_uuid(each)]

    def take(entry: Entry) -> tuple[set[str], set[str], bool]:
        version = version_files.parse(entry)
        if version is None and not keeps(entry):
            return set(), set(), False
        try:
            body = store.get(entry.key).body
        except NotThere:  # deleted since it was listed
            return set(), set(), False
        texts = {each.decode() for each in (*_DATA.findall(body), *_TRANSACTION.findall(body))}
        mentioned = {each for each in known if UUID(each).bytes in body}
        if version is None:
            return texts, mentioned, entry.name.startswith(tuple("0123456789"))
        texts |= _of_version(access, location, entry, version.version)
        return texts, mentioned, False

    with ThreadPoolExecutor(READING_THREADS) as pool:
        for texts, mentioned, unsure in pool.map(take, manifests):
            found.files |= texts
            found.indexes |= mentioned
            found.all_deletions |= unsure
    found.indexes |= indexes.difference(known)
    return found


def _of_version(access: Lance, location: str, entry: Entry, version: int) -> set[str]:
    branch = _BRANCH.fullmatch(entry.key[len(location) + 1 :])
    place = location if branch is None else f"{location}/{names.BRANCHES_DIRECTORY}/{branch[1]}"
    try:
        return set(_files_of(access.open(place, version)))
    except FAILURES as error:
        if "not found" in str(error).lower():
            return set()  # deleted since it was listed
        raise InvalidTableStateError(
            f"version {version} of {place} can't be read, so it can't be told what it needs: "
            f"{error}"
        ) from error


def _files_of(dataset: lance.LanceDataset) -> Iterable[str]:
    for fragment in dataset.get_fragments():
        about = fragment.metadata
        for file in about.files:
            yield file.path.rpartition("/")[2]
        for overlay in about.overlays:
            yield overlay.data_file.path.rpartition("/")[2]
        if about.deletion_file is not None:
            yield about.deletion_file.path(about.id).rpartition("/")[2]


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
