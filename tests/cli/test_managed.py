"""Managed versions on the command line: turning them on, hiding one, the catalog as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tiltyard

MANIFEST = ("--mode", "manifest")
BOTH = ("--mode", "compatible")


@pytest.fixture
def managed(tiltyard: Tiltyard, tmp_path: Path) -> Tiltyard:
    """A managed catalog with a table of two versions."""
    tiltyard(*MANIFEST, "manage")
    (tmp_path / "users.csv").write_text("id\n1\n")
    for how in ("create", "overwrite"):
        made = tiltyard(*MANIFEST, "table", "create", "users", "users.csv", "--mode", how)
        assert made.status == 0, made.err
    return tiltyard


def test_people_see_a_summary_and_what_was_left_out(products: Tiltyard) -> None:
    done = products(*BOTH, "manage", "--dry-run")
    assert (done.status, done.err) == (0, "Would manage 0 tables, 0 versions new; 1 left out.\n")
    done = products(*BOTH, "manage")
    assert done.status == 0
    assert "V1 location" in done.lines[-1]
    assert done.err == "Managed 0 tables, 0 versions new; 1 left out.\n"


def test_versions_are_hidden_and_shown(managed: Tiltyard) -> None:
    hidden = managed(*MANIFEST, "table", "hide-version", "users", "1", "--reason", "wrong")
    assert (hidden.status, hidden.err) == (0, "Version 1 of table users is hidden.\n")
    listed = managed(*MANIFEST, "-o", "json", "table", "versions", "users")
    assert [load["version"] for load in json.loads(listed.out)] == [2]
    assert managed(*MANIFEST, "table", "hide-version", "users", "2").status == 1
    assert managed(*MANIFEST, "table", "hide-version", "users", "9").status == 4
    managed(*MANIFEST, "table", "show-version", "users", "1")
    listed = managed(*MANIFEST, "-o", "json", "table", "versions", "users")
    assert [load["version"] for load in json.loads(listed.out)] == [2, 1]


def test_the_catalog_as_it_was(managed: Tiltyard) -> None:
    now = managed(*MANIFEST, "-o", "json", "snapshot")
    assert [(load["table"], load["version"]) for load in json.loads(now.out)] == [("users", 2)]
    number = int(now.err.split()[1])
    before = managed(*MANIFEST, "-o", "json", "snapshot", str(number - 1))
    assert [load["version"] for load in json.loads(before.out)] == [1]
    assert managed(*MANIFEST, "snapshot", "999").status == 4
