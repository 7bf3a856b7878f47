"""What the tests of the doctor share: catalogs of two kinds, and what the doctor finds there."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import lance

import tiltyard
from tests.behaviours.calls import create, make_namespace
from tests.behaviours.trash import clocks_ahead
from tests.maintenance.batch import Lake
from tiltyard import DirectoryNamespace

ROOT = "lake"


def found(catalog: DirectoryNamespace) -> list[tuple[str, str, str]]:
    return [(each.severity.value, each.what, each.where) for each in catalog.health.doctor()]


def later(lake: Lake | DirectoryNamespace) -> DirectoryNamespace:
    """A client that comes ten minutes after."""
    with clocks_ahead(timedelta(minutes=10)):
        return (
            lake.open()
            if isinstance(lake, Lake)
            else tiltyard.connect(**lake.context.settings.as_properties())
        )


def with_rows(tmp_path: Path) -> DirectoryNamespace:
    """A catalog whose tables are rows, with one in a namespace."""
    opened = tiltyard.connect(tmp_path / ROOT, dir_listing_enabled=False)
    make_namespace(opened, "shop")
    create(opened, "shop", "users")
    return opened


def with_both(tmp_path: Path) -> DirectoryNamespace:
    """A catalog of rows and directories, with a table at the root."""
    opened = tiltyard.connect(tmp_path / ROOT)
    create(opened, "people")
    return opened


def past(catalog: DirectoryNamespace) -> lance.LanceDataset:
    """The table as somebody has it who goes past the catalog."""
    return lance.dataset(
        catalog.context.lance.uri(catalog.context.catalog.find(("people",)).location)
    )
