"""What the versions of one table refer to, by the names of files: those are random, so a name is
enough wherever the file lies.

Every version counts that has a manifest in the directory, on every branch, also those that readers
do not see. A staged manifest counts while a row or a sidecar names it, or while it is young.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
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

DATA, DELETIONS, INDEXES, TRANSACTIONS = "data", "_deletions", "_indices", "_transactions"

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
# Only its end has a known length, and what stands before it in a manifest may be a digit.
_TRANSACTION = re.compile(rf"({_UUID})\.txn".encode())
_STAGED = re.compile(rf"\d+\.manifest-{_UUID}")
_BRANCH = re.compile(
    rf"{names.BRANCHES_DIRECTORY}/(?P<branch>.+)/{names.VERSIONS_DIRECTORY}/[^/]+", re.DOTALL
)


@dataclass
class Needed:
    """What the versions of a table need: names of files, UUIDs of indexes and transactions, and
    the bytes of staged manifests, which have the names of files in them.

    What a staged manifest says of deleted rows stands there in numbers: with one, all such files
    count.
    """

    files: set[str] = field(default_factory=set)
    uuids: set[str] = field(default_factory=set)
    staged: list[bytes] = field(default_factory=list)

    def needs(self, folder: str, parts: Sequence[str]) -> bool:
        """Whether a file is needed; `parts` are those of its path, from its table on."""
        if folder == INDEXES:
            return bool(self.uuids.intersection(parts)) or not any(map(_is_uuid, parts))
        if folder == TRANSACTIONS:
            return parts[-1].removesuffix(".txn")[-36:] in self.uuids
        if folder == DELETIONS and self.staged:
            return True
        # A blob lies in a folder that has the name of its data file.
        named = {*parts, *(f"{part}.lance" for part in parts)}
        if not self.files.isdisjoint(named):
            return True
        texts = [each.encode() for each in named if each.endswith(".lance")]
        return any(text in body for body in self.staged for text in texts)


def is_staged(entry: Entry) -> bool:
    """Whether an object under `_versions/` is a manifest that is to become a version."""
    return _STAGED.fullmatch(entry.name) is not None


Keeps = Callable[[Entry], bool]


def read_needed(store: Store, access: Lance, location: str, keeps: Keeps) -> Needed:
    """Read every version of a table. Two requests each, several at a time, and one for each staged
    manifest that `keeps` says counts.

    InvalidTableStateError if one can't be read: then nothing can be told.
    """
    manifests: list[Entry] = []
    indexes: set[str] = set()
    for entry in store.walk(location):
        folders = entry.key[len(location) + 1 :].split("/")[:-1]
        if names.VERSIONS_DIRECTORY in folders:
            manifests.append(entry)
        elif INDEXES in folders:
            indexes.update(filter(_is_uuid, folders))
    found = Needed()

    def take(entry: Entry) -> tuple[set[str], bytes]:
        version = version_files.parse(entry)
        if version is None and not (is_staged(entry) and keeps(entry)):
            return set(), b""
        try:
            body = store.get(entry.key).body
            if version is None:
                return set(), body
            return set(_of_version(access, location, entry, version.version)), body
        except NotThere:  # deleted since it was listed
            return set(), b""
        except FAILURES as error:
            if _is_gone(store, entry):
                return set(), b""
            raise InvalidTableStateError(
                f"{entry.key} can't be read, so it can't be told what it needs: {error}"
            ) from error

    with ThreadPoolExecutor(READING_THREADS) as pool:
        for entry, (files, body) in zip(manifests, pool.map(take, manifests), strict=True):
            found.files |= files
            found.uuids.update(each.decode() for each in _TRANSACTION.findall(body))
            found.uuids.update(each for each in indexes if UUID(each).bytes in body)
            if body and version_files.parse(entry) is None:
                found.staged.append(body)
    return found


def _is_gone(store: Store, entry: Entry) -> bool:
    try:
        store.head(entry.key)
    except NotThere:
        return True
    return False


def _of_version(access: Lance, location: str, entry: Entry, version: int) -> Iterable[str]:
    branch = _BRANCH.fullmatch(entry.key[len(location) + 1 :])
    place = location if branch is None else f"{location}/{names.BRANCHES_DIRECTORY}/{branch[1]}"
    return _files_of(access.open(place, version))


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
    return re.fullmatch(_UUID, text) is not None
