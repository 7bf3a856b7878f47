"""A manifest that a writer has staged: where it may lie, and what its bytes tell of the commit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tiltyard import names
from tiltyard.errors import ConcurrentModificationError, InvalidInputError
from tiltyard.store import NotThere, Store

# Lance names the file of a transaction by the version that the writer had read, and a UUID.
_TRANSACTION = re.compile(rb"(\d{1,20})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.txn$")
_SUFFIX = b".txn"
_LONGEST = 20 + 1 + 36 + len(_SUFFIX)


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
    found = [match.groups() for match in _names(body)]
    if not found:
        raise InvalidInputError(
            f"{key} is not a manifest that names its transaction, so it can't be told which "
            f"version it is based on"
        )
    number, uuid = min(found, key=lambda each: int(each[0]))
    return int(number), uuid.decode()


def _names(body: bytes) -> Iterator[re.Match[bytes]]:
    """Looks at the few places where such a name ends, not at every number in a manifest."""
    end = body.find(_SUFFIX)
    while end >= 0:
        end += len(_SUFFIX)
        match = _TRANSACTION.search(body, max(0, end - _LONGEST), end)
        if match:
            yield match
        end = body.find(_SUFFIX, end)
