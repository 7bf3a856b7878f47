"""The jobs over files and data as commands."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.spark.lake import Lake
from tiltyard.cli import main


class Shell:
    """Runs commands on a catalog and reads what they print as JSON."""

    def __init__(self, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
        self._root = lake.root
        self._capsys = capsys

    def run(self, *arguments: str, status: int = 0) -> list[dict[str, Any]]:
        found = main(["--root", self._root, "-o", "json", "jobs", *arguments])
        printed = self._capsys.readouterr()
        assert found == status, printed.err
        self.told = printed.err
        return json.loads(printed.out) if printed.out else []


@pytest.fixture
def shell(lake: Lake, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(lake, capsys)


def test_files_are_loaded_counted_and_exported(shell: Shell, tmp_path: Path, lake: Lake) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.csv").write_text("Number;name\n1;ann\n2;bob\n")
    (inbox / "b.json").write_text('{"id": 3, "name": "cid"}\n{"id": "x"}\n')
    sources = [f"people={inbox}/a.csv", f"people={inbox}/b.json"]
    options = ["--column", "Number=id", "--delimiter", ";"]

    rows = shell.run("ingest", *sources, *options)
    assert [(row["action"], row["rows"], row["rejected"]) for row in rows] == [
        ("loaded", 2, 0),
        ("loaded", 1, 1),
    ]
    assert {row["action"] for row in shell.run("ingest", *sources, *options)} == {"present"}
    (row,) = shell.run("inventory", "people")
    assert (row["table"], row["rows"], row["state"]) == ("people", 3, "live")
    assert [row["version"] for row in shell.run("inventory", "people", "--versions")] == [1, 2]

    out = str(tmp_path / "out")
    (row,) = shell.run("export", out, "people", "--format", "csv", "--version", "people=2")
    assert (row["action"], row["rows"]) == ("exported", 3)
    (row,) = shell.run("export", out, "people", "--format", "json", status=1)
    assert (row["action"], "another export" in row["error"]) == ("failed", True)

    shell.run("ingest", f"people={inbox}/none", status=1)
    shell.run("ingest", "people", status=2)
    shell.run("export", out, "--version", "people=new", status=2)


def test_orphans_go_only_if_it_is_meant(shell: Shell, lake: Lake) -> None:
    lake.put("t", {"id": [1]})
    stray = Path(lake.root) / "t.lance" / "data" / "stray.lance"
    stray.write_bytes(b"bytes")
    os.utime(stray, (time.time() - 30 * 86400,) * 2)

    (row,) = shell.run("orphans")
    assert (row["path"], row["action"]) == ("t.lance/data/stray.lance", "found")
    shell.run("orphans", "--apply", status=2)  # nobody is there to be asked
    assert stray.exists()
    (row,) = shell.run("orphans", "--apply", "--yes")
    assert (row["action"], stray.exists()) == ("removed", False)

    (row,) = shell.run("migrate", "--dry-run")
    assert (row["table"], row["action"]) == ("t", "present")
