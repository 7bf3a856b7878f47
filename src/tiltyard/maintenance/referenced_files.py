"""The files of one table that its versions refer to, read in two ways.

`ReferencedFiles` has names alone, for the search for orphans. Names are random, so a name is enough
wherever the file lies. Every manifest in the table's directory counts, on every branch, also those
that readers do not see; a staged manifest counts while a row or a sidecar names it, or while it is
young.

`FilesByVersion` has the keys of files by the version that refers to them, for the clean-up of
versions. Files elsewhere, of a table that this one was cloned from, are left out: they are not
removed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import lance

from tiltyard.catalog import names, version_files
from tiltyard.catalog.context import CatalogContext
from tiltyard.catalog.pylance import FAILURES, is_missing
from tiltyard.errors import InvalidTableStateError
from tiltyard.store import Entry, NotThere, Retry, Store

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
class ReferencedFiles:
    """What versions of a table refer to: names of files, UUIDs of indexes and transactions, and
    the bytes of staged manifests, which have the names of files in them.

    A staged manifest names the files of deleted rows by numbers only: with one, all such files
    count.
    """

    files: set[str] = field(default_factory=set)
    uuids: set[str] = field(default_factory=set)
    staged: list[bytes] = field(default_factory=list)

    def add(self, other: ReferencedFiles) -> None:
        self.files |= other.files
        self.uuids |= other.uuids
        self.staged += other.staged

    def includes(self, folder: str, parts: Sequence[str]) -> bool:
        """Whether something refers to a file; `parts` are those of its path, from its table on."""
        if folder == INDEXES:
            return bool(self.uuids.intersection(parts)) or not any(map(is_uuid, parts))
        if folder == TRANSACTIONS:
            return transaction_of(parts[-1]) in self.uuids
        if folder == DELETIONS and self.staged:
            return True
        # A blob lies in a folder that has the name of its data file.
        candidates = {*parts, *(f"{part}.lance" for part in parts)}
        if not self.files.isdisjoint(candidates):
            return True
        texts = [name.encode() for name in candidates if name.endswith(".lance")]
        return any(text in body for body in self.staged for text in texts)


def is_staged(entry: Entry) -> bool:
    """Whether an object under `_versions/` is a manifest that is to become a version."""
    return _STAGED.fullmatch(entry.name) is not None


def transaction_of(name: str) -> str:
    """The UUID of a transaction, by the name of its file."""
    return name.removesuffix(".txn")[-36:]


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID, as Lance writes them."""
    return re.fullmatch(_UUID, text) is not None


# -- by name

# Whether a staged manifest counts.
Counts = Callable[[Entry], bool]


def read_all(context: CatalogContext, location: str, counts: Counts) -> ReferencedFiles:
    """What all versions of a table refer to, and the staged manifests that count. One request for
    each manifest, two if the table has indexes; several at a time.

    InvalidTableStateError if one can't be read.
    """
    manifests, indexes = _manifests_among(context.store.walk(location), location)
    referenced = ReferencedFiles()
    for part in read_manifests(context, location, manifests, indexes, counts):
        referenced.add(part)
    return referenced


def list_manifests(store: Store, location: str) -> tuple[list[Entry], set[str]]:
    """The manifests of a table and the UUIDs of its indexes, without a listing of its data: two
    requests, and a listing of everything on its branches."""
    entries = list(store.list(f"{location}/{names.VERSIONS_DIRECTORY}").objects)
    entries += store.walk(f"{location}/{names.BRANCHES_DIRECTORY}")
    manifests, indexes = _manifests_among(entries, location)
    return manifests, indexes | set(
        filter(is_uuid, store.list(f"{location}/{INDEXES}").directories)
    )


def read_manifests(
    context: CatalogContext,
    location: str,
    manifests: Sequence[Entry],
    indexes: Collection[str],
    counts: Counts,
) -> Iterator[ReferencedFiles]:
    """What those of the manifests that count refer to, piece by piece.

    Lance reads all versions of a branch at once. Versions that it did not report, and all of a
    branch if it failed, are read one by one.
    """
    branches: dict[str, dict[str, Entry]] = {}
    one_by_one: list[Entry] = []
    for entry in manifests:
        if version_files.parse(entry) is not None:
            branches.setdefault(_branch_directory(location, entry), {})[entry.name] = entry
        elif is_staged(entry) and counts(entry):
            one_by_one.append(entry)
    reported: list[Entry] = []
    for directory, versions in branches.items():
        try:
            read = yield from _read_versions(context, directory, versions.values())
        except FAILURES:  # one is broken, or was deleted since
            read = set()
        reported += [entry for name, entry in versions.items() if name in read]
        one_by_one += [entry for name, entry in versions.items() if name not in read]
    with ThreadPoolExecutor(READING_THREADS) as pool:
        yield from pool.map(
            lambda entry: _read_manifest(context, location, entry, indexes), one_by_one
        )
        if indexes:
            yield from pool.map(lambda entry: _read_indexes(context, entry, indexes), reported)


def _manifests_among(entries: Iterable[Entry], location: str) -> tuple[list[Entry], set[str]]:
    """The manifests among the files of a table, and the UUIDs of its indexes."""
    manifests: list[Entry] = []
    indexes: set[str] = set()
    for entry in entries:
        folders = entry.key[len(location) + 1 :].split("/")[:-1]
        if names.VERSIONS_DIRECTORY in folders:
            manifests.append(entry)
        elif INDEXES in folders:
            indexes.update(filter(is_uuid, folders))
    return manifests, indexes


def _read_manifest(
    context: CatalogContext, location: str, entry: Entry, indexes: Collection[str]
) -> ReferencedFiles:
    """What one manifest refers to; nothing if it was deleted meanwhile. Two requests.

    InvalidTableStateError if it can't be read.
    """
    version = version_files.parse(entry)
    files: set[str] = set()
    try:
        body = context.store.get(entry.key).body
        if version is not None:
            directory = _branch_directory(location, entry)
            files.update(_files_of(context.lance.open(directory, version.version)))
    except NotThere:  # deleted since it was listed
        return ReferencedFiles()
    except FAILURES as error:
        if _is_deleted(context.store, entry):
            return ReferencedFiles()
        raise InvalidTableStateError(
            f"{entry.key} can't be read, so it can't be told what it needs: {error}"
        ) from error
    uuids = {match.decode() for match in _TRANSACTION.findall(body)} | _named_in(body, indexes)
    return ReferencedFiles(files, uuids, [] if version is not None else [body])


def _read_indexes(
    context: CatalogContext, entry: Entry, indexes: Collection[str]
) -> ReferencedFiles:
    """The indexes of a version, which Lance does not report for branches. One request."""
    try:
        return ReferencedFiles(uuids=_named_in(context.store.get(entry.key).body, indexes))
    except NotThere:  # deleted since it was listed
        return ReferencedFiles()


def _read_versions(
    context: CatalogContext, directory: str, versions: Iterable[Entry]
) -> Generator[ReferencedFiles, None, set[str]]:
    """What the versions of a branch refer to; returns the names of the manifests that Lance read
    for it."""
    numbers = {file.version for file in map(version_files.parse, versions) if file is not None}
    dataset = context.lance.open(directory, max(numbers))
    read: set[str] = set()
    for batch in dataset.tracked_files(min_version=min(numbers)):
        referenced = ReferencedFiles()
        columns = (batch.column(name).to_pylist() for name in ("version", "path", "type"))
        for version, path, kind in zip(*columns, strict=True):
            name = path.rpartition("/")[2]
            if version not in numbers:  # newer ones come along
                continue
            if kind == _MANIFEST:
                read.add(name)
            elif kind == "transaction file":
                referenced.uuids.add(transaction_of(name))
            elif kind == "index file":
                referenced.uuids.update(filter(is_uuid, path.split("/")))
            else:
                referenced.files.add(name)
        yield referenced
    return read


def _named_in(body: bytes, indexes: Collection[str]) -> set[str]:
    return {index for index in indexes if UUID(index).bytes in body}


def _is_deleted(store: Store, entry: Entry) -> bool:
    try:
        store.head(entry.key)
    except NotThere:
        return True
    return False


def _branch_directory(location: str, entry: Entry) -> str:
    """The directory of the branch that a version is of; that of the table for the main branch."""
    branch = _BRANCH.fullmatch(entry.key[len(location) + 1 :])
    return location if branch is None else f"{location}/{names.BRANCHES_DIRECTORY}/{branch[1]}"


def _files_of(dataset: lance.LanceDataset) -> Iterable[str]:
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        for file in (*metadata.files, *(overlay.data_file for overlay in metadata.overlays)):
            yield file.path.rpartition("/")[2]
        if metadata.deletion_file is not None:
            yield metadata.deletion_file.path(metadata.id).rpartition("/")[2]


# -- by version

_COLUMNS = ("version", "base_uri", "path", "type")
# The files of versions themselves; `versions` deletes those.
_MANIFEST = "manifest"


class BranchVersion(NamedTuple):
    """One version of a branch; None is the main one."""

    branch: str | None
    version: int

    def __str__(self) -> str:
        on = "" if self.branch is None else f" on branch '{self.branch}'"
        return f"version {self.version}{on}"


def on_branch(branch: str | None, versions: Iterable[int]) -> set[BranchVersion]:
    return {BranchVersion(branch, version) for version in versions}


@dataclass(frozen=True)
class FilesByVersion:
    """Which versions refer to which files, as keys of the store."""

    by_version: Mapping[BranchVersion, frozenset[str]]

    def only_of(self, versions: Collection[BranchVersion]) -> set[str]:
        """The files that some of these versions refer to, and no other version does."""
        files = {file for version in versions for file in self.by_version.get(version, ())}
        return files - self.except_of(versions)

    def except_of(self, versions: Collection[BranchVersion]) -> set[str]:
        """The files that any version but these refers to."""
        return set().union(
            *(files for version, files in self.by_version.items() if version not in versions)
        )


def read_by_version(
    context: CatalogContext,
    location: str,
    retry: Retry,
    present: Callable[[], Collection[BranchVersion]],
) -> FilesByVersion:
    """Read what refers to files now; again if versions are deleted meanwhile.

    InvalidTableStateError if a version that is `present` was not among those that were read, or one
    at which a branch begins: without it nothing can be said about any file. A branch refers to
    what the version has at which it begins, and to files of its own; it may name them by another
    address than ours, and Lance does not report which indexes it uses.
    """
    for attempt in retry:
        is_last = attempt + 1 == retry.attempts
        expected = set(present())
        try:
            read, bases = _read_by_version(context, location)
        except FAILURES as error:
            if is_last or not is_missing(error):
                raise context.lance.explain(error, f"read the versions of {location}") from error
        else:
            missing = (bases | expected) - read.by_version.keys()
            if not missing:
                return read
            if is_last:
                first = min(missing, key=lambda version: (version.branch or "", version.version))
                raise _incomplete(location, first, is_base=first in bases)
    raise AssertionError("unreachable")


def _incomplete(location: str, missing: BranchVersion, *, is_base: bool) -> InvalidTableStateError:
    why = "a branch began there" if is_base else "the catalog has it"
    return InvalidTableStateError(
        f"{missing} of {location} has no file, and {why}",
        hint="no file of this table can be removed until that is mended",
    )


def _read_by_version(
    context: CatalogContext, location: str
) -> tuple[FilesByVersion, set[BranchVersion]]:
    """What refers to files, and the versions at which branches begin."""
    dataset = context.lance.open(location)
    uri = context.lance.uri(location)
    branches: dict[str, Any] = dict(dataset.branches.list())
    by_version: dict[BranchVersion, frozenset[str]] = {}
    for branch in (None, *branches):
        head = dataset if branch is None else dataset.checkout_version((branch, None))
        for version, files in _tracked(head, uri, location).items():
            by_version[BranchVersion(branch, version)] = frozenset(files)
    bases = {
        BranchVersion(branch["parent_branch"], branch["parent_version"])
        for branch in branches.values()
    }
    return FilesByVersion(by_version), bases


def _tracked(dataset: lance.LanceDataset, uri: str, location: str) -> dict[int, set[str]]:
    """The files inside one table that each version of a branch refers to, as keys of the store."""
    by_version: dict[int, set[str]] = {}
    for batch in dataset.tracked_files():
        columns = (batch.column(name).to_pylist() for name in _COLUMNS)
        for version, base, path, kind in zip(*columns, strict=True):
            files = by_version.setdefault(version, set())
            directory = _below_table(base, uri)
            if kind != _MANIFEST and directory is not None:
                files.add(f"{location}{directory}/{path}")
    return by_version


def _below_table(base: str, uri: str) -> str | None:
    """Where the files of a branch lie below its table; None if that is another table."""
    directory = base.removeprefix(uri)
    is_branch = base != directory and directory.startswith(f"/{names.BRANCHES_DIRECTORY}/")
    return directory if base == uri or is_branch else None
