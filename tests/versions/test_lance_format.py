"""What the bytes of a staged manifest tell of its commit."""

from __future__ import annotations

import uuid

import pytest

from tiltyard.errors import InvalidInputError
from tiltyard.versions.lance_format import transaction_of

UUID = str(uuid.UUID(int=7))


def _manifest(version: int) -> bytes:
    """As Lance writes it: the length of a name stands before it, in one byte."""
    name = f"{version}-{UUID}.txn".encode()
    return b"LANCE\x12" + bytes([len(name)]) + name + b"\x1a\x02"


@pytest.mark.parametrize("version", [0, 1, 9, 12, 999_999, 1_000_000, 12_345_678, 10**15, 2**63])
def test_the_version_that_a_writer_read_is_found_however_long_it_is(version: int) -> None:
    assert transaction_of(_manifest(version), "key") == (version, UUID)


def test_of_several_the_lowest_counts() -> None:
    both = _manifest(20_000_000) + _manifest(3)
    assert transaction_of(both, "key") == (3, UUID)


def test_a_manifest_without_a_transaction_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="names its transaction"):
        transaction_of(b"nothing", "key")
