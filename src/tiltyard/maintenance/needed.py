"""What the versions of one table refer to, by the names of files: those are random, so a name is
enough wherever the file lies.

Every version counts that has a manifest in the directory, on every branch, also those that readers
do not see. A staged manifest counts while a row or a sidecar names it, or while it is young.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
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

    def add(self, other: Needed) -> None:
        self.files |= other.files
        self.uuids |= other.uuids
        self.staged += other.staged

    def needs(self, folder: str, parts: Sequence[str]) -> bool:
        """Whether a file is needed; `parts` are those of its path, from its table on."""
        if folder == INDEXES:
            return bool(self.uuids.intersection(parts)) or not any(map(is_uuid, parts))
        if folder == TRANSACTIONS:
            return transaction_of(parts[-1]) in self.uuids
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
    """Read every version of a table, and each staged manifest that `keeps` says counts. One
    request each, and another if the table has indexes; several at a time.

    InvalidTableStateError if one can't be read: then nothing can be told.
    """
    manifests, indexes = manifests_of(store.walk(location), location)
    found = Needed()
    for each in read_each(store, access, location, manifests, indexes, keeps):
        found.add(each)
    return found


def read_each(
    store: Store,
    access: Lance,
    location: str,
    manifests: Sequence[Entry],
    indexes: Collection[str],
    keeps: Keeps,
) -> Iterator[Needed]:
    """What those of the manifests that count refer to, piece by piece.

    Lance reads all versions of a branch at once. Those that it did not tell of, and all of them if
    it could not read one, are read each by itself.
    """
    branches: dict[str, dict[str, Entry]] = {}
    alone: list[Entry] = []
    for entry in manifests:
        if version_files.parse(entry) is not None:
            branches.setdefault(_branch_of(location, entry), {})[entry.name] = entry
        elif is_staged(entry) and keeps(entry):
            alone.append(entry)
    told: list[Entry] = []
    for place, versions in branches.items():
        try:
            known = yield from _of_versions(access, place, versions.values())
        except FAILURES:  # one is broken, or was deleted since
            known = set()
        told += [entry for name, entry in versions.items() if name in known]
        alone += [entry for name, entry in versions.items() if name not in known]
    with ThreadPoolExecutor(READING_THREADS) as pool:
        yield from pool.map(lambda each: read_one(store, access, location, each, indexes), alone)
        if indexes:
            yield from pool.map(lambda each: _indexes_of(store, each, indexes), told)


def manifests_in(store: Store, location: str) -> tuple[list[Entry], set[str]]:
    """The manifests of a table and the UUIDs of its indexes, without a look at its data: two
    requests, and a listing of everything on its branches."""
    found = list(store.list(f"{location}/{names.VERSIONS_DIRECTORY}").objects)
    found += store.walk(f"{location}/{names.BRANCHES_DIRECTORY}")
    manifests, indexes = manifests_of(found, location)
    return manifests, indexes | set(
        filter(is_uuid, store.list(f"{location}/{INDEXES}").directories)
    )


def manifests_of(entries: Iterable[Entry], location: str) -> tuple[list[Entry], set[str]]:
    """The manifests among the files of a table, and the UUIDs of all indexes that lie there."""
    manifests: list[Entry] = []
    indexes: set[str] = set()
    for entry in entries:
        folders = entry.key[len(location) + 1 :].split("/")[:-1]
        if names.VERSIONS_DIRECTORY in folders:
            manifests.append(entry)
        elif INDEXES in folders:
            indexes.update(filter(is_uuid, folders))
    return manifests, indexes


def read_one(
    store: Store, access: Lance, location: str, entry: Entry, indexes: Collection[str]
) -> Needed:
    """What one manifest refers to; nothing if it is deleted meanwhile. Two requests.

    InvalidTableStateError if it can't be read: then nothing can be told.
    """
    version = version_files.parse(entry)
    files: set[str] = set()
    try:
        body = store.get(entry.key).body
        if version is not None:
            place = _branch_of(location, entry)
            files.update(_files_of(access.open(place, version.version)))
    except NotThere:  # deleted since it was listed
        return Needed()
    except FAILURES as error:
        if _is_gone(store, entry):
            return Needed()
        raise InvalidTableStateError(
            f"{entry.key} can't be read, so it can't be told what it needs: {error}"
        ) from error
    uuids = {each.decode() for each in _TRANSACTION.findall(body)} | _named_in(body, indexes)
    return Needed(files, uuids, [] if version is not None else [body])


def _indexes_of(store: Store, entry: Entry, indexes: Collection[str]) -> Needed:
    """The indexes of a version, which Lance does not tell of branches. One request."""
    try:
        return Needed(uuids=_named_in(store.get(entry.key).body, indexes))
    except NotThere:  # deleted since it was listed
        return Needed()


def _named_in(body: bytes, indexes: Collection[str]) -> set[str]:
    return {each for each in indexes if UUID(each).bytes in body}


def _is_gone(store: Store, entry: Entry) -> bool:
    try:
        store.head(entry.key)
    except NotThere:
        return True
    return False


def _branch_of(location: str, entry: Entry) -> str:
    """The directory of the branch that a version is of; that of the table for the main one."""
    branch = _BRANCH.fullmatch(entry.key[len(location) + 1 :])
    return location if branch is None else f"{location}/{names.BRANCHES_DIRECTORY}/{branch[1]}"


def _of_versions(
    access: Lance, place: str, versions: Iterable[Entry]
) -> Generator[Needed, None, set[str]]:
    """What the versions of a branch refer to; returns the names of the manifests that were read
    for it."""
    numbers = {each.version for each in map(version_files.parse, versions) if each is not None}
    dataset = access.open(place, max(numbers))
    known: set[str] = set()
    for batch in dataset.tracked_files(min_version=min(numbers)):
        found = Needed()
        columns = (batch.column(each).to_pylist() for each in ("version", "path", "type"))
        for version, path, kind in zip(*columns, strict=True):
            name = path.rpartition("/")[2]
            if version not in numbers:  # newer ones come along
                continue
            if kind == "manifest":
                known.add(name)
            elif kind == "transaction file":
                found.uuids.add(transaction_of(name))
            elif kind == "index file":
                found.uuids.update(filter(is_uuid, path.split("/")))
            else:
                found.files.add(name)
        yield found
    return known


def _files_of(dataset: lance.LanceDataset) -> Iterable[str]:
    for fragment in dataset.get_fragments():
        about = fragment.metadata
        for file in (*about.files, *(each.data_file for each in about.overlays)):
            yield file.path.rpartition("/")[2]
        if about.deletion_file is not None:
            yield about.deletion_file.path(about.id).rpartition("/")[2]


def transaction_of(name: str) -> str:
    """The UUID of a transaction, by the name of its file."""
    return name.removesuffix(".txn")[-36:]


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID, as Lance writes them."""
    return re.fullmatch(_UUID, text) is not None
