"""By which operation a version was made, as its transaction says.

pylance has no Python form for some operations, and fails on a compaction that remapped an index. So
the file of the transaction is looked at as what it is: a protobuf message with one field for the
operation, whose number tells which.
"""

from __future__ import annotations

from collections.abc import Iterator

from tiltyard.catalog.version_files import VersionFile
from tiltyard.errors import InvalidInputError
from tiltyard.store import NotThere, Store
from tiltyard.tables.fragments import TRANSACTIONS
from tiltyard.versions.staged import transaction_file

UNKNOWN = "unknown"

# The numbers of the fields of Lance's `Transaction`.
_NAMES = {
    100: "Append",
    101: "Delete",
    102: "Overwrite",
    103: "CreateIndex",
    104: "Rewrite",
    105: "Merge",
    106: "Restore",
    107: "ReserveFragments",
    108: "Update",
    109: "Project",
    110: "UpdateConfig",
    111: "DataReplacement",
    112: "UpdateMemWalState",
    113: "Clone",
    114: "UpdateBases",
    115: "DataOverlay",
}

# What leaves every row as it was.
BENIGN = frozenset({"Rewrite", "ReserveFragments"})

_VARINT, _EIGHT_BYTES, _SIZED, _FOUR_BYTES = 0, 1, 2, 5


def operation_of(store: Store, location: str, file: VersionFile) -> str:
    """The operation of a version; "unknown" if nothing tells. Two requests."""
    try:
        name = transaction_file(store.get(file.key).body, file.key)
        body = store.get(f"{location}/{TRANSACTIONS}/{name}").body
        found = [_NAMES[number] for number in _fields(body) if number in _NAMES]
    except (NotThere, InvalidInputError, ValueError, IndexError):
        return UNKNOWN
    return found[0] if len(found) == 1 else UNKNOWN


def _fields(body: bytes) -> Iterator[int]:
    """The numbers of the fields of a protobuf message, in their order."""
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = body[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(body):
        key = varint()
        kind = key & 7
        if kind == _VARINT:
            varint()
        elif kind == _EIGHT_BYTES:
            at += 8
        elif kind == _FOUR_BYTES:
            at += 4
        elif kind == _SIZED:
            size = varint()
            at += size
        else:
            raise ValueError(f"{kind} is no kind of field")
        yield key >> 3
    if at > len(body):
        raise ValueError("the message ends too early")
