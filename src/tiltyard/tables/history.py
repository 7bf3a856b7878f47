"""What each version of a table did to its rows: which came, which went, or none.

Every version of Lance says by which operation it was made. `classify` judges that alone, without a
request; `read_commits` reads it. Compactions, indexes and settings leave the rows as they are. What
can't be told is never guessed: see `Kind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import lance
from lance import LanceOperation
from lance.fragment import FragmentMetadata

from tiltyard.catalog.pylance import FAILURES, is_missing, is_unreadable_compaction
from tiltyard.errors import InternalError
from tiltyard.tables.scan import Snapshot

READING_THREADS = 8
LONGEST_STRETCH = 256

T = TypeVar("T")


class Kind(StrEnum):
    """What a version did to the rows of the one before."""

    NOTHING = "nothing"
    APPEND = "append"
    DELETE = "delete"
    UPDATE = "update"  # rows came in the place of others
    REPLACE = "replace"  # all rows went, and others came
    UNKNOWN = "unknown"
    GONE = "gone"  # the version is no longer there, so nothing tells


@dataclass(frozen=True, slots=True)
class Piece:
    """A fragment that rows came in or went from.

    One that came is known by its first data file: it had no number when its version was made.
    """

    name: str
    number: int
    rows: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table, and the fragments in which its rows came and went.

    `in_place` are fragments whose rows have new values in some columns. `went` is None if the
    version before, which holds the rows that went, is no longer there. `moves` says that fragments
    of earlier versions may look different in this one, though they hold the same rows.
    """

    version: int
    kind: Kind
    operation: str = ""
    came: tuple[Piece, ...] = ()
    went: tuple[Piece, ...] | None = ()
    in_place: tuple[Piece, ...] = ()
    moves: bool = True


# ---------------------------------------------------------------- judging


def classify(version: int, operation: object) -> Commit:
    """What an operation did, as far as it says so itself.

    Rows that went are named by the numbers of their fragments alone. What a merge did, only the
    version before can tell: see `grown`.
    """
    name = type(operation).__name__
    if isinstance(operation, LanceOperation.Append):
        return Commit(version, Kind.APPEND, name, pieces(operation.fragments), moves=False)
    if isinstance(operation, LanceOperation.Overwrite):
        kind = Kind.APPEND if version == 1 else Kind.REPLACE
        return Commit(version, kind, name, pieces(operation.fragments))
    if isinstance(operation, LanceOperation.Restore):
        return Commit(version, Kind.REPLACE, name)
    if isinstance(operation, LanceOperation.Delete):
        lost = [*_numbers(operation.updated_fragments), *operation.deleted_fragment_ids]
        return Commit(version, Kind.DELETE if lost else Kind.NOTHING, name, went=_unread(lost))
    if isinstance(operation, LanceOperation.Update):
        return _updated(version, operation)
    if isinstance(operation, LanceOperation.DataReplacement):
        return Commit(version, Kind.UNKNOWN, name)
    stays = isinstance(operation, LanceOperation.CreateIndex | LanceOperation.UpdateConfig)
    return Commit(version, Kind.NOTHING, name, moves=not stays)


def _updated(version: int, operation: LanceOperation.Update) -> Commit:
    """An upsert that only inserted is an append, and a merge that only deleted is a delete."""
    came = pieces(operation.new_fragments)
    lost = list(operation.removed_fragment_ids)
    in_place: tuple[Piece, ...] = ()
    if operation.update_mode == "rewrite_columns":
        in_place = pieces(operation.updated_fragments)
    else:
        lost += _numbers(operation.updated_fragments)
    if in_place or (came and lost):
        return Commit(version, Kind.UPDATE, "Update", came, _unread(lost), in_place)
    if came:
        return Commit(version, Kind.APPEND, "Update", came, moves=False)
    return Commit(version, Kind.DELETE if lost else Kind.NOTHING, "Update", went=_unread(lost))


def grown(
    version: int, before: Sequence[FragmentMetadata], after: Sequence[FragmentMetadata]
) -> Commit:
    """A merge adds columns to fragments, or fragments to all those that there were."""
    old = {fragment.id: fragment for fragment in before}
    new = {fragment.id: fragment for fragment in after}
    if not old.keys() <= new.keys():
        return Commit(version, Kind.UNKNOWN, "Merge")
    came = pieces(fragment for number, fragment in new.items() if number not in old)
    moves = any(new[number].files != fragment.files for number, fragment in old.items())
    return Commit(version, Kind.APPEND if came else Kind.NOTHING, "Merge", came, moves=moves)


def pieces(fragments: Iterable[FragmentMetadata]) -> tuple[Piece, ...]:
    return tuple(Piece(name_of(fragment), fragment.id, fragment.num_rows) for fragment in fragments)


def name_of(fragment: FragmentMetadata) -> str:
    return str(fragment.files[0].path)


def _numbers(fragments: Iterable[FragmentMetadata]) -> list[int]:
    return [fragment.id for fragment in fragments]


def _unread(numbers: Iterable[int]) -> tuple[Piece, ...]:
    return tuple(Piece("", number, 0) for number in numbers)


# ---------------------------------------------------------------- reading


def read_commits(table: Snapshot, versions: Sequence[int]) -> list[Commit]:
    """What versions did, in their order. Two requests each or three, several at a time."""
    return _for_each(table, versions, _read_commit)


def _read_commit(dataset: lance.LanceDataset, version: int) -> Commit:
    try:
        transaction = dataset.read_transaction(version)
        if transaction is None:
            return Commit(version, Kind.UNKNOWN)
        judged = classify(version, transaction.operation)
        if isinstance(transaction.operation, LanceOperation.Merge):
            before = _fragments(dataset, version - 1)
            if before is None:
                judged = Commit(version, Kind.GONE, "Merge")
            else:
                judged = grown(version, before, _fragments(dataset, version) or [])
        elif judged.kind is Kind.REPLACE or judged.went:
            judged = _with_what_went(dataset, judged)
    except TypeError as error:
        if not is_unreadable_compaction(error):  # a compaction that pylance 14 can't show
            raise InternalError(f"version {version} can't be read: {error}") from error
        return Commit(version, Kind.NOTHING, "Rewrite")
    except FAILURES as error:
        if is_missing(error):
            return Commit(version, Kind.GONE)
        raise
    return judged


def read_snapshot(table: Snapshot, version: int) -> Commit:
    """All rows of a version, as if it had brought them."""
    (fragments,) = _for_each(table, [version], _fragments)
    if fragments is None:
        return Commit(version, Kind.GONE)
    return Commit(version, Kind.APPEND, "snapshot", pieces(fragments))


def _with_what_went(dataset: lance.LanceDataset, commit: Commit) -> Commit:
    before = _fragments(dataset, commit.version - 1)
    came = commit.came
    if commit.kind is Kind.REPLACE:
        came = pieces(_fragments(dataset, commit.version) or [])
    if before is None:
        return replace(commit, came=came, went=None)
    lost = {piece.number for piece in commit.went or ()}
    everything = commit.kind is Kind.REPLACE
    went = pieces(fragment for fragment in before if everything or fragment.id in lost)
    return replace(commit, came=came, went=went)


def _fragments(dataset: lance.LanceDataset, version: int) -> list[FragmentMetadata] | None:
    """The fragments of another version, or None if it is no longer there."""
    try:
        return [fragment.metadata for fragment in dataset.checkout_version(version).get_fragments()]
    except FAILURES as error:
        if is_missing(error):
            return None
        raise


def find_commit(
    table: Snapshot, key: str, value: str, after: int
) -> tuple[int, dict[str, str]] | None:
    """The newest version whose commit has a property of this value, and all its properties.

    Looks back from the version of the snapshot to the one after `after`, first at one, then at
    two, then at four: what is looked for is mostly near. Where nothing is left of a whole stretch,
    everything older was cleaned up too.
    """
    high, stretch = table.at.version or 0, 1
    while high > after:
        low = max(after, high - stretch)
        versions = range(high, low, -1)
        every = _for_each(table, versions, _properties)
        for version, properties in zip(versions, every, strict=True):
            if properties is not None and properties.get(key) == value:
                return version, properties
        if stretch > 1 and all(properties is None for properties in every):
            return None
        high, stretch = low, min(2 * stretch, LONGEST_STRETCH)
    return None


def _properties(dataset: lance.LanceDataset, version: int) -> dict[str, str] | None:
    """What whoever made a version said about it, or None if the version is gone."""
    try:
        transaction = dataset.read_transaction(version)
    except TypeError:  # a compaction that pylance 14 can't show
        return {}
    except FAILURES as error:
        if is_missing(error):
            return None
        raise
    return dict(transaction.transaction_properties or {}) if transaction is not None else {}


def _for_each(
    table: Snapshot, versions: Sequence[int], look: Callable[[lance.LanceDataset, int], T]
) -> list[T]:
    """Look at versions, many of them in several threads, and answer in their order."""
    dataset = table.open()
    threads = max(1, min(READING_THREADS, len(versions) // 4))
    try:
        # Reading a transaction borrows the dataset, so each thread has its own.
        own = [dataset.checkout_version(dataset.version) for _ in range(1, threads)]

        def look_at_share(number: int) -> list[T]:
            return [look([dataset, *own][number], version) for version in versions[number::threads]]

        if threads == 1:
            return look_at_share(0)
        with ThreadPoolExecutor(threads) as pool:
            parts = list(pool.map(look_at_share, range(threads)))
    except FAILURES as error:
        raise table.explain(error) from error
    return [parts[index % threads][index // threads] for index in range(len(versions))]
