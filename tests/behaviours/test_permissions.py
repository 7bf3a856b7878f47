"""A directory that may be read and not written: reads work, and writes say why they don't."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lance_namespace.errors import ErrorCode

from tests.behaviours.calls import create, deregister
from tests.behaviours.conftest import open_catalog
from tests.behaviours.modes import Mode
from tests.behaviours.nobody import ask_as_nobody
from tests.behaviours.places import Disk

READS = {
    "list_tables": ["people"],
    "list_all_tables": ["people"],
    "list_namespaces": [],
    "table_exists": True,
    "describe_table": 1,
}
WRITES = {"declare_table", "create_table", "overwrite", "deregister_table", "drop_table"}
WRITES_OF_MANIFEST = {"rename_table", "create_namespace"}
WRITES_OF_DIRECTORIES = {"register_table"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that every user can reach, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as path:
        Path(path).chmod(0o755)
        yield Path(path)
        _permit(Path(path), 0o755, 0o644)


def _permit(root: Path, folders: int, files: int) -> None:
    for parent, _, names in os.walk(root):
        os.chmod(parent, folders)
        for name in names:
            os.chmod(os.path.join(parent, name), files)


def test_a_read_only_catalog_is_read_and_not_written(mode: Mode, folder: Path) -> None:
    place = Disk(str(folder))
    catalog = open_catalog(mode, place)
    create(catalog, "people")
    create(catalog, "outside")
    deregister(catalog, "outside")
    _permit(folder, 0o555, 0o444)
    before = place.files()

    answers = ask_as_nobody({"root": place.root, **mode.properties})

    assert {name: answers[name] for name in READS} == READS
    refused = WRITES | (WRITES_OF_MANIFEST if mode.has_manifest else set())
    refused |= WRITES_OF_DIRECTORIES if mode.lists_directories else set()
    assert {name: answers[name] for name in refused} == dict.fromkeys(
        refused, ErrorCode.PERMISSION_DENIED
    )
    assert place.files() == before
