"""A manifest that a writer has staged: what its bytes tell about the commit."""

from __future__ import annotations

import re

from tiltyard.errors import InvalidInputError

# Lance names the file of a transaction by the version that the writer had read, and a UUID.
_TRANSACTION = re.compile(rb"(\d{1,20})-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.txn")


def read_version(body: bytes, key: str) -> int:
    """The version that a writer started from. A commit that was rebased keeps the original one.

    Should other text in the manifest look the same, the lowest number counts: it may only refuse
    too much.
    """
    found = _TRANSACTION.findall(body)
    if not found:
        raise InvalidInputError(
            f"{key} is not a manifest that names its transaction, so it can't be told which "
            f"version it is based on"
        )
    return min(int(number) for number, _ in found)
