"""A directory that a process may read but not write: reads work, writes say why they don't."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store import workers
from tiltyard.errors import PermissionDeniedError
from tiltyard.store import LocalStore, local

READS = {
    "get": b"1",
    "head": 1,
    "walk": ["folder/object"],
    "first": True,
    # A folder that can't be looked into is there; only listing it fails.
    "list": ("folder", "secret"),
}
WRITES = [
    "put",
    "put_new",
    "put_new elsewhere",
    "replace",
    "replace with a wrong tag",
    "delete",
    "delete_many",
]


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        LocalStore(str(path)).put("folder/object", b"1")
        (path / "secret").mkdir(mode=0o700)
        yield path
        for each in (path, *path.rglob("*")):
            each.chmod(0o755)


@pytest.mark.parametrize("private", ["made by another", "missing"])
def test_a_read_only_directory_is_read_and_not_written(root: Path, private: str) -> None:
    if private == "missing":  # as when only Lance has ever written here
        for room in (root / local.PRIVATE).iterdir():
            for file in room.iterdir():
                file.unlink()
            room.rmdir()
        (root / local.PRIVATE).rmdir()
    (root / "secret").chmod(0o000)
    root.chmod(0o555)

    answers = workers.try_as_nobody(str(root))

    assert {name: answers[name] for name in READS} == READS
    assert {name: answers[name] for name in WRITES} == dict.fromkeys(WRITES, PermissionDeniedError)
    assert answers["list secret"] is PermissionDeniedError
    assert LocalStore(str(root)).get("folder/object").body == b"1"
