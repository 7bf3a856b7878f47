"""Lance asks us about a commit from a thread of its own, while others change the catalog."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import tiltyard
from tests.behaviours.calls import create, declare
from tests.behaviours.modes import Mode, with_manifest

ROWS = pa.table({"id": [1]})


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@with_manifest
def test_a_commit_finds_its_table_in_a_catalog_that_others_have_changed(
    mode: Mode, tmp_path: Path
) -> None:
    """The manifest has to be read anew inside Lance's question, which once ended the process."""
    catalog, other = (
        tiltyard.connect(str(tmp_path), table_version_tracking_enabled=True, **mode.properties)
        for _ in range(2)
    )
    create(catalog, "people", data=ROWS)
    opened = lance.dataset(namespace_client=catalog, table_id=["people"])
    declare(other, "plants")

    opened.insert(ROWS)

    assert lance.dataset(namespace_client=other, table_id=["people"]).count_rows() == 2
