"""A manifest that a writer has staged: where it may lie, and what its bytes tell of the commit."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from tiltyard import names
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.store import NotThere, Store

# Lance names the file of a transaction by the version that the writer had read, and a UUID.
_TRANSACTION = re.compile(rb"(\d{1,21})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.txn$")
_SUFFIX = b".txn"
_AFTER_NUMBER = 1 + 36 + len(_SUFFIX)
_LONGEST = 21 + _AFTER_NUMBER


def read_staged(store: Store, staged: str, location: str, final: str, table: str) -> bytes:
    """The bytes of a staged manifest of a table, that is to become the file `final`."""
    inside = f"{location}/{names.VERSIONS_DIRECTORY}/"
    if not staged.startswith(inside) or staged == final:
        raise InvalidInputError(f"{staged!r} is not a staged manifest of table {table}")
    try:
        return store.get(staged).body
    except NotThere as missing:
        # Whoever asks again after a lost answer finds the version, and knows it for its own.
        raise ConcurrentModificationError(
            f"the staged manifest {staged} is gone",
            hint="look whether the version is there already",
        ) from missing


def transaction_of(body: bytes, key: str) -> tuple[int, str]:
    """The version that a writer started from, and the UUID of its transaction.

    An append that was rebased keeps the original version. A delete or an update tells the one that
    it was rebased onto, as if it had been carried out there; so it is asked for more. Should other
    text in the manifest look the same, the lowest number counts: it may only refuse too much.
    """
    number, uuid = _named(body, key)
    evidence = _carried_out_on(body)
    return number if evidence is None else min(number, evidence), uuid


def transaction_file(body: bytes, key: str) -> str:
    """The name of the file that tells of the transaction."""
    number, uuid = _named(body, key)
    return f"{number}-{uuid}{_SUFFIX.decode()}"


def _named(body: bytes, key: str) -> tuple[int, str]:
    found = [(_version(match[1]), match[2]) for match in _names(body)]
    if not found:
        raise InvalidInputError(
            f"{key} is not a manifest that names its transaction, so it can't be told which "
            f"version it is based on"
        )
    number, uuid = min(found)
    return number, uuid.decode()


def _version(digits: bytes) -> int:
    """Before a name stands its length in one byte, which looks like a digit for long names."""
    told = digits[0] == len(digits) - 1 + _AFTER_NUMBER
    return int(digits[1:] if told and len(digits) > 1 else digits)


def _names(body: bytes) -> Iterator[re.Match[bytes]]:
    """Looks at the few places where such a name ends, not at every number in a manifest."""
    end = body.find(_SUFFIX)
    while end >= 0:
        end += len(_SUFFIX)
        match = _TRANSACTION.search(body, max(0, end - _LONGEST), end)
        if match:
            yield match
        end = body.find(_SUFFIX, end)


# Where the end of a manifest says that it begins, and fields of Lance's format: where the manifest
# keeps the transaction that made it, and, in a transaction, the version that it restores.
_FOOTER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")
_TRANSACTION_SECTION = 23
_RESTORE = 106
_RESTORED_VERSION = 1
# How the field of a restore begins: what does not contain this is none.
_RESTORE_KEY = bytes([(_RESTORE << 3 | 2) & 127 | 128, (_RESTORE << 3 | 2) >> 7])


def restored_by(body: bytes) -> int | None:
    """The older version that a staged manifest brings back; None for every other change."""
    if _RESTORE_KEY not in body:
        return None
    try:
        start, _, _, magic = _FOOTER.unpack_from(body, len(body) - _FOOTER.size)
        if magic != b"LANC":
            return None
        section = dict(_fields(_message(body, start))).get(_TRANSACTION_SECTION)
        if not isinstance(section, int):
            return None
        restore = dict(_fields(_message(body, section))).get(_RESTORE)
        if not isinstance(restore, bytes):
            return None
        version = dict(_fields(restore)).get(_RESTORED_VERSION, 0)
        return version if isinstance(version, int) else None
    except (struct.error, IndexError, KeyError):
        return None


def _message(body: bytes, start: int) -> bytes:
    (length,) = _LENGTH.unpack_from(body, start)
    begin = start + _LENGTH.size
    return body[begin : begin + length]


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message in the wire format of Protocol Buffers."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _number(message, at)
            yield key >> 3, value
            continue
        size, at = _number(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        yield key >> 3, message[at : at + size]
        at += size


def _number(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


# Of a manifest, its fragments; of a delete and an update, those that they changed, and of an update
# whether it wrote columns; of a fragment, its id and its file of deleted rows; of that, the version
# that it was written on.
_FRAGMENTS = 2
_DELETE, _UPDATE = 101, 108
_CHANGED = {_DELETE: 1, _UPDATE: 2}
_REMOVED = {_DELETE: 2, _UPDATE: 1}
_COLUMNS_MODIFIED, _UPDATE_MODE = 4, 7
_ID, _DELETED_ROWS, _WRITTEN_ON = 1, 3, 2


def _carried_out_on(body: bytes) -> int | None:
    """The version on which a delete or an update looked for its rows, as far as that can be told.

    Lance rebases them over the versions that it finds, and does not notice that some are gone. The
    files of deleted rows that they wrote tell on which version. A fragment that they changed and
    that is not there was replaced meanwhile: then nothing is based on it, which is version 0.
    """
    if not any(_key(each) in body for each in _CHANGED):
        return None
    try:
        start, _, _, magic = _FOOTER.unpack_from(body, len(body) - _FOOTER.size)
        manifest = list(_fields(_message(body, start))) if magic == b"LANC" else []
        section = dict(manifest).get(_TRANSACTION_SECTION)
        if not isinstance(section, int):
            return None
        return _evidence(manifest, dict(_fields(_message(body, section))))
    except (struct.error, IndexError, KeyError):
        return None


def _evidence(
    manifest: list[tuple[int, int | bytes]], transaction: dict[int, int | bytes]
) -> int | None:
    there = {_id(each) for number, each in manifest if number == _FRAGMENTS}
    written_on: list[int] = []
    for kind, changed in _CHANGED.items():
        operation = transaction.get(kind)
        if not isinstance(operation, bytes):
            continue
        about = list(_fields(operation))
        writes_rows = not dict(about).keys() & {_COLUMNS_MODIFIED, _UPDATE_MODE}
        for number, fragment in about:
            if number != changed or not isinstance(fragment, bytes):
                continue
            if _id(fragment) not in there:
                return 0
            deleted = dict(_fields(fragment)).get(_DELETED_ROWS)
            if writes_rows and isinstance(deleted, bytes):
                version = dict(_fields(deleted)).get(_WRITTEN_ON, 0)
                written_on += [version] if isinstance(version, int) else []
    return min(written_on, default=None)


def removed_by(body: bytes) -> frozenset[int]:
    """The fragments that a delete or an update takes away whole: it wrote nothing that tells on
    which version it found them."""
    if not any(_key(each) in body for each in _REMOVED):
        return frozenset()
    found: set[int] = set()
    transaction = _transaction(body)
    for kind, removed in _REMOVED.items():
        operation = transaction.get(kind)
        if isinstance(operation, bytes):
            packed = dict(_fields(operation)).get(removed, b"")
            found.update(_numbers(packed) if isinstance(packed, bytes) else [packed])
    return frozenset(found)


def fragments_in(body: bytes) -> frozenset[int]:
    """The fragments of a version."""
    start = _FOOTER.unpack_from(body, len(body) - _FOOTER.size)[0]
    every = _fields(_message(body, start))
    return frozenset(_id(each) for number, each in every if number == _FRAGMENTS)


def _transaction(body: bytes) -> dict[int, int | bytes]:
    try:
        start, _, _, magic = _FOOTER.unpack_from(body, len(body) - _FOOTER.size)
        if magic != b"LANC":
            return {}
        section = dict(_fields(_message(body, start))).get(_TRANSACTION_SECTION)
        return dict(_fields(_message(body, section))) if isinstance(section, int) else {}
    except (struct.error, IndexError, KeyError):
        return {}


def _numbers(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _number(packed, at)
        yield value


def _id(fragment: int | bytes) -> int:
    found = dict(_fields(fragment)).get(_ID, 0) if isinstance(fragment, bytes) else 0
    return found if isinstance(found, int) else 0


def _key(field: int) -> bytes:
    """How a field of that number begins, with a value that has a size."""
    tag = field << 3 | 2
    return bytes([tag & 127 | 128, tag >> 7])
