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

    A commit that was rebased keeps the original version. Should other text in the manifest look the
    same, the lowest number counts: it may only refuse too much.
    """
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
