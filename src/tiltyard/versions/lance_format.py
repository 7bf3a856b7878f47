"""What the bytes of Lance's manifests and transactions tell of a commit.

Both are protobuf messages. They are read as such, because pylance opens neither a manifest that is
only staged nor a transaction of an operation without a Python form.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from tiltyard.catalog import names
from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.store import NotThere, Store

Field = tuple[int, int | bytes]


# -- the transaction of a manifest


def transaction_of(body: bytes, key: str) -> tuple[int, str]:
    """The version that a writer started from, and the UUID of its transaction.

    An append that was rebased keeps the original version. A delete or an update tells the one that
    it was rebased onto, as if it had been carried out there; so it is asked for more. Should other
    text in the manifest look the same, the lowest number counts: it may only refuse too much.
    """
    number, uuid = _transaction_name(body, key)
    evidence = _carried_out_on(body)
    return number if evidence is None else min(number, evidence), uuid


# Lance names the file of a transaction by the version that the writer had read, and a UUID.
_TRANSACTION = re.compile(rb"(\d{1,21})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.txn$")
_SUFFIX = b".txn"
_AFTER_NUMBER = 1 + 36 + len(_SUFFIX)
_LONGEST = 21 + _AFTER_NUMBER


def _transaction_name(body: bytes, key: str) -> tuple[int, str]:
    candidates = [(_read_version(match[1]), match[2]) for match in _matches(body)]
    if not candidates:
        raise InvalidInputError(
            f"{key} is not a manifest that names its transaction, so it can't be told which "
            f"version it is based on"
        )
    number, uuid = min(candidates)
    return number, uuid.decode()


def _read_version(digits: bytes) -> int:
    """Before a name stands its length in one byte, which looks like a digit for long names."""
    has_length = digits[0] == len(digits) - 1 + _AFTER_NUMBER
    return int(digits[1:] if has_length and len(digits) > 1 else digits)


def _matches(body: bytes) -> Iterator[re.Match[bytes]]:
    """Looks at the few places where such a name ends, not at every number in a manifest."""
    end = body.find(_SUFFIX)
    while end >= 0:
        end += len(_SUFFIX)
        match = _TRANSACTION.search(body, max(0, end - _LONGEST), end)
        if match:
            yield match
        end = body.find(_SUFFIX, end)


# -- the operation of a transaction

UNKNOWN = "unknown"
# What leaves every row as it was.
BENIGN = frozenset({"Rewrite", "ReserveFragments"})

_DELETE, _RESTORE, _UPDATE = 101, 106, 108
# The numbers of the fields of Lance's `Transaction`.
_OPERATIONS = {
    100: "Append",
    _DELETE: "Delete",
    102: "Overwrite",
    103: "CreateIndex",
    104: "Rewrite",
    105: "Merge",
    _RESTORE: "Restore",
    107: "ReserveFragments",
    _UPDATE: "Update",
    109: "Project",
    110: "UpdateConfig",
    111: "DataReplacement",
    112: "UpdateMemWalState",
    113: "Clone",
    114: "UpdateBases",
    115: "DataOverlay",
}


def operation_of(store: Store, location: str, file: VersionFile) -> str:
    """The operation that made a version; "unknown" if nothing tells. Two requests."""
    try:
        number, uuid = _transaction_name(store.get(file.key).body, file.key)
        name = f"{number}-{uuid}{_SUFFIX.decode()}"
        body = store.get(f"{location}/{names.TRANSACTIONS_DIRECTORY}/{name}").body
        operations = [_OPERATIONS[field] for field, _ in _fields(body) if field in _OPERATIONS]
    except (NotThere, InvalidInputError, ValueError, IndexError):
        return UNKNOWN
    return operations[0] if len(operations) == 1 else UNKNOWN


# -- what a manifest says of the change that made it

# Of a manifest, its fragments and where it keeps the transaction that made it.
_FRAGMENTS, _TRANSACTION_SECTION = 2, 23
# Of a restore, the version. Of a delete and an update, the fragments that they changed and those
# that they removed, and of an update whether it wrote columns.
_RESTORED_VERSION = 1
_CHANGED = {_DELETE: 1, _UPDATE: 2}
_REMOVED = {_DELETE: 2, _UPDATE: 1}
_COLUMNS_MODIFIED, _UPDATE_MODE = 4, 7
# Of a fragment, its id and its file of deleted rows; of that, the version that it was written on.
_ID, _DELETED_ROWS, _WRITTEN_ON = 1, 3, 2


def restored_by(body: bytes) -> int | None:
    """The older version that a manifest restores; None for every other change."""
    if _key(_RESTORE) not in body:
        return None
    try:
        restore = _transaction(body, _manifest(body)).get(_RESTORE)
        if not isinstance(restore, bytes):
            return None
        version = dict(_fields(restore)).get(_RESTORED_VERSION, 0)
    except _MALFORMED:
        return None
    return version if isinstance(version, int) else None


def removed_by(body: bytes) -> frozenset[int]:
    """The fragments that a delete or an update removes whole: it wrote nothing that tells on which
    version it found them."""
    if not any(_key(operation) in body for operation in _REMOVED):
        return frozenset()
    try:
        transaction = _transaction(body, _manifest(body))
    except _MALFORMED:
        return frozenset()
    removed: set[int] = set()
    for operation, field in _REMOVED.items():
        change = transaction.get(operation)
        if isinstance(change, bytes):
            packed = dict(_fields(change)).get(field, b"")
            removed.update(_numbers(packed) if isinstance(packed, bytes) else [packed])
    return frozenset(removed)


def fragments_in(body: bytes) -> frozenset[int]:
    """The fragments of a version."""
    return frozenset(_id(value) for field, value in _manifest(body) if field == _FRAGMENTS)


def _carried_out_on(body: bytes) -> int | None:
    """The version on which a delete or an update looked for its rows, as far as that can be told.

    Lance rebases them over the versions that it finds, and does not notice that some are gone. The
    files of deleted rows that they wrote tell on which version. A fragment that they changed and
    that is not there was replaced meanwhile: then nothing is based on it, which is version 0.
    """
    if not any(_key(operation) in body for operation in _CHANGED):
        return None
    try:
        manifest = _manifest(body)
        return _evidence(manifest, _transaction(body, manifest))
    except _MALFORMED:
        return None


def _evidence(manifest: list[Field], transaction: dict[int, int | bytes]) -> int | None:
    present = {_id(value) for field, value in manifest if field == _FRAGMENTS}
    written_on: list[int] = []
    for operation, changed in _CHANGED.items():
        change = transaction.get(operation)
        if not isinstance(change, bytes):
            continue
        fields = list(_fields(change))
        writes_rows = not dict(fields).keys() & {_COLUMNS_MODIFIED, _UPDATE_MODE}
        for field, fragment in fields:
            if field != changed or not isinstance(fragment, bytes):
                continue
            if _id(fragment) not in present:
                return 0
            deleted = dict(_fields(fragment)).get(_DELETED_ROWS)
            if writes_rows and isinstance(deleted, bytes):
                version = dict(_fields(deleted)).get(_WRITTEN_ON, 0)
                written_on += [version] if isinstance(version, int) else []
    return min(written_on, default=None)


def _id(fragment: int | bytes) -> int:
    number = dict(_fields(fragment)).get(_ID, 0) if isinstance(fragment, bytes) else 0
    return number if isinstance(number, int) else 0


# -- the wire format

# The end of a manifest says where it begins.
_FOOTER = struct.Struct("<qHH4s")
_MAGIC = b"LANC"
_LENGTH = struct.Struct("<I")
_VARINT, _SIZED = 0, 2
_FIXED_SIZES = {1: 8, 5: 4}
_MALFORMED = (struct.error, IndexError, ValueError)


def _manifest(body: bytes) -> list[Field]:
    """The fields of a manifest; none if it is not one."""
    start, _, _, magic = _FOOTER.unpack_from(body, len(body) - _FOOTER.size)
    return list(_fields(_message(body, start))) if magic == _MAGIC else []


def _transaction(body: bytes, manifest: list[Field]) -> dict[int, int | bytes]:
    """The fields of the transaction that a manifest contains; none if it contains none."""
    section = dict(manifest).get(_TRANSACTION_SECTION)
    return dict(_fields(_message(body, section))) if isinstance(section, int) else {}


def _message(body: bytes, start: int) -> bytes:
    (length,) = _LENGTH.unpack_from(body, start)
    begin = start + _LENGTH.size
    return body[begin : begin + length]


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a protobuf message. ValueError or IndexError if it is none."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _number(message, at)
            yield key >> 3, value
            continue
        if kind == _SIZED:
            size, at = _number(message, at)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"{kind} is no kind of field")
        if at + size > len(message):
            raise ValueError("the message ends too early")
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


def _numbers(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = _number(packed, at)
        yield value


def _key(field: int) -> bytes:
    """How a field of that number begins, with a value that has a size: what does not contain this
    has no such field."""
    tag = field << 3 | _SIZED
    return bytes([tag & 127 | 128, tag >> 7])
